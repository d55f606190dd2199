"""What callers hand over wrongly gets one sentence, not an error from inside torch; the loop over batches."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import uproar
from uproar import tensors
from uproar.errors import BadInput, BadShape
from uproar.tensors import in_batches, spans

X = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0])
MAPS = X.mean(1)
GONE = MAPS > 0.5
NET = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tensors.check_model("cnn-small"), "is a torch.nn.Module, not str"),
        (lambda: tensors.check_images(X * torch.nan), "NaN or infinite pixels"),
        (lambda: tensors.check_images(X[:0]), "give at least one"),
        (lambda: tensors.check_images(X[0]), r"\(n, c, h, w\), not \(3, 8, 8\)"),
        (lambda: tensors.check_like(X[:, :1], X, "train"), r"those of train= \(1, 8, 8\)"),
        (lambda: tensors.check_batch_size(0), "at least 1, not 0"),
        (lambda: tensors.classes_of("cat", 4, "targets"), "whole numbers, one per image, not 'cat'"),
        (lambda: tensors.classes_of(None, 4, "labels"), "labels are whole numbers"),
        (lambda: tensors.classes_of(torch.rand(4), 4, "labels"), "whole numbers, one per image, not float32"),
        (lambda: tensors.classes_of([1, 2], 4, "labels"), r"labels of shape \(2,\)"),
        (lambda: tensors.colour_of("red", X, "value"), "one number per channel, not 'red'"),
        (lambda: tensors.colour_of([0.1, 0.2], X, "mean"), "has 2 numbers, .* 3 channels"),
        (lambda: uproar.explain(NET, X, []), "There are no estimators"),
        (lambda: uproar.removed(MAPS, 0.5, index=[0]), "4 maps but 1 indices"),
        (lambda: uproar.fill(X, GONE.float(), "zero"), "tensor of bool"),
        (lambda: uproar.score(NET, X, Y, MAPS, []), "There are no metrics"),
        (lambda: uproar.score(NET, X, Y, {}, ["complexity"]), "There are no maps"),
        (lambda: uproar.run({"limit": 0}), "limit must be at least 1, not 0"),
        (lambda: uproar.run(budget=-1), "above 0, not -1"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, sentence):
    with pytest.raises((BadInput, BadShape), match=sentence):
        call()


def test_the_mean_colour_is_that_of_the_training_images_where_none_is_given():
    own = uproar.score(NET, X, Y, MAPS, "deletion", train=X)
    told = uproar.score(NET, X, Y, MAPS, ["deletion"], mean=X.mean((0, 2, 3)))
    assert own["value"].tolist() == told["value"].tolist()


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_the_result_is_as_if_called_once(size):
    assert [(s.start, s.stop) for s in spans(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    x, y = torch.arange(22.0).view(11, 2), torch.arange(11)
    total = in_batches(lambda a, b: a.sum(1) + b, x, y, size=size)
    assert torch.equal(total, x.sum(1) + y)
    tuples = in_batches(lambda a: (a, a * 2), x, size=size)
    assert torch.equal(tuples[1], 2 * x)
    tables = in_batches(lambda a: {"a": a[:, 0]}, x, size=size)
    assert torch.equal(tables["a"], x[:, 0])


def test_bad_sizes_and_lengths_are_refused():
    with pytest.raises(BadInput, match="at least one"):
        in_batches(lambda a: a, torch.zeros(3, 1), size=0)
    with pytest.raises(BadInput, match="no samples"):
        in_batches(lambda a: a, torch.zeros(0, 1), size=2)
    with pytest.raises(BadShape, match="3, 2"):
        in_batches(lambda a, b: a, torch.zeros(3), torch.zeros(2), size=2)
