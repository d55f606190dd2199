"""The input bottleneck agrees with the recorded cost, plays its game the right way round, and finds known pixels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from tests.closeness import alike
from uproar.data.task import Split
from uproar.errors import BadInput, BadOption, NotApplicable
from uproar.estimators import raw_maps, read_chain
from uproar.estimators.bottleneck import (
    FeatureMatching,
    first_mask,
    fit_mask,
    information,
    information_beyond,
    prepare_input_iba,
)
from uproar.estimators.explain import prepare_states
from uproar.estimators.registry import Context
from uproar.models.forward import borrowed
from uproar.models.small import cnn_small, resnet_small
from uproar.seeds import Draws

FAST = "steps=3, feature_steps=2, epochs=1, pool=12, batch=4, critic_steps=2, samples=3"


def small(build=cnn_small, shape=(1, 8, 8)) -> nn.Module:
    torch.manual_seed(0)
    c = shape[0]
    return build(shape, 3, torch.full((c,), 0.5), torch.full((c,), 0.3)).eval()


def images(n: int, shape=(1, 8, 8)) -> torch.Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(n))


def context_of(n: int, train: torch.Tensor) -> Context:
    return Context(Draws.of(0, n), train=Split("train", train, torch.zeros(len(train)).long()))


def maps_of(text: str, model: nn.Module, x, target, context: Context, batch: int = 64):
    chain = read_chain(text)
    context = replace(context, states=prepare_states(model, context, [chain]))
    return raw_maps(model, x, target, context, [chain.raw], batch)[chain.raw]


def test_the_recorded_cost_is_repeated(golden) -> None:
    """Tolerance 1e-6, on costs of up to a few nats."""
    run = golden("input_iba_kl")
    mean, std = float(run["mean"]), float(run["std"])
    result = information_beyond(run["x"], run["lam"], run["gen_mask"], mean, std)
    torch.testing.assert_close(result, run["kl"], atol=1e-6, rtol=1e-6)


def test_the_cost_is_the_divergence_from_what_the_generator_lets_through() -> None:
    x, share, prior = (torch.randn(3, 4).double(), torch.rand(3, 4).double(), torch.rand(3, 4).double())
    here = Normal(share * x, 1 - share)
    there = Normal(prior * share * x, 1 - prior * share)
    torch.testing.assert_close(information_beyond(x, share, prior), kl_divergence(here, there))


def test_nothing_is_paid_under_the_generators_mask_and_the_plain_price_outside() -> None:
    x, share = torch.randn(50), torch.rand(50)
    ones, zeros = torch.ones(50), torch.zeros(50)
    torch.testing.assert_close(information_beyond(x, share, ones), zeros, atol=1e-6, rtol=0)
    plain = information(x, share, zeros, ones)
    torch.testing.assert_close(information_beyond(x, share, zeros), plain)
    assert torch.isfinite(information_beyond(x, ones, ones)).all()
    assert torch.isfinite(information_beyond(x, ones, zeros)).all()


def test_the_generator_starts_from_the_information_map_with_largest_value_one() -> None:
    capacity = torch.zeros(2, 3, 4, 4)
    capacity[0, 1, 2, 2] = 5.0
    mask = first_mask(capacity, (4, 4))
    assert mask[0, 0, 2, 2] == 1
    assert mask[0].sum() == 1
    assert (mask[1] == 0).all(), "an image without information has an empty mask, not NaN"


class Copy(nn.Module):
    """A layer that gives the image back."""

    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Conv2d(1, 1, 1)
        self.same.weight.data.fill_(1)
        self.same.bias.data.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.same(x).flatten(1).sum(1, keepdim=True)


def test_the_game_opens_the_mask_where_the_features_keep_the_image() -> None:
    """The features are the image itself on the left and noise on the right; a game played backwards fails this."""
    model = Copy()
    image = torch.full((1, 8, 8), 3.0)
    through = torch.zeros(1, 8, 8)
    through[..., :4] = 1
    unit = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    task = FeatureMatching(model, model.same, image, unit, image, through, Draws.of(0, 1))
    with borrowed(model), torch.no_grad():
        mask = fit_mask(
            task,
            torch.full((1, 8, 8), 0.5),
            epochs=40,
            pool=32,
            batch=32,
            noise_mean=0.0,
            noise_std=1.0,
            critic_steps=2,
            critic_lr=1e-3,
            mean_lr=1e-9,
            spread_lr=1e-9,
            mask_lr=0.02,
        )
    assert mask[..., :4].mean() > 0.7
    assert mask[..., 4:].mean() < 0.3
    assert mask.min() >= 0
    assert mask.max() <= 1


class LeftOnly(nn.Module):
    """Two convolutions that copy the image; the score is the brightness of the left half."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1)
        for conv in (self.first, self.second):
            conv.weight.data.fill_(1)
            conv.bias.data.zero_()
        weight = torch.zeros(1, 1, 8, 8)
        weight[..., :4] = 1
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = (self.second(self.first(x - 0.5)) * self.weight).flatten(1).sum(1)
        return torch.stack([score, -score], 1)


