"""Networks set by hand: right in every image, blind to all but the parts of their rule, changed by each of these."""

from __future__ import annotations

import itertools

import pytest
import torch

from uproar.data import load
from uproar.data.planted import GRID, PLACES, RULES
from uproar.errors import BadInput
from uproar.models import ModelSpec, build
from uproar.training import fit, predict
from uproar.training.recipe import Recipe


def pair(rule, size=16, channels=1):
    task = load(f"hand-set(rule={rule}, size={size}, channels={channels}, train=8, test=200)")
    return task, build(ModelSpec.of(f"hand-set(rule={rule})"), task, 0).eval()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("size", "channels"), [(16, 1), (37, 3)])
def test_a_network_is_right_and_uses_its_parts_alone(rule, size, channels):
    task, model = pair(rule, size, channels)
    x, masks = task.test.images, task.test.masks
    logits = predict(model, x)
    assert torch.equal(logits.argmax(1), task.test.labels)
    noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(3))
    outside = torch.where(masks[:, None], x, noise)
    assert torch.allclose(predict(model, outside), logits, atol=1e-4), "what is not used changes nothing"
    inside = torch.where(masks[:, None], noise, x)
    assert not torch.allclose(predict(model, inside), logits, atol=1)


@pytest.mark.parametrize("rule", RULES)
def test_every_used_part_decides_somewhere(rule):
    """Parts drawn by hand, all combinations: the class is the rule's, and each used part turns it in some of them."""
    _, model = pair(rule)
    combinations = list(itertools.product((0, 1), repeat=RULES[rule].uses))
    images = torch.full((len(combinations), 1, 16, 16), 0.25)
    for image, parts in zip(images, combinations, strict=True):
        for place, there in zip(PLACES, parts, strict=False):
            row, column = divmod(place, GRID)
            image[0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 0.7 if there else 0.25
    answers = dict(zip(combinations, predict(model, images).argmax(1).tolist(), strict=True))
    for parts, answer in answers.items():
        assert answer == int(RULES[rule].holds(*parts)), parts
    for number in range(RULES[rule].uses):
        flipped = [(*parts[:number], 1 - parts[number], *parts[number + 1 :]) for parts in combinations]
        assert any(answers[one] != answers[other] for one, other in zip(combinations, flipped, strict=True))


def test_a_saturated_network_has_no_gradient_and_a_shattered_one_has_both_signs():
    for rule, expected in (("saturating", {0.0}), ("shattered", {-1.0, 1.0})):
        task, model = pair(rule)
        x = task.test.images[task.test.labels == 1].requires_grad_()
        score = model(x)[:, 1]
        assert score.min() > 0
        gradient = torch.autograd.grad(score.sum(), x)[0].sum((1, 2, 3))
        assert set(gradient.sign().tolist()) == expected


def test_training_leaves_a_network_set_by_hand_as_it_is():
    task, model = pair("or")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(model, task.train.images, task.train.labels, Recipe(epochs=1), 0)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_another_task_is_refused():
    with pytest.raises(BadInput, match="two classes and images from 16×16"):
        build(ModelSpec.of("hand-set"), load("digits"), 0)
