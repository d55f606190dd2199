"""Smooth masks from a grid of values: every pixel is the smooth maximum of the weighted values around it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

SHARPNESS = 20


@dataclass(frozen=True)
class Mesh:
    """Mask values `step` pixels apart, each of which is felt up to about `sigma` pixels away.

    Masks are made with a margin around the image, so that a blob at the border counts with its whole area.
    """

    h: int
    w: int
    step: int
    sigma: float

    @property
    def points(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return -(-self.h // self.step), -(-self.w // self.step)

    @property
    def extra(self) -> int:
        """Steps in the margin: whole ones, at least `sigma` long, or the mask could end before the image does."""
        return -int(-self.sigma // self.step)

    @property
    def reach(self) -> int:
        """How many steps away a value still counts."""
        return 1 + self.extra

    @functools.cached_property
    def kernel(self) -> Float[Tensor, "k s s"]:
        """Weight of each value nearby, for each pixel of a cell: 1 up to half of sigma, then a Gaussian's flank."""
        near = torch.arange(-self.reach, self.reach + 1)
        away = (torch.arange(self.step) - self.step * near[:, None]).square()
        distance = (away[:, None, :, None] + away[None, :, None, :]).sqrt() / self.sigma
        return torch.exp(-2 * (distance - 0.5).clamp_min(0).square()).flatten(0, 1)

    def padded(self, values: Float[Tensor, "m a b"]) -> Float[Tensor, "m ph pw"]:
        """The masks of values in [0, 1], with their margin, which is longer above and left."""
        outside = self.reach + self.extra
        around = F.pad(values, (outside,) * 4)
        mask = _SmoothMaximum.apply(around, self.kernel.to(values), 2 * self.reach + 1)
        rows, columns = (self.step * count for count in mask.shape[3:])
        mask = mask.permute(0, 3, 1, 4, 2).reshape(len(values), rows, columns)
        return mask[:, : rows - self.step + 1, : columns - self.step + 1]

    def inside(self, padded: Float[Tensor, "m ph pw"]) -> Float[Tensor, "m h w"]:
        """The part of a mask that lies on the image."""
        margin = self.extra * self.step
        return padded[:, margin : margin + self.h, margin : margin + self.w]


class _SmoothMaximum(torch.autograd.Function):
    """Σ v·exp(20 v) / Σ exp(20 v) over the weighted values v in a window around each cell: (m, s, s, rows, columns).

    One value of the window is taken at a time, in both directions: all together would need as many times the memory,
    and be several times slower.
    """

    @staticmethod
    def forward(ctx: Any, around: Tensor, kernel: Tensor, window: int) -> Tensor:
        rows, columns = (size - window + 1 for size in around.shape[1:])
        top = around.new_zeros(len(around), *kernel.shape[1:], rows, columns)
        bottom = torch.zeros_like(top)
        for y, z, weight in _window(kernel, window):
            value = around[:, None, None, y : y + rows, z : z + columns] * weight
            power = (value - 1).mul_(SHARPNESS).exp_()
            bottom += power
            top += power.mul_(value)
        mask = top.div_(bottom)
        ctx.save_for_backward(around, kernel, mask, bottom)
        ctx.window = window
        return mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        around, kernel, mask, bottom = ctx.saved_tensors
        rows, columns = mask.shape[3:]
        out = torch.zeros_like(around)
        rest = 1 - SHARPNESS * (mask - 1)
        gradient = (gradient / bottom).contiguous()
        for y, z, weight in _window(kernel, ctx.window):
            part = around[:, None, None, y : y + rows, z : z + columns] * weight
            power = part.sub_(1).mul_(SHARPNESS).exp()
            part.add_(rest).mul_(power).mul_(gradient).mul_(weight)
            out[:, y : y + rows, z : z + columns] += part.sum((1, 2))
        return out, None, None


def _window(kernel: Tensor, window: int) -> list[tuple[int, int, Tensor]]:
    places = [divmod(k, window) for k in range(window * window)]
    return [(y, z, part[:, :, None, None]) for (y, z), part in zip(places, kernel, strict=True)]
