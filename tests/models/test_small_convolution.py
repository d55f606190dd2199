"""The gradient of an image through a convolution over few values is that of torch, and does not depend on the batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uproar.models.batch_invariance import BatchInvariant
from uproar.models.small_convolution import SMALL, Convolution, is_small

KINDS = {
    "strided": nn.Conv2d(1, 16, 3, 2, 1),
    "padded to the same size": nn.Conv2d(1, 3, 3, padding="same"),
    "in groups": nn.Conv2d(2, 4, 3, groups=2, bias=False),
    "dilated": nn.Conv2d(2, 3, (3, 2), dilation=2),
    "mirrored border": nn.Conv2d(1, 3, 3, padding=1, padding_mode="reflect"),
}


def _gradient(layer: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.clone(memory_format=torch.channels_last).requires_grad_()
    made = layer(x)
    (gradient,) = torch.autograd.grad(made.pow(2).sum(), x)
    return made.detach(), gradient


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_gradients_are_those_of_torch(kind):
    layer = KINDS[kind].double().requires_grad_(False)
    x = torch.rand(5, layer.in_channels, 7, 6, dtype=torch.float64)
    plain, expected = _gradient(layer, x)
    with BatchInvariant():
        made, gradient = _gradient(layer, x)
    assert torch.equal(made, plain)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


def test_a_convolution_over_few_values_is_the_one_meant_here():
    layer = nn.Conv2d(1, 16, 3, 2, 1).requires_grad_(False)
    with BatchInvariant():
        made = layer(torch.rand(4, 1, 8, 8, requires_grad=True))
    assert made.grad_fn.name() == "ConvolutionBackward"  # torch's own has a number behind it


@pytest.mark.parametrize("rows", [2, 3, 40])
def test_a_gradient_does_not_depend_on_the_images_beside_it(rows):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 5, 3)).requires_grad_(False)
    x = torch.rand(203, 1, 8, 8)
    with BatchInvariant():
        whole = _gradient(model, x)[1]
        assert torch.equal(_gradient(model, x[7 : 7 + rows])[1], whole[7 : 7 + rows])


def test_where_weights_are_learned_or_there_are_many_values_torch_is_asked():
    layer, x = nn.Conv2d(1, 4, 3), torch.rand(2, 1, 8, 8, requires_grad=True)
    assert not is_small(x, layer.weight, layer.bias, (1, 1), (0, 0))
    frozen = layer.requires_grad_(False)
    assert is_small(x, frozen.weight, frozen.bias, (1, 1), (0, 0))
    assert not is_small(x.detach(), frozen.weight, frozen.bias, (1, 1), (0, 0))
    with torch.no_grad():
        assert not is_small(x, frozen.weight, frozen.bias, (1, 1), (0, 0))
    side = int(SMALL**0.25)  # as many values come out of four channels as go in, times four
    assert not is_small(torch.rand(2, 1, side, side, requires_grad=True), frozen.weight, None, (1, 1), (1, 1))


def test_a_second_derivative_passes_through():
    weight = torch.rand(3, 1, 2, 2, dtype=torch.float64)
    x = torch.rand(2, 1, 4, 4, dtype=torch.float64, requires_grad=True)

    def cubes(one):
        return Convolution.apply(one, weight, None, (1, 1), (0, 0)).pow(3)

    assert torch.autograd.gradcheck(cubes, x)
    assert torch.autograd.gradgradcheck(cubes, x)


def test_pooling_to_the_size_that_an_image_has_is_a_copy():
    x = torch.rand(2, 3, 2, 2, requires_grad=True)
    with BatchInvariant():
        made = nn.AdaptiveAvgPool2d(2)(x)
        made.data.zero_()
    assert torch.equal(torch.autograd.grad(made.sum(), x)[0], torch.ones_like(x))
    assert bool(x.abs().sum() > 0)
