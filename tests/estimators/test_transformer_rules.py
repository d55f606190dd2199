"""LRP and DeepLIFT in transformers: the rules for softmax, layer norm and matrix products."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.estimators.transformers import Written
from uproar.estimators.decomposition import contributions, layer_norm, lrp, matrix_product, softmax

WAYS = ["explicit", "fused", "module"]


def relevance(rule, func, inputs, r):
    with torch.enable_grad():
        tracked = [each.clone().requires_grad_() for each in inputs]
        out = rule(func, tuple(tracked), {})
        return torch.autograd.grad(out, tracked, r)


def test_a_softmax_gives_gradient_times_input():
    """x_i (R_i − s_i Σ R), again by the chain rule: R is s · ∂/∂s of a function of s."""
    torch.manual_seed(0)
    x, r = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    (result,) = relevance(lambda f, a, k: softmax(f, (*a, -1), k), torch.softmax, [x], r)
    point = x.clone().requires_grad_()
    s = point.softmax(-1)
    (gradient,) = torch.autograd.grad(s, point, r / s.detach())
    torch.testing.assert_close(result, x * gradient)


def test_a_matrix_product_gives_half_to_each_factor_and_keeps_the_sum():
    torch.manual_seed(0)
    a, b, r = torch.rand(2, 3, 4) + 0.1, torch.rand(2, 4, 5) + 0.1, torch.randn(2, 3, 5)
    for_a, for_b = relevance(lambda f, args, k: matrix_product(0.0, f, args, k), torch.matmul, [a, b], r)
    # each product a_ik b_kj has its share of R_ij
    shares = a[:, :, :, None] * b[:, None] / (a @ b)[:, :, None] * r[:, :, None]
    torch.testing.assert_close(for_a, shares.sum(3) / 2)
    torch.testing.assert_close(for_b, shares.sum(1) / 2)
    torch.testing.assert_close(for_a.sum() + for_b.sum(), r.sum())


def test_a_layer_norm_passes_relevance_unchanged():
    x, r = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    (result,) = relevance(lambda f, a, k: layer_norm(f, (*a, (5,)), k), nn.functional.layer_norm, [x], r)
    assert torch.equal(result, r)


class ByPlace(nn.Module):
    """Attention by place alone, set by hand, between layers without bias: nothing can be lost."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.norm = nn.Conv2d(3, 6, 2, stride=2, bias=False), nn.LayerNorm(6)
        self.places, self.head = nn.Parameter(torch.randn(1, 2, 6, 6)), nn.Linear(6, 3, bias=False)
        self.eval().requires_grad_(False)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        v = self.norm(x).unflatten(2, (2, -1)).transpose(1, 2)
        return self.head((x + (self.places.softmax(-1) @ v).transpose(1, 2).flatten(2)).mean(1))


def test_relevance_through_attention_sums_to_the_score():
    model, x, y = ByPlace(), torch.rand(3, 3, 4, 6), torch.tensor([0, 1, 2])
    maps = lrp(model, x, y, composite="epsilon", epsilon=0.0)
    torch.testing.assert_close(maps.flatten(1).sum(1), model(x).gather(1, y[:, None])[:, 0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("how", WAYS)
def test_parts_of_deep_lift_sum_to_the_difference_in_score(how):
    model, x, start = Written(how), torch.rand(3, 3, 8, 12), torch.rand(3, 3, 8, 12)
    y = torch.tensor([0, 1, 2])
    maps = contributions(model, x, start, y)
    difference = (model(x) - model(start)).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(maps.flatten(1).sum(1), difference, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("how", WAYS[1:])
def test_relevance_is_the_same_however_attention_is_written(how):
    x, y = torch.rand(2, 3, 8, 12), torch.tensor([0, 1])
    for composite in ("epsilon", "epsilon-plus"):
        plain, other = (lrp(Written(each), x, y, composite=composite) for each in ("explicit", how))
        assert (plain - other).abs().max() <= 1e-3 * plain.abs().max()
