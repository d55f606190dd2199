"""LIME and Kernel SHAP: pieces of the image, sets of pieces, and the regressions on them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.estimators.perturbing import Linear, around, images
from uproar.errors import BadOption
from uproar.estimators.perturbation import coalitions, kernel_shap, lime, ridge_effects
from uproar.training.finetune import grid_cells


class Game(nn.Module):
    """A score that no sum over pixels can give: products and a maximum of distant pixels."""

    def forward(self, x: Tensor) -> Tensor:
        a, b, c, d = x[:, 0, 0, 0], x[:, 0, 0, -1], x[:, 0, -1, 0], x[:, 0, -1, -1]
        score = 3 * a * b + torch.maximum(c, d) * 2 + a * b * c * d - d
        return torch.stack([score, score.square()], 1)


def per_piece(values: Tensor, pieces: Tensor, count: int) -> Tensor:
    """Sums of pixel values over the pieces, as (n, pieces)."""
    return torch.stack([(values * (pieces == k)).sum((1, 2)) for k in range(count)], 1)


def gained(model: Linear, x: Tensor, target: Tensor, mean: float) -> Tensor:
    return (model.weight[target] * (x - mean)).sum(1)


# a linear model: each piece is worth exactly what its pixels add


@pytest.mark.parametrize(("patches_", "samples"), [(2, 14), (4, 200)])
def test_kernel_shap_of_a_linear_model_is_exact(patches_, samples):
    x, target, model = images(3, 2, 9, 8), torch.tensor([0, 2, 1]), Linear(2, 9, 8)
    options = {"patches": patches_, "samples": samples}
    maps = kernel_shap(model, x, target, around(x, 0.3), **options)
    pieces = grid_cells(9, 8, patches_).expand(len(x), 9, 8)
    worth = per_piece(gained(model, x, target, 0.3), pieces, patches_**2)
    expected = worth.gather(1, pieces.flatten(1)).view_as(maps)
    torch.testing.assert_close(maps, expected, atol=1e-4, rtol=0)


def test_lime_without_a_penalty_of_a_linear_model_is_exact():
    x, target, model = images(2, 1, 8, 8), torch.tensor([1, 2]), Linear(1, 8, 8)
    options = {"patches": 4, "samples": 100, "ridge": 0.0, "score": "logit"}
    maps = lime(model, x, target, around(x, 0.3), **options)
    pieces = grid_cells(8, 8, 4).expand(len(x), *x.shape[2:])
    worth = per_piece(gained(model, x, target, 0.3), pieces, 16)
    expected = worth.gather(1, pieces.flatten(1)).view_as(maps)
    torch.testing.assert_close(maps, expected, atol=1e-4, rtol=0)


# a game: Shapley values by their definition


@pytest.mark.parametrize("score", ["logit", "probability"])
def test_kernel_shap_of_all_sets_is_the_mean_contribution_over_all_orders(score):
    x, target, blank = images(2, 1, 4, 4), torch.tensor([0, 1]), 0.25
    pieces = grid_cells(*x.shape[2:], 2)

    def value(i: int, players: tuple[int, ...]) -> float:
        there = torch.isin(pieces, torch.tensor(players, dtype=torch.long))
        out = Game()(torch.where(there, x[i], torch.tensor(blank))[None].double())
        out = out.softmax(1) if score == "probability" else out
        return float(out[0, target[i]])

    maps = kernel_shap(Game(), x, target, around(x, blank), patches=2, score=score)
    for i in range(2):
        shapley = torch.zeros(4)
        for order in itertools.permutations(range(4)):
            for place, player in enumerate(order):
                after, before = order[: place + 1], order[:place]
                shapley[player] += (value(i, after) - value(i, before)) / math.factorial(4)
        torch.testing.assert_close(maps[i, 0], shapley[pieces], atol=1e-5, rtol=0)


def test_kernel_shap_of_drawn_sets_sums_to_the_whole_effect_and_comes_close():
    x, target = images(2, 1, 8, 8), torch.tensor([0, 1])
    options = {"patches": 3, "score": "logit"}
    exact = kernel_shap(Game(), x, target, around(x, 0.2), samples=510, **options)
    drawn = kernel_shap(Game(), x, target, around(x, 0.2), samples=400, **options)
    first = [(grid_cells(*x.shape[2:], 3) == k).nonzero()[0] for k in range(9)]
    values = torch.stack([drawn[:, 0, y, z] for y, z in first], 1)
    whole = Game()(x) - Game()(torch.full_like(x, 0.2))
    torch.testing.assert_close(values.sum(1), whole.gather(1, target[:, None])[:, 0])
    assert not torch.equal(exact, drawn)
    assert (exact - drawn).abs().max() < 0.1 * exact.abs().max()


# sets and weights


def test_few_pieces_get_all_sets_with_shapleys_weights():
    present, weights = coalitions(4, 14, 0)
    assert {tuple(row) for row in present.int().tolist()} == set(itertools.product((0, 1), repeat=4)) - {
        (0,) * 4,
        (1,) * 4,
    }
    size = present.sum(1).int().tolist()
    expected = torch.tensor([3 / (math.comb(4, s) * s * (4 - s)) for s in size]).double()
    torch.testing.assert_close(weights / weights[0], expected / expected[0])


def test_drawn_sets_are_neither_empty_nor_whole_and_come_with_their_complement():
    present, weights = coalitions(10, 301, 0)
    assert present.shape == (301, 10)
    assert ((present.sum(1) > 0) & (present.sum(1) < 10)).all()
    assert torch.equal(present[0:300:2], 1 - present[1:300:2])
    assert (weights == 1).all()


def test_sizes_are_drawn_in_proportion_to_shapleys_weight():
    k = 20
    present, _ = coalitions(k, 60_000, 0)
    size = torch.arange(1, k)
    chance = 1 / (size * (k - size)).double()
    counted = torch.bincount(present.sum(1).long(), minlength=k)[1:k].double()
    torch.testing.assert_close(counted / counted.sum(), chance / chance.sum(), atol=0.01, rtol=0)


def test_ridge_regression_is_that_of_the_normal_equations_with_an_intercept():
    source = np.random.default_rng(0)
    present = (source.random((50, 6)) < 0.5).astype(float)
    weight, y = source.random(50), source.normal(size=50)
    effects = ridge_effects(torch.tensor(present), torch.tensor(weight), 2.0)
    # an intercept is one more column, without a penalty; both enter least squares as further rows
    design = np.column_stack([present, np.ones(50)]) * np.sqrt(weight)[:, None]
    design = np.vstack([design, np.sqrt(2.0) * np.eye(6, 7)])
    aim = np.concatenate([y * np.sqrt(weight), np.zeros(6)])
    expected = np.linalg.lstsq(design, aim, rcond=None)[0][:6]
    np.testing.assert_allclose((torch.tensor(y) @ effects).numpy(), expected, atol=1e-10)


# bad input


def test_too_few_samples_for_the_pieces_are_refused():
    x = images(2, 1, 8, 8)
    with pytest.raises(BadOption, match="20 samples do not determine 16 pieces"):
        kernel_shap(Linear(1, 8, 8), x, torch.tensor([0, 1]), around(x), patches=4, samples=20)
    with pytest.raises(BadOption, match="do not determine"):
        lime(Linear(1, 8, 8), x, torch.tensor([0, 1]), around(x), patches=4, samples=9, ridge=0.0)
