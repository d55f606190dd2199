"""Networks of the registry: folded for evaluation, the transformer, and those set by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import uproar
from tests.closeness import alike
from uproar.data import load
from uproar.data.planted import GRID, PLACES, RULES
from uproar.errors import BadInput, BadOption
from uproar.models import ModelSpec, build, make
from uproar.models.copies import folded
from uproar.models.normalise import Normalise
from uproar.models.small import cnn_small, resnet_small
from uproar.training import Recipe, fit, predict

MEAN, STD = torch.tensor([0.3, 0.5]), torch.tensor([0.2, 0.4])


def trained(network: nn.Module) -> nn.Module:
    """A network whose batch norms have seen images."""
    draw = torch.Generator().manual_seed(0)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 2, generator=draw)
            nn.init.normal_(part.bias, generator=draw)
    network.train()(torch.rand(16, 2, 8, 8, generator=draw))
    return network


@pytest.mark.parametrize("make", [cnn_small, resnet_small])
def test_a_folded_network_has_the_same_scores_and_no_batch_norms(make):
    network = trained(make((2, 8, 8), 3, MEAN, STD))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    fold, x = folded(network), torch.rand(5, 2, 8, 8)
    assert not fold.training and network.training
    assert not any(isinstance(part, nn.BatchNorm2d) for part in fold.modules())
    with torch.no_grad():
        torch.testing.assert_close(fold(x), network.eval()(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_batch_norm_is_left_where_nothing_says_what_comes_before_it():
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.first = nn.BatchNorm2d(4), nn.Conv2d(2, 4, 3)

        def forward(self, x):
            return self.norm(self.first(x).relu()).mean((2, 3))

    network, x = trained(Apart()).eval(), torch.rand(3, 2, 8, 8)
    with torch.no_grad():
        assert torch.equal(folded(network)(x), network(x))


def test_normalising_has_the_same_bits_in_either_layout():
    normalise, x = Normalise(MEAN, STD), torch.rand(5, 2, 6, 8)
    last = normalise(x.contiguous(memory_format=torch.channels_last))
    assert torch.equal(normalise(x), last) and last.is_contiguous(memory_format=torch.channels_last)


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
    combinations = list(itertools.product((0, 1), repeat=RULES[rule][0]))
    images = torch.full((len(combinations), 1, 16, 16), 0.25)
    for image, parts in zip(images, combinations, strict=True):
        for place, there in zip(PLACES, parts, strict=False):
            row, column = divmod(place, GRID)
            image[0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 0.7 if there else 0.25
    answers = dict(zip(combinations, predict(model, images).argmax(1).tolist(), strict=True))
    for parts, answer in answers.items():
        assert answer == int(RULES[rule][1](*parts)), parts
    for number in range(RULES[rule][0]):
        flipped = [(*parts[:number], 1 - parts[number], *parts[number + 1 :]) for parts in combinations]
        assert any(answers[one] != answers[other] for one, other in zip(combinations, flipped, strict=True))


def test_a_saturated_network_has_no_gradient():
    task, model = pair("saturating")
    x = task.test.images[task.test.labels == 1].requires_grad_()
    score = model(x)[:, 1]
    assert score.min() > 0
    assert not torch.autograd.grad(score.sum(), x)[0].any()


def test_training_leaves_a_network_set_by_hand_as_it_is():
    task, model = pair("or")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(model, task.train.images, task.train.labels, Recipe(epochs=1), 0)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_another_task_is_refused():
    with pytest.raises(BadInput, match="two classes and images from 16×16"):
        build(ModelSpec.of("hand-set"), load("digits"), 0)
