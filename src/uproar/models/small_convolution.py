"""Convolutions over few values, whose gradient with respect to the image is one product with a matrix.

Libraries have no quick kernel for it where images are tiny or have one channel: at 8×8 pixels the product, though most
numbers of the matrix are zero, takes a tenth to a third of the time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from uproar.models.row_products import product_in_blocks

SMALL = 2**16
"""Values that go in times values that come out, per image, up to which the product was never slower (AVX2)."""


def is_small(x: Tensor, weight: Any = None, *rest: Any) -> bool:
    """Whether the gradient of the images alone is asked for, through a convolution over few values."""
    if not isinstance(weight, Tensor) or x.dim() != 4 or not x.requires_grad or not torch.is_grad_enabled():
        return False
    if weight.requires_grad or (rest and isinstance(rest[0], Tensor) and rest[0].requires_grad):
        return False
    how = tuple(tuple(each) if isinstance(each, list) else each for each in rest[1:])
    return len(x) > 0 and _connections(tuple(x.shape[1:]), tuple(weight.shape), how) <= SMALL


@lru_cache(maxsize=256)
def _connections(shape: tuple[int, ...], kernel: tuple[int, ...], how: tuple) -> int:
    """Values of an image times values that a convolution makes of it; the latter are counted without making them."""
    image, weight = (torch.empty(size, device="meta") for size in ((1, *shape), kernel))
    return math.prod(shape) * torch.conv2d(image, weight, None, *how).numel()


class Convolution(torch.autograd.Function):
    """A convolution with fixed weights; named as torch names it in a graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, *how: Any) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.shape, ctx.how = x.shape, how
        return torch.conv2d(x, weight, bias, *how)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (weight,), (n, c, h, w) = ctx.saved_tensors, ctx.shape
        rows = gradients[0].permute(0, 2, 3, 1).reshape(n, -1)
        below = product_in_blocks(torch.mm, rows, (_matrix(weight, (c, h, w), ctx.how).t(),), {})
        return below.view(n, h, w, c).permute(0, 3, 1, 2), None, None, *[None] * len(ctx.how)


def _matrix(weight: Tensor, shape: tuple[int, int, int], how: tuple) -> Tensor:
    """The convolution as a matrix (values in, values out), both channels last: what it makes of each single value."""
    c, h, w = shape
    each = torch.eye(c * h * w, dtype=weight.dtype).view(-1, h, w, c).permute(0, 3, 1, 2)
    return torch.conv2d(each, weight, None, *how).permute(0, 2, 3, 1).flatten(1)
