"""The registry's vision transformer: its tokens, its options, and that it learns with its recipe."""

from __future__ import annotations

import pytest
import torch

import uproar
from tests.closeness import alike
from uproar.data import load
from uproar.errors import BadOption
from uproar.models import ModelSpec, build, make
from uproar.training import Recipe, fit, predict


def vit(options="", shape=(3, 8, 8), classes=3):
    name = f"vit-small(width=16, depth=2, heads=2{options})"
    return make(ModelSpec.of(name), 0, shape, classes, torch.zeros(shape[0]), torch.ones(shape[0])).eval()


@pytest.mark.parametrize(
    ("options", "shape", "tokens"),
    [
        ("", (1, 8, 8), 1 + 4 * 4),
        (", patch=4", (3, 12, 20), 1 + 3 * 5),
        (", patch=5, registers=3", (3, 12, 20), 1 + 3 + 3 * 4),  # patches at the edge are filled up with zeros
    ],
)
def test_there_is_a_token_for_every_patch_beside_class_token_and_registers(options, shape, tokens):
    model, seen = vit(options, shape), []
    model.blocks[-1].register_forward_hook(lambda _module, _inputs, output: seen.append(tuple(output.shape)))
    assert model(torch.rand(2, *shape)).shape == (2, 3)
    assert seen == [(2, tokens, 16)]


def test_a_width_that_the_heads_cannot_share_is_refused():
    with pytest.raises(BadOption, match="width=16 cannot be shared among heads=3"):
        make(ModelSpec.of("vit-small(width=16, heads=3)"), 0, (1, 8, 8), 3, torch.zeros(1), torch.ones(1))


def test_answers_and_maps_are_the_same_for_any_batch():
    model, x = vit(", registers=1"), torch.rand(19, 3, 8, 8)
    target = torch.arange(19) % 3
    answers, maps = uproar.predict(model, x, 19), uproar.explain(model, x, "ig(steps=3)", target=target)
    for size in (1, 2, 7):
        assert alike(uproar.predict(model, x, size), answers)
        assert alike(uproar.explain(model, x, "ig(steps=3)", target=target, batch_size=size), maps)


def test_it_learns_digits_with_its_recipe():
    task = load("digits")
    model = build(ModelSpec.of("vit-small(width=32, depth=2)"), task, 0)
    fit(model, task.train.read(slice(None)), task.train.labels, Recipe.named("vit-small", epochs=4), 0)
    right = predict(model, task.test.read(slice(None))).argmax(1) == task.test.labels
    assert right.float().mean() > 0.8  # chance is 0.1
