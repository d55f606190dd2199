"""Maps changed on purpose, for audits: values taken away or put in, a prior shape, a coarser grain.

None of these looks at the model, so none can make a map truer; a metric should say so.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption
from uproar.estimators.registry import postprocess
from uproar.removal.fill import correlate, gaussian_kernel
from uproar.seeds import Draws
from uproar.types import Maps

Scheme = Literal["constant", "random", "partial"]
Amount = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]

_LI = "Li et al. 2024"


@postprocess(formula="a − 0.6 | a − U(0, 0.6) | the pixels between the 60th and the 80th percentile := 0", paper=_LI)
def remove_values(
    a: Maps, draws: Draws, *, scheme: Scheme = "constant", amount: Amount = 0.6, clip: bool = True
) -> Maps:
    """Attribution taken away from the map scaled to [0, 1] (negative values 0, divided by the largest).

    `partial` sets a fifth of the pixels to 0, just below the highest fifth, and has no `amount`. `clip` cuts the result
    to [0, 1], which makes ties of what would be negative.
    """
    values = divide_by_max(a)
    if scheme == "partial":
        order, n = rising_order(values, draws), values[0].numel()
        return _put(values, order[:, round(0.6 * n) : round(0.8 * n)], torch.zeros(len(a), 1))
    changed = values - amount * _size(values, draws, scheme)
    return changed.clamp(0, 1) if clip else changed


@postprocess(formula="a + 0.6 | a + U(0, 0.6) | the lowest 40 % of the pixels := the 80th percentile", paper=_LI)
def introduce_values(
    a: Maps, draws: Draws, *, scheme: Scheme = "constant", amount: Amount = 0.6, clip: bool = True
) -> Maps:
    """Attribution put into the map scaled to [0, 1] (negative values 0, divided by the largest).

    `partial` raises the lowest 40 % of the pixels to the 80th percentile, and has no `amount`. `clip` cuts the result
    to [0, 1], which makes ties of what would be above 1.
    """
    values = divide_by_max(a)
    if scheme == "partial":
        order, n = rising_order(values, draws), values[0].numel()
        high = values.flatten(1).double().quantile(0.8, dim=1, keepdim=True).to(values)
        return _put(values, order[:, : round(0.4 * n)], high)
    changed = values + amount * _size(values, draws, scheme)
    return changed.clamp(0, 1) if clip else changed


@postprocess(formula="1 in a rectangle around Σ a·place / Σ a, 0 elsewhere", paper=_LI)
def rect(a: Maps, *, share: Share = 60 / 224) -> Maps:
    """A rectangle around the centre of gravity of the positive values: a prior for marks that are rectangles.

    Its sides are a share of the image's; it lies in the image whole, in the middle where no value is positive.
    """
    weight = a.clamp_min(0).double()
    weight = torch.where(weight.sum((1, 2), keepdim=True) > 0, weight, 1.0)
    rows = _covered(weight.sum(2), share)
    columns = _covered(weight.sum(1), share)
    return (rows[:, :, None] & columns[:, None, :]).to(a)


@postprocess(formula="mean of a over each of `bands` bands of rows", paper=_LI)
def pooling(a: Maps, *, bands: Annotated[int, Field(ge=1)] = 7) -> Maps:
    """The mean of each band across the image: a prior for marks that are stripes."""
    h = a.shape[1]
    if bands > h:
        raise BadOption(f"pooling: {bands} bands do not fit into {h} rows; use at most {h}.")
    edges = [round(i * h / bands) for i in range(bands + 1)]
    means = [a[:, i:j].mean((1, 2)) for i, j in itertools.pairwise(edges)]
    return torch.stack(means, 1).repeat_interleave(torch.tensor(edges).diff(), 1)[:, :, None].expand_as(a).clone()


@postprocess(
    formula="Gaussian filter, σ = 5/11 of the window, of the positive values scaled to [0, 1]; scaled again",
    paper="Vandersmissen and Oramas 2023",
)
def coarse(a: Maps, *, size: Annotated[int, Field(ge=1)] | None = None) -> Maps:
    """The positive part of the map blurred in a window and scaled to [0, 1], to see what its grain is worth.

    The window is 11×11 pixels on images of 224, as much less on smaller ones, and at least 3×3; the border is mirrored.
    """
    side = coarse_size(min(a.shape[1:])) if size is None else size
    if side % 2 == 0:
        raise BadOption(f"coarse: size must be odd, not {side}: a window has a pixel in its middle.")
    kernel = gaussian_kernel(torch.arange(side) - side // 2, side * 5 / 11).to(a)
    return rescale_to_unit(correlate(correlate(rescale_to_unit(a.clamp_min(0)), kernel, 1), kernel, 2))


def coarse_size(side: int) -> int:
    """The window for images with sides of so many pixels, odd.

    >>> [coarse_size(s) for s in (8, 32, 96, 224, 448)]
    [3, 3, 5, 11, 21]
    """
    return max(3, 2 * round((side * 11 / 224 - 1) / 2) + 1)


def divide_by_max(a: Maps) -> Maps:
    """Maps in [0, 1]: negative values 0, divided by the largest; a map without positive values stays 0."""
    positive = a.clamp_min(0)
    high = positive.amax((1, 2), keepdim=True)
    return torch.where(high > 0, positive / high, positive)


def rising_order(a: Maps, draws: Draws) -> Tensor:
    """Pixels from the lowest to the highest, (n, h·w); equal ones in random order."""
    flat = a.flatten(1)
    shuffled = draws.permutations("altered ties", flat.shape[1]).to(flat.device)
    return shuffled.gather(1, flat.gather(1, shuffled).argsort(dim=1, stable=True))


def _size(values: Maps, draws: Draws, scheme: Scheme) -> Tensor:
    if scheme == "constant":
        return torch.ones_like(values)
    return draws.uniform("altered values", *values.shape[1:]).to(values)


def _put(values: Maps, where: Tensor, new: Tensor) -> Maps:
    flat = values.flatten(1).clone()
    return flat.scatter_(1, where, new.to(flat).expand(where.shape)).view_as(values)


def _covered(weight: Tensor, share: float) -> Tensor:
    """Which places of an axis the rectangle covers, (n, length): its middle as near the centre of gravity as fits."""
    length = weight.shape[1]
    side = max(1, round(share * length))
    places = torch.arange(length, dtype=weight.dtype)
    centre = (weight * places).sum(1) / weight.sum(1)
    first = (centre - (side - 1) / 2).round().clamp(0, length - side)[:, None]
    return (places >= first) & (places < first + side)


def rescale_to_unit(a: Maps) -> Maps:
    """Each map stretched to [0, 1]; a flat one is 0."""
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    return torch.where(high > low, (a - low) / (high - low), torch.zeros_like(a))
