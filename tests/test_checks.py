"""What callers hand over wrongly gets one sentence, not an error from inside torch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import uproar
from uproar import checks as given
from uproar.errors import BadInput, BadShape

X = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0])
MAPS = X.mean(1)
GONE = MAPS > 0.5
NET = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: given.check_model("cnn-small"), "is a torch.nn.Module, not str"),
        (lambda: given.check_images(X * torch.nan), "NaN or infinite pixels"),
        (lambda: given.check_images(X[:0]), "give at least one"),
        (lambda: given.check_images(X[0]), r"\(n, c, h, w\), not \(3, 8, 8\)"),
        (lambda: given.check_like(X[:, :1], X, "train"), r"those of train= \(1, 8, 8\)"),
        (lambda: given.check_batch_size(0), "at least 1, not 0"),
        (lambda: given.classes_of("cat", 4, "targets"), "whole numbers, one per image, not 'cat'"),
        (lambda: given.classes_of(None, 4, "labels"), "labels are whole numbers"),
        (lambda: given.classes_of(torch.rand(4), 4, "labels"), "whole numbers, not float32"),
        (lambda: given.classes_of([1, 2], 4, "labels"), r"labels of shape \(2,\)"),
        (lambda: given.colour_of("red", X, "value"), "one number per channel, not 'red'"),
        (lambda: given.colour_of([0.1, 0.2], X, "mean"), "has 2 numbers, .* 3 channels"),
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
