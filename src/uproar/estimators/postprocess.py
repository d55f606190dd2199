"""Filters of the channel-reduced map: model-agnostic, so they cannot add information about the model."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption
from uproar.estimators.registry import postprocess
from uproar.removal.fill import gaussian_kernel
from uproar.types import Maps


@postprocess(formula="Gaussian filter of a, radius ⌊4σ + ½⌋", paper="Song et al.")
def gaussian(a: Maps, *, sigma: Annotated[float, Field(gt=0)] = 1.0) -> Maps:
    """The map blurred with a Gaussian; the border is mirrored with the edge repeated."""
    radius = math.floor(4 * sigma + 0.5)
    kernel = gaussian_kernel(torch.arange(-radius, radius + 1), sigma).to(a)
    return _along(_along(a, kernel, 2), kernel, 1)


@postprocess(formula="max over a size×size window of a", paper="Song et al.")
def max(a: Maps, *, size: Annotated[int, Field(ge=1)] = 3) -> Maps:  # noqa: A001
    """The largest value in the window around each pixel."""
    if size % 2 == 0:
        raise BadOption(f"max: size must be odd, not {size}: a window has a pixel in its middle.")
    return F.max_pool2d(a[:, None], size, 1, size // 2)[:, 0]


def _along(a: Tensor, kernel: Tensor, dim: int) -> Tensor:
    """Correlate along one axis, with the signal mirrored at its ends as often as the kernel needs."""
    size, radius = a.shape[dim], len(kernel) // 2
    place = torch.arange(-radius, size + radius) % (2 * size)
    place = torch.minimum(place, 2 * size - 1 - place)
    windows = a.index_select(dim, place).unfold(dim, size, 1)
    # windows: the kernel's axis stands at `dim`, the signal's at the end
    out = (windows * kernel.view([-1 if d == dim else 1 for d in range(windows.dim())])).sum(dim)
    return out.movedim(-1, dim) if dim != a.dim() - 1 else out