def test_pixels_are_let_through_only_where_the_score_looks() -> None:
    x = torch.full((3, 1, 8, 8), 0.9)
    text = "input_iba(epochs=1, steps=20, sigma=0)"
    maps = maps_of(text, LeftOnly(), x, torch.zeros(3).long(), context_of(3, images(200)))
    assert maps.shape == (3, 1, 8, 8)
    assert maps.min() >= 0
    assert maps.max() <= 1
    assert (maps[..., :4].mean((1, 2, 3)) > 2 * maps[..., 4:].mean((1, 2, 3))).all()


@pytest.mark.parametrize(("build", "guide"), [(cnn_small, "share"), (resnet_small, "capacity")])
def test_a_map_does_not_depend_on_the_batch_or_the_order(build, guide) -> None:
    shape = (3, 13, 11)  # odd: vector kernels treat the last numbers of a batch differently
    model, x, target = small(build, shape), images(9, shape), torch.arange(9) % 3
    context = context_of(9, images(40, shape))
    text = f"input_iba({FAST}, guide={guide})"
    whole = maps_of(text, model, x, target, context)
    assert whole.shape == (9, 1, 13, 11)
    assert torch.isfinite(whole).all()
    for size in (1, 4):
        assert alike(maps_of(text, model, x, target, context, size), whole)
    order = torch.randperm(9).tolist()
    turned = maps_of(text, model, x[order], target[order], context[order])
    assert alike(turned, whole[order])


def test_the_model_and_the_global_random_numbers_are_left_as_they_were() -> None:
    model, x, target = small(), images(3), torch.zeros(3).long()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    maps_of(f"input_iba({FAST})", model, x, target, context_of(3, images(20)))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_colours_of_the_training_images_are_measured() -> None:
    train = torch.rand(50, 3, 8, 8) * torch.tensor([1.0, 0.5, 0.0]).view(1, 3, 1, 1)
    state = prepare_input_iba(small(shape=(3, 8, 8)), context_of(2, train))
    torch.testing.assert_close(state["colour_mean"], train.mean((0, 2, 3)))
    torch.testing.assert_close(state["colour_std"][:2], train.std((0, 2, 3))[:2])
    assert state["colour_std"][2] == 1, "a channel that never varies is left as it is"


def test_what_cannot_be_explained_is_refused() -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(NotApplicable, match="convolution"):
        prepare_input_iba(dense, context_of(2, images(20)))
    with pytest.raises(NotApplicable, match="input_iba needs training images; give train="):
        prepare_input_iba(small(), Context(Draws.of(0, 2)))
    with pytest.raises(BadInput, match="99"):
        maps_of(f"input_iba({FAST})", small(), images(2), torch.full((2,), 99), context_of(2, images(20)))


@pytest.mark.parametrize("option", ["beta=0", "epochs=-1", "pool=1", "clip=0", "guide=both", "gan=1"])
def test_impossible_options_are_refused_when_planned(option: str) -> None:
    with pytest.raises(BadOption):
        read_chain(f"input_iba({option})")
