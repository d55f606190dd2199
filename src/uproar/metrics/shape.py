"""What a map looks like, whatever the model: concentrated or spread, smooth or rough.

These numbers describe a map and do not score it: a map may be sparse, simple or smooth, and wrong. They stand beside
the other metrics because some of those favour one appearance.
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.metrics.changes import BY_VALUE, Batch
from uproar.metrics.registry import Responses, metric
from uproar.removal.order import removed_at, tie_share
from uproar.types import Maps

Sign = Literal["relu", "abs"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Of = Literal["test", "train"]
"""The images of a study whose maps are described."""

map_description = functools.partial(metric, true_to="map", describes=True)
"""Declares a metric of what a map looks like."""


@map_description(
    uses="values",
    higher_is_better=True,
    low=0,
    high=1,
    chance="1/3 for uniform values",
    formula="Gini index: Σᵢ (2i − n − 1) aᵢ / (n Σᵢ aᵢ), a ascending",
    paper="Chalasani et al. 2020",
    biases="describes the map, not whether it is right: one arbitrary pixel is perfectly sparse",
)
def sparseness(batch: Batch, *, sign: Sign = "relu") -> Responses:
    """How concentrated the map is: 0 if all pixels are equal, near 1 if one pixel has everything."""
    a, defined = magnitudes(batch.maps, sign)
    values = a.flatten(1).sort(1).values
    n = values.shape[1]
    weights = 2 * torch.arange(1, n + 1, dtype=values.dtype) - n - 1
    gini = (values * weights).sum(1) / (n * values.sum(1))
    return {"value": where_defined(gini, defined)}


@map_description(
    uses="values",
    higher_is_better=False,
    low=0,
    high=math.inf,
    chance="ln(h·w) − 0.19 for uniform values",
    formula="entropy −Σᵢ pᵢ ln pᵢ with pᵢ = aᵢ / Σ a, in nats",
    paper="Bhatt et al. 2020",
    biases="describes the map, not whether it is right; its largest value, ln(h·w), depends on the image's size",
)
def complexity(batch: Batch, *, sign: Sign = "relu") -> Responses:
    """How spread out the map is: 0 if one pixel has everything, ln(h·w) if all pixels are equal."""
    a, defined = magnitudes(batch.maps, sign)
    p = a.flatten(1) / a.sum((1, 2))[:, None]
    return {"value": where_defined(torch.special.entr(p).sum(1), defined)}


@map_description(
    uses="values",
    higher_is_better=False,
    low=0,
    high=2,
    chance="about 2/3 for uniform values",
    formula="mean over pixels of |right difference| + |down difference|, map min-max scaled",
    paper="Song et al.",
    biases="describes the map, not whether it is right; one extreme pixel makes any map look smooth",
)
def total_variation(batch: Batch, *, split: Of = "test") -> Responses:
    """How rough the map is: mean size of its steps to the right and down, after scaling to [0, 1].

    Pixels at the right and lower border have no neighbour there and count as steps of 0. A constant map has no scale.
    In a study `split=train` takes the maps of all training images, as its paper does.
    """
    a, finite = _finite(batch.maps)
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    value = variation((a - low) / (high - low))
    return {"value": where_defined(value, finite & (high > low).flatten())}


@map_description(
    higher_is_better=False,
    low=0,
    high=2,
    chance="about 4·t·(1 − t)",
    formula="mean over pixels of |right difference| + |down difference| of the mask of removed pixels",
    paper="Song et al.",
    biases="describes the map, not whether it is right; a constant map is a random order, see `tied`",
)
def removed_variation(batch: Batch, *, fraction: Fraction = 0.3, split: Of = "test") -> Responses:
    """How ragged the removed region is when the most important `fraction` goes: the outline's length per pixel.

    Only the order of the pixels counts. `tied` is the share of pixels that are equal across the cut, where the
    tie-break decides.
    """
    gone = removed_at(batch.places(BY_VALUE), fraction, batch.maps.shape[1:])
    tied = tie_share(batch.finite.flatten(1), [fraction])[:, 0]
    return {"value": where_defined(variation(gone.double()), batch.usable), "tied": tied}


GRID = torch.linspace(0, 1, 100, dtype=torch.float64)
"""Where the density of values is given."""


@map_description(
    uses="values",
    higher_is_better=False,
    low=0,
    high=1,
    chance="1/2 for uniform values",
    formula="mean of the map's positive part, min-max scaled; `density` at 100 points of [0, 1]: Gaussian "
    "kernel estimate",
    paper="Vandersmissen and Oramas 2023",
    biases="describes the map, not whether it is right; one extreme pixel makes any map look sparse",
)
def value_density(batch: Batch, *, bandwidth: Annotated[float, Field(gt=0)] = 0.05) -> Responses:
    """How much of the image the map marks: mean of its values in [0, 1], near 0 if it is sparse, and their density.

    The mean of the densities of several maps is the density of all their values together.
    """
    a, finite = _finite(batch.maps.clamp_min(0))
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    defined = finite & (high > low).flatten()
    values = ((a - low) / torch.where(high > low, high - low, 1)).flatten(1)
    density = torch.stack([kernel_density(row, bandwidth) for row in values])
    density = torch.where(defined[:, None], density, math.nan)
    return {"value": where_defined(values.mean(1), defined), "density": density}


def kernel_density(values: Tensor, bandwidth: float) -> Tensor:
    """Gaussian kernel estimate of the density of some values at the points of GRID."""
    distance = (GRID[:, None] - values.double()) / bandwidth
    kernels = torch.exp(-0.5 * distance.square()).mean(1)
    return kernels / (bandwidth * math.sqrt(2 * math.pi))


def magnitudes(maps: Maps, sign: Sign = "relu") -> tuple[Tensor, Tensor]:
    """Maps as sizes in [0, 1], each divided by its maximum, and which of them are defined: not all zero."""
    a, finite = _finite(maps)
    a = a.clamp_min(0) if sign == "relu" else a.abs()
    top = a.amax((1, 2))
    defined = finite & (top > 0)
    return a / torch.where(defined, top, 1)[:, None, None], defined


def where_defined(value: Tensor, defined: Tensor) -> Tensor:
    """The values as floats, NaN where they are not defined."""
    return torch.where(defined, value, math.nan).float()


def variation(a: Tensor) -> Tensor:
    """Mean over pixels of |right difference| + |down difference|, (n,)."""
    steps = a.diff(dim=2).abs().sum((1, 2)) + a.diff(dim=1).abs().sum((1, 2))
    return steps / (a.shape[1] * a.shape[2])


def _finite(maps: Maps) -> tuple[Tensor, Tensor]:
    """Maps in double precision with broken ones set to zero, and which were whole."""
    finite = torch.isfinite(maps).flatten(1).all(1)
    return torch.where(finite[:, None, None], maps, 0).double(), finite
