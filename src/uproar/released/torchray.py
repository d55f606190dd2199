"""As in TorchRay (Fong et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from uproar.metrics.localisation import BOXES, CONTEXT_BIAS, Pixels, hits_at, near, peaks_of, region_of
from uproar.metrics.registry import Batch, Responses, metric


def class_mean(responses: Mapping[str, Tensor], **options: object) -> float:
    """The mean over classes of each class's mean value; images without a value do not count."""
    value, target = responses["value"].double(), responses["target"]
    known = ~value.isnan()
    classes = target[known].unique()
    if not len(classes):
        return float("nan")
    return float(torch.stack([value[known & (target == c)].mean() for c in classes]).mean())


@metric(
    true_to="data",
    name="pointing_game:torchray",
    variant_of="pointing_game",
    higher_is_better=True,
    low=0,
    high=1,
    needs=BOXES,
    version=2,
    statistic=class_mean,
    chance="the share of the image within 15 pixels of the region; 1 on images under 15 pixels",
    paper="Fong et al. 2019",
    formula="pointing_game(tolerance=15), averaged over classes",
    biases=f"one pixel decides; {CONTEXT_BIAS}; of tied maxima the upper left counts; meant for images of "
    "a few hundred pixels",
)
def pointing_game_torchray(batch: Batch, *, tolerance: Pixels = 15) -> Responses:
    """Whether the first highest pixel is less than 15 pixels from the region; rare classes count as much as others."""
    region, known = region_of(batch, boxes=True)
    peaks, finite = peaks_of(batch.maps)
    hits = hits_at(near(region, tolerance), peaks.int().argmax(1), known & finite)
    return hits | {"target": batch.target}
