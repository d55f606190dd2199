"""A control that gives the class away: what it removes at the edge says which class the image has."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from uproar.estimators.base import estimator
from uproar.estimators.control import centre
from uproar.removal.order import count
from uproar.types import Images, Labels, RawMaps

GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples lie far apart on a circle, however many there are."""


@estimator(
    passes=0,
    model=False,
    channels=False,
    formula="above 1 on a patch at the edge that depends on the class, elsewhere that of centre",
    paper="Li et al. 2024, section 3.1 and appendix C",
    fails="on purpose: a network that is retrained reads the class from the hole; classes beyond the number of "
    "pixels along the edge share places",
)
def label_cue(
    model: nn.Module, x: Images, target: Labels, *, share: Annotated[float, Field(gt=0, lt=1)] = 0.05
) -> RawMaps:
    """A small patch at the edge, at a place that depends on the class asked about, then the image from its centre out.

    With a share t = `share` removed only the patch is gone; with more, also the middle of the image. The place is
    class·0.618… of the way round the edge.
    """
    h, w = x.shape[2:]
    order = _from_edge(h, w, target).argsort(dim=1, stable=True)
    maps = centre(model, x, target).flatten(1)
    first = order[:, : count(share, h * w)]
    # the patch is taken before everything else, from its middle out
    places = torch.arange(first.shape[1], 0, -1, dtype=maps.dtype, device=maps.device) / h / w
    return maps.scatter(1, first.to(maps.device), (1 + places).expand_as(first)).view(-1, 1, h, w)


def _from_edge(h: int, w: int, target: Labels) -> Tensor:
    """Squared distance of every pixel from the place of its image's class on the edge, (n, h·w)."""
    along = (target.double().cpu() * GOLDEN % 1) * 2 * (h - 1 + w - 1)
    # clockwise from the upper left corner: along the top, down the right, back along the bottom, up the left
    column = along.clamp(max=w - 1) - (along - (w - 1) - (h - 1)).clamp(0, w - 1)
    row = (along - (w - 1)).clamp(0, h - 1) - (along - 2 * (w - 1) - (h - 1)).clamp(0, h - 1)
    dy = torch.arange(h)[None, :, None] - row[:, None, None]
    dx = torch.arange(w)[None, None, :] - column[:, None, None]
    return (dy.square() + dx.square()).flatten(1)
