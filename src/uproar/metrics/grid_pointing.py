"""How much of the positive relevance lies in the cell of a mosaic that shows the class."""

from __future__ import annotations

import torch

from uproar.metrics.localisation import BOXES, region_of
from uproar.metrics.registry import Batch, Responses, metric
from uproar.metrics.shape import where_defined

LEAST = 1e-7
"""Positive relevance below which a map says nothing, and gets 0."""


@metric(
    true_to="data",
    higher_is_better=True,
    uses="values",
    low=0,
    high=1,
    chance="1/k² of k×k cells: the region's share of the image",
    needs=BOXES,
    paper="Rao et al. 2022",
    formula="Σ max(a, 0) in the cell / Σ max(a, 0); 0 where the sum is below 1e-7",
    biases="a network that is shown a mosaic may use other cells too, unless it is disconnected from them",
)
def grid_pointing(batch: Batch) -> Responses:
    """Share of the positive relevance in the right cell of a mosaic; a map without positive relevance gets 0.

    For the task grid(…); with the model disconnected(…) relevance outside the cell is wrong beyond doubt (DiFull).
    """
    region, known = region_of(batch, boxes=True)
    finite = torch.isfinite(batch.maps).flatten(1).all(1)
    a = torch.where(finite[:, None, None], batch.maps, 0).double().clamp_min(0)
    total, inside = a.sum((1, 2)), (a * region).sum((1, 2))
    share = torch.where(total < LEAST, 0.0, inside / total.clamp_min(LEAST))
    chance = where_defined(region.double().mean((1, 2)), known)
    return {"value": where_defined(share, known & finite), "chance": chance}
