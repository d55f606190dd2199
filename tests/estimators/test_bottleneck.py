"""The bottleneck agrees with recorded runs, with the definition of its cost, and with models whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import nn
from torch.distributions import Normal, kl_divergence

from uproar.data.task import Split
from uproar.errors import BadInput, NotApplicable, UnknownName
from uproar.estimators import raw_maps, read_chain
from uproar.estimators.bottleneck import (
    FeatureMatching,
    Fit,
    Site,
    bits_per_pixel,
    fit_bottleneck,
    fit_mask,
    information,
    prepare_iba,
    prepare_input_iba,
    smoothed,
    statistics,
)
from uproar.estimators.explain import prepare_states
from uproar.estimators.layers import features_at, middle_feature_map, named_feature_map, pyramid
from uproar.estimators.registry import Context, estimators
from uproar.models.forward import borrowed
from uproar.models.small import cnn_small, resnet_small
from uproar.seeds import Draws


def small(build=cnn_small, shape=(1, 8, 8), classes=3) -> nn.Module:
    torch.manual_seed(0)
    c = shape[0]
    return build(shape, classes, torch.full((c,), 0.5), torch.full((c,), 0.3)).eval()


def images(n: int, shape=(1, 8, 8)) -> torch.Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(n))


def context_of(n: int, train: torch.Tensor) -> Context:
    return Context(Draws.of(0, n), train=Split("train", train, torch.zeros(len(train)).long()))


def maps_of(text: str, model: nn.Module, x, target, context: Context, batch: int = 64):
    chain = read_chain(text)
    context = replace(context, states=prepare_states(model, context, [chain]))
    return raw_maps(model, x, target, context, [chain.raw], batch)[chain.raw]


def test_the_recorded_run_is_repeated_with_its_noise_and_statistics(golden, tiny32) -> None:
    """Tolerance 1e-4, on information of up to 5 nats per feature and 7.5 bits per pixel."""
    run = golden("iba")
    site = Site(tiny32, tiny32.relu1, run["feat_mean"], run["feat_std"], run["active"])
    x, target = run["image"], run["label"].view(1)
    with borrowed(tiny32), torch.no_grad():
        features = features_at(tiny32, tiny32.relu1, x)
        capacity, alpha = fit_bottleneck(
            site, x, target, features, lambda step, _: run["noise_draws"][step][None], Fit(10, 10, 1, 1)
        )
    torch.testing.assert_close(capacity[0], run["capacity_nats"], atol=1e-4, rtol=0)
    torch.testing.assert_close(alpha[0], run["alpha_final"], atol=1e-4, rtol=0)
    bits = bits_per_pixel(capacity, (32, 32))[0, 0]
    torch.testing.assert_close(bits, run["saliency_bits"], atol=1e-4, rtol=0)


def test_information_is_the_divergence_of_the_mixture_from_the_noise() -> None:
    r, mean = torch.randn(2, 3, 4, 4).double(), torch.randn(3, 4, 4).double()
    std, share = torch.rand(3, 4, 4).double() + 0.5, torch.rand(2, 3, 4, 4).double() * 0.9
    mixture = Normal(share * r + (1 - share) * mean, (1 - share) * std)
    torch.testing.assert_close(information(r, share, mean, std), kl_divergence(mixture, Normal(mean, std)))


def test_what_is_let_through_entirely_costs_a_finite_amount() -> None:
    cost = information(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]), torch.zeros(()), torch.ones(()))
    assert torch.isfinite(cost).all()
    assert cost[0] > 10
    assert cost[1] == 0


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.7])
def test_smoothing_is_a_gaussian_filter_mirrored_at_the_border(sigma: float) -> None:
    share = torch.rand(2, 3, 9, 7).double()
    wanted = gaussian_filter(share.numpy(), (0, 0, sigma, sigma), mode="mirror", radius=(0, 0, *[round(2 * sigma)] * 2))
    np.testing.assert_allclose(smoothed(share, sigma).numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_smoothing_keeps_a_constant_on_maps_smaller_than_the_filter(side: int) -> None:
    flat = torch.full((1, 1, side, side), 0.25)
    torch.testing.assert_close(smoothed(flat, 1.0), flat)
    assert smoothed(flat, None) is flat
    assert smoothed(flat, 0) is flat


def test_statistics_are_those_of_all_features_at_once_for_more_images_than_a_part() -> None:
    model, train = small(), images(600)
    module = model[1]
    with torch.no_grad():
        all_features = module(model[0](train)).double()
        known = statistics(model, module, context_of(1, train).train, 1000)
    torch.testing.assert_close(known["mean"], all_features.mean(0).float(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(known["std"], all_features.std(0).float(), atol=1e-6, rtol=1e-5)
    assert torch.equal(known["active"], (all_features != 0).double().mean(0) > 0.01)


def test_features_that_are_never_used_carry_no_information() -> None:
    model = small()
    model[1][1].bias.data[3] = -100.0  # the ReLU after it is always zero
    x, target = images(4), torch.arange(4) % 3
    train = images(50)
    state = prepare_iba(model, context_of(4, train), layer="1")
    assert not state["active"][3].any()
    assert state["active"][2].any()
    site = Site(model, model[1], state["mean"], state["std"], state["active"])
    with borrowed(model), torch.no_grad():
        features = features_at(model, model[1], x)
        capacity, _ = fit_bottleneck(
            site, x, target, features, lambda _, shape: torch.randn(4, 3, *shape), Fit(1, 3, 1, 1)
        )
    assert (capacity[:, 3] == 0).all()
    assert (capacity[:, 2][:, state["active"][2]] > 0).all()


class LeftOnly(nn.Module):
    """Two convolutions that copy the image; the score is the brightness of the left half."""

    def __init__(self, size: int, shift: float = 0.0) -> None:
        super().__init__()
        self.shift = shift
        self.first, self.second = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1)
        for conv in (self.first, self.second):
            conv.weight.data.fill_(1)
            conv.bias.data.zero_()
        weight = torch.zeros(1, 1, size, size)
        weight[..., : size // 2] = 1
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = (self.second(self.first(x - self.shift)) * self.weight).flatten(1).sum(1)
        return torch.stack([score, -score], 1)


def test_information_is_let_through_only_where_the_score_looks() -> None:
    model, train = LeftOnly(8), images(200) - 0.5
    x = torch.full((4, 1, 8, 8), 0.4)
    maps = maps_of("iba(sigma=0, beta=1)", model, x, torch.tensor([0, 0, 0, 0]), context_of(4, train))
    left, right = maps[..., :4], maps[..., 4:]
    assert maps.shape == (4, 1, 8, 8)
    assert (left.mean((1, 2, 3)) > 2 * right.mean((1, 2, 3))).all()


def test_the_model_is_left_as_it_was_also_after_an_error() -> None:
    model, x, target = small(), images(4), torch.zeros(4).long()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    context = context_of(4, images(20))
    maps_of("iba(steps=2)", model, x, target, context)
    wrong = torch.full((4,), 99)
    with pytest.raises(BadInput, match="99"):
        maps_of("iba(steps=2)", model, x, wrong, context)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_the_layer_is_the_deepest_fine_one_that_nothing_goes_around() -> None:
    model, x = small(resnet_small, (1, 32, 32)), images(2, (1, 32, 32))
    chosen = middle_feature_map(model, x)
    assert (chosen.name, chosen.shape) == ("3", (32, 16, 16))
    assert [each.name for each in pyramid(model, x, 3)] == ["2", "3", "4"]
    assert middle_feature_map(small(), images(2)).name == "1", "the last convolution is after it"


def test_a_layer_can_be_named() -> None:
    model, x = small(), images(2)
    assert named_feature_map(model, x, "2").shape == (32, 2, 2)
    context = context_of(2, images(20))
    assert prepare_iba(model, context, layer="2")["mean"].shape == (32, 2, 2)
    assert dict(estimators["iba"].bind(layer=2))["layer"] == "2"
    with pytest.raises(UnknownName, match=r"'1.7'.*Did you mean '1.2'"):
        prepare_iba(model, context, layer="1.7")
    with pytest.raises(NotApplicable, match="'4' does not make one feature map"):
        prepare_iba(model, context, layer="4")


def test_models_without_convolutions_and_runs_without_training_images_are_refused() -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(NotApplicable, match="convolution"):
        prepare_iba(dense, context_of(2, images(20)))
    with pytest.raises(NotApplicable, match="iba needs training images; give train="):
        prepare_iba(small(), Context(Draws.of(0, 2)))


# the bottleneck at the input

FAST = "steps=3, feature_steps=2, epochs=1, pool=12, batch=4, critic_steps=2, samples=3"


def test_the_recorded_cost_of_the_input_bottleneck_is_repeated(golden) -> None:
    """Tolerance 1e-6, on costs of up to a few nats."""
    run = golden("input_iba_kl")
    result = information(run["x"], run["lam"], run["mean"], run["std"], run["gen_mask"])
    torch.testing.assert_close(result, run["kl"], atol=1e-6, rtol=1e-6)


def test_the_cost_is_the_divergence_from_what_the_generator_lets_through() -> None:
    x, share, prior = (torch.randn(3, 4).double(), torch.rand(3, 4).double(), torch.rand(3, 4).double())
    here = Normal(share * x, 1 - share)
    there = Normal(prior * share * x, 1 - prior * share)
    torch.testing.assert_close(
        information(x, share, torch.zeros(()), torch.ones(()), prior), kl_divergence(here, there)
    )


def test_nothing_is_paid_under_the_generators_mask_and_a_finite_price_outside() -> None:
    x, share = torch.randn(50), torch.rand(50)
    ones, zeros = torch.ones(50), torch.zeros(50)
    torch.testing.assert_close(information(x, share, zeros, ones, ones), zeros, atol=1e-6, rtol=0)
    assert torch.isfinite(information(x, ones, zeros, ones, ones)).all()
    assert torch.isfinite(information(x, ones, zeros, ones, zeros)).all()


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


def test_pixels_are_let_through_only_where_the_score_looks() -> None:
    x = torch.full((3, 1, 8, 8), 0.9)
    text = "input_iba(epochs=1, steps=20, sigma=0)"
    maps = maps_of(text, LeftOnly(8, shift=0.5), x, torch.zeros(3).long(), context_of(3, images(200)))
    assert maps.shape == (3, 1, 8, 8)
    assert maps.min() >= 0
    assert maps.max() <= 1
    assert (maps[..., :4].mean((1, 2, 3)) > 2 * maps[..., 4:].mean((1, 2, 3))).all()


def test_the_colours_of_the_training_images_are_measured() -> None:
    train = torch.rand(50, 3, 8, 8) * torch.tensor([1.0, 0.5, 0.0]).view(1, 3, 1, 1)
    state = prepare_input_iba(small(shape=(3, 8, 8)), context_of(2, train))
    torch.testing.assert_close(state["colour_mean"], train.mean((0, 2, 3)))
    torch.testing.assert_close(state["colour_std"][:2], train.std((0, 2, 3))[:2])
    assert state["colour_std"][2] == 1, "a channel that never varies is left as it is"


def test_what_the_input_bottleneck_cannot_explain_is_refused() -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(NotApplicable, match="convolution"):
        prepare_input_iba(dense, context_of(2, images(20)))
    with pytest.raises(NotApplicable, match="input_iba needs training images; give train="):
        prepare_input_iba(small(), Context(Draws.of(0, 2)))
    with pytest.raises(BadInput, match="99"):
        maps_of(f"input_iba({FAST})", small(), images(2), torch.full((2,), 99), context_of(2, images(20)))
