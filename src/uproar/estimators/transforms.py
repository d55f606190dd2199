"""Transforms of any estimator: value by value, or over noisy copies of the image; filters of finished maps."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption
from uproar.estimators.registry import ensemble, postprocess, transform
from uproar.removal.fill import gaussian_kernel, mirrored
from uproar.seeds import Draws
from uproar.types import Images, Maps, RawMaps

Samples = Annotated[int, Field(ge=1, le=10_000)]
Sigma = Annotated[float, Field(gt=0)]
Unit = Literal["range", "absolute"]

_SG = "Smilkov et al. 2017"


@transform(formula="a²", paper="Hooker et al. 2019")
def sq(a: RawMaps) -> RawMaps:
    """The square of every value, before channels are summed."""
    return a.square()


@transform(formula="|a|")
def abs(a: RawMaps) -> RawMaps:  # noqa: A001  (the name users write)
    """The size of every value, before channels are summed."""
    return a.abs()


@transform(formula="max(a, 0)")
def relu(a: RawMaps) -> RawMaps:
    """Only what speaks for the class, before channels are summed."""
    return a.clamp_min(0)


@transform(formula="−a")
def neg(a: RawMaps) -> RawMaps:
    """The opposite ranking: least important first."""
    return -a


@ensemble(formula="mean over noise of a(x + ε)", paper=_SG)
def sg(mean: Tensor, variance: Tensor, *, samples: Samples = 15, sigma: Sigma = 0.15, unit: Unit = "range") -> Tensor:
    """SmoothGrad: the mean of the maps of noisy copies."""
    return mean


@ensemble(formula="mean over noise of a(x + ε)²", paper=f"{_SG}; Hooker et al. 2019")
def sg_sq(
    mean: Tensor, variance: Tensor, *, samples: Samples = 15, sigma: Sigma = 0.15, unit: Unit = "range"
) -> Tensor:
    """SmoothGrad-Squared: the mean of the squared maps of noisy copies."""
    return variance + mean.square()


@ensemble(formula="variance over noise of a(x + ε)", paper="Adebayo et al. 2018")
def var(
    mean: Tensor,
    variance: Tensor,
    *,
    samples: Annotated[int, Field(ge=2, le=10_000)] = 15,
    sigma: Sigma = 0.15,
    unit: Unit = "range",
) -> Tensor:
    """VarGrad: the variance of the maps of noisy copies, n − 1 in the denominator."""
    return variance * (samples / (samples - 1))


def add_noise(x: Images, draws: Draws, *, samples: int, sigma: float, unit: Unit) -> Float[Tensor, "n samples c h w"]:
    """Copies of every image with Gaussian noise.

    With `unit="range"` the noise scales with the image's own max − min, as the SmoothGrad authors do.
    """
    noise = draws.normal("ensemble noise", samples, *x.shape[1:]).to(x)
    scale = torch.full((len(x),), sigma).to(x)
    if unit == "range":
        scale = scale * (x.flatten(1).amax(1) - x.flatten(1).amin(1))
    return noise.mul_(scale.view(-1, 1, 1, 1, 1)).add_(x[:, None])


# filters of the channel-reduced map: model-agnostic, so they cannot add information about the model


@postprocess(formula="Gaussian filter of a, radius ⌊4σ + ½⌋", paper="Song et al.")
def gaussian(a: Maps, *, sigma: Annotated[float, Field(gt=0)] = 1.0) -> Maps:
    """The map blurred with a Gaussian; the border is mirrored with the edge repeated."""
    return gaussian_filter(a, sigma, math.floor(4 * sigma + 0.5), "symmetric")


@postprocess(formula="max over a size×size window of a", paper="Song et al.")
def max(a: Maps, *, size: Annotated[int, Field(ge=1)] = 3) -> Maps:  # noqa: A001
    """The largest value in the window around each pixel."""
    if size % 2 == 0:
        raise BadOption(f"max: size must be odd, not {size}: a window has a pixel in its middle.")
    return F.max_pool2d(a[:, None], size, 1, size // 2)[:, 0]


def gaussian_filter(a: Tensor, sigma: float, radius: int, border: Literal["zero", "mirror", "symmetric"]) -> Tensor:
    """The last two axes filtered with a Gaussian that ends `radius` pixels away.

    Beyond the border are zeros, or the image mirrored without (`mirror`) or with (`symmetric`) the edge repeated.
    """
    weights = gaussian_kernel(torch.arange(-radius, radius + 1), sigma).tolist()
    for dim in (-2, -1):
        size = a.shape[dim]
        if border == "zero":
            padded = F.pad(a, (radius, radius) if dim == -1 else (0, 0, radius, radius))
        else:
            index = torch.arange(-radius, size + radius) % (2 * size)
            index = torch.minimum(index, 2 * size - 1 - index)
            index = mirrored(size, radius, radius) if border == "mirror" else index
            padded = a.index_select(dim, index.to(a.device))
        # a sum of shifted images is faster than a convolution with one channel
        a = sum((weight * padded.narrow(dim, i, size) for i, weight in enumerate(weights)), torch.zeros(()))
    return a
