"""What removed pixels become. A fill is a function `(x, removed, facts) -> x`; kept pixels stay bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from uproar.errors import BadShape, NotApplicable
from uproar.expression import parse
from uproar.registry import Registry
from uproar.seeds import Draws
from uproar.types import Images

fills = Registry("fill")


@dataclass(frozen=True)
class Around:
    """What a fill may know besides the images: random draws, and the training images' mean colour."""

    draws: Draws
    mean: Tensor | None = None


@fills.declare()
def mean(x: Images, around: Around) -> Images:
    """The mean colour of the training images: constant, and no image is its own reference."""
    if around.mean is None:
        raise NotApplicable(
            "the fill 'mean' is the mean colour of the training images; give it as value="
        )
    return around.mean.to(x).view(1, -1, 1, 1).expand_as(x)


@fills.declare()
def zero(x: Images, around: Around) -> Images:
    """Black."""
    return torch.zeros_like(x)


@fills.declare()
def channel_mean(x: Images, around: Around) -> Images:
    """The image's own mean colour."""
    return x.mean((2, 3), keepdim=True).expand_as(x)


@fills.declare()
def blur(x: Images, around: Around, *, size: int = 11, sigma: float = 5.0) -> Images:
    """The image itself, blurred with a size×size Gaussian; the border is mirrored."""
    steps = torch.arange(size, dtype=x.dtype) - (size - 1) / 2
    kernel = torch.exp(-0.5 * (steps / sigma).square())
    kernel = (kernel / kernel.sum()).to(x)
    for axis in (2, 3):
        length = x.shape[axis]
        place = torch.arange(-(size // 2), length + (size - 1) // 2) % max(1, 2 * length - 2)
        place = torch.minimum(place, (2 * length - 2 - place).abs())
        windows = x.index_select(axis, place).unfold(axis, size, 1)
        x = (windows * kernel).sum(-1)
    return x


@fills.declare()
def uniform(x: Images, around: Around) -> Images:
    """Uniform noise in [0, 1], drawn once per pixel and channel."""
    return around.draws.uniform("uniform fill", *x.shape[1:]).to(x)


def filled(x: Images, removed: Tensor, fill: str, around: Around) -> Images:
    """The images with removed features replaced; `removed` is (n, h, w), or (n, c, h, w) per channel."""
    if removed.shape not in (x.shape, (x.shape[0], *x.shape[2:])):
        raise BadShape(
            f"The images are {tuple(x.shape)} but `removed` is {tuple(removed.shape)}; it must be "
            f"{(x.shape[0], *x.shape[2:])}, or have the images' own shape."
        )
    gone = removed[:, None] if removed.dim() == 3 else removed
    call = parse(fill)
    entry = fills[call.name]
    options: dict[str, Any] = entry.bind(**dict(call.options))
    return torch.where(gone, entry.function(x, around, **options), x)
