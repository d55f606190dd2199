"""Does the map lie on the pixels that are known to be important?

The pointing game and its variants are played on boxes; where a task has none, on the important pixels themselves. All
other metrics here are of those pixels; where a task has boxes only, these are the pixels in them. An image without a
known region has no value: it is NaN and counted, never a hit. `chance` in the responses is what a random map gets on
that image, since small objects are harder to hit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import BadShape, NotApplicable
from uproar.metrics.changes import BY_VALUE, Batch
from uproar.metrics.registry import Responses, metric
from uproar.metrics.shape import Sign, magnitudes, where_defined
from uproar.seeds import Draws

Pixels = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

NEEDS = "known important pixels"
BOXES = "known boxes, or important pixels where there are none"
_SIZE = "the region's share of the image"
CONTEXT_BIAS = "a model may rightly look outside the region, at context; larger regions are easier"

COHERENCY = "Vandersmissen and Oramas 2023"

region_metric = functools.partial(metric, true_to="data", higher_is_better=True, low=0, high=1)
"""Declares a metric of the attribution that lies in a known region."""


@region_metric(
    chance=_SIZE,
    needs=BOXES,
    version=2,
    paper="Zhang et al. 2016",
    formula="1 if the map's maximum lies in the region, else 0",
    biases=f"one pixel decides; {CONTEXT_BIAS}; a tolerance favours small images",
)
def pointing_game(batch: Batch, *, tolerance: Pixels = 0) -> Responses:
    """Whether the highest pixel lies in the region, or nearer to it than `tolerance` pixels (Euclidean).

    Among several highest pixels one is chosen at random, by the sample's own seed; `tied` is how many there were.
    """
    region, known = region_of(batch, boxes=True)
    peaks = peaks_of(batch)
    point = _one_of(peaks, batch.draws)
    return hits_at(near(region, tolerance), point, known & batch.usable) | {"tied": peaks.sum(1).float()}


@region_metric(
    uses="values",
    chance=_SIZE,
    needs=NEEDS,
    paper="Arras et al. 2022",
    formula="Σ a in the region / Σ a, a = max(map, 0)",
    biases=f"{CONTEXT_BIAS}; dense maps lose by their many small values",
)
def relevance_mass(batch: Batch, *, sign: Sign = "relu") -> Responses:
    """Share of the positive attribution that lies in the region."""
    return _mass(batch, sign)


@region_metric(
    uses="values",
    chance=_SIZE,
    needs=NEEDS,
    paper="Zhou et al. 2022",
    formula="Σ |a| in the region / Σ |a|",
    biases=f"{CONTEXT_BIAS}; evidence against the class counts like evidence for it",
)
def attr_percent(batch: Batch) -> Responses:
    """Share of all attribution, of either sign, that lies in the region."""
    return _mass(batch, "abs")


@region_metric(
    chance=_SIZE,
    needs=NEEDS,
    paper="Arras et al. 2022",
    formula="share of the k highest pixels that lie in the region of k pixels",
    biases=CONTEXT_BIAS,
)
def relevance_rank(batch: Batch) -> Responses:
    """Share of the region that is covered by as many highest pixels; only their order counts.

    Equal values come in random order, by the sample's own seed.
    """
    region, known = region_of(batch)
    inside = region.flatten(1)
    size = inside.sum(1)
    top = batch.places(BY_VALUE) < size[:, None]
    share = (top & inside).sum(1).double() / size
    return {"value": where_defined(share, known & batch.usable), "chance": _chance(region, known)}


@region_metric(
    uses="values",
    needs=NEEDS,
    paper="Zhou et al. 2016",
    chance="below the region's share of the image",
    formula="|S ∩ R| / |S ∪ R|, S = pixels above `threshold` times the map's maximum",
    biases=f"the threshold decides how large S is; {CONTEXT_BIAS}",
)
def iou(batch: Batch, *, threshold: Share = 0.5, sign: Sign = "relu") -> Responses:
    """Overlap of the region with the pixels above a share of the map's maximum: intersection over union."""
    region, known = region_of(batch)
    a, defined = magnitudes(batch.maps, sign)
    return {"value": where_defined(overlap(a > threshold, region), known & defined)}


def near(region: Tensor, tolerance: float) -> Tensor:
    """The pixels in the region or less than `tolerance` away from a pixel of it; empty stays empty."""
    if tolerance <= 1:  # neighbours are at distance 1
        return region
    from scipy.ndimage import distance_transform_edt

    def grown(mask: Tensor) -> Tensor:
        if not bool(mask.any()):
            return mask
        return torch.from_numpy(distance_transform_edt(~mask.numpy()) < tolerance)

    return torch.stack([grown(mask) for mask in region.cpu()]).to(region.device)


def region_of(batch: Batch, *, boxes: bool = False) -> tuple[Tensor, Tensor]:
    """The important pixels, or those in the boxes where boxes are known, and which images have any."""
    known = batch.boxed if boxes and batch.boxed is not None else batch.truth
    if known is None:
        raise NotApplicable("the important pixels of these images are not known; give truth= or boxes=")
    if known.shape != batch.maps.shape:
        raise BadShape(
            f"The maps are {tuple(batch.maps.shape)} but the important pixels {tuple(known.shape)}; they must be alike."
        )
    region = known.bool()
    return region, region.flatten(1).any(1)


def peaks_of(batch: Batch) -> Tensor:
    """Which pixels, (n, h·w), equal the map's maximum; maps that are not finite peak everywhere."""
    flat = batch.finite.flatten(1)
    return flat == flat.amax(1, keepdim=True)


def _one_of(peaks: Tensor, draws: Draws) -> Tensor:
    """The place of one peak per image; where there are several, each is equally likely."""
    count = peaks.sum(1)
    point = peaks.int().argmax(1)
    tied = (count > 1).nonzero()[:, 0]
    if len(tied):
        u = draws[tied.tolist()].uniform("pointing ties", 1)[:, 0].double()
        number = (u * count[tied]).long().clamp_max(count[tied] - 1)
        point[tied] = (peaks[tied].cumsum(1) > number[:, None]).int().argmax(1)
    return point


def hits_at(region: Tensor, point: Tensor, known: Tensor) -> Responses:
    """Whether one pixel of each image lies in its region, and how likely a random pixel does."""
    hit = region.flatten(1).gather(1, point[:, None])[:, 0]
    return {"value": where_defined(hit.double(), known), "chance": _chance(region, known)}


def _mass(batch: Batch, sign: Sign) -> Responses:
    region, known = region_of(batch)
    a, defined = magnitudes(batch.maps, sign)
    share = (a * region).sum((1, 2)) / a.sum((1, 2))
    return {"value": where_defined(share, known & defined), "chance": _chance(region, known)}


def _chance(region: Tensor, known: Tensor) -> Tensor:
    return where_defined(region.double().mean((1, 2)), known)


def overlap(selected: Tensor, region: Tensor) -> Tensor:
    """Intersection over union."""
    both, either = selected & region, selected | region
    return both.sum((1, 2)).double() / either.sum((1, 2))


def class_mean(responses: Mapping[str, Tensor], **options: object) -> float:
    """The mean over classes of each class's mean value; images without a value do not count."""
    value, target = responses["value"].double(), responses["target"]
    known = ~value.isnan()
    classes = target[known].unique()
    if not len(classes):
        return float("nan")
    return float(torch.stack([value[known & (target == c)].mean() for c in classes]).mean())


@region_metric(
    name="pointing_game:torchray",
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
    hits = hits_at(near(region, tolerance), peaks_of(batch).int().argmax(1), known & batch.usable)
    return hits | {"target": batch.target}


@region_metric(
    name="pointing_game:coherency",
    paper=COHERENCY,
    needs=BOXES,
    version=2,
    chance="the share of the image that the larger boxes cover",
    formula="pointing_game with boxes one pixel larger to the right and below",
    biases=f"one pixel decides; {CONTEXT_BIAS}; of tied maxima the upper left counts",
)
def pointing_game_coherency(batch: Batch) -> Responses:
    """Whether the first highest pixel lies in a box or one pixel right of it or below, as released code does."""
    region, known = region_of(batch, boxes=True)
    larger = torch.nn.functional.pad(region, (1, 0, 1, 0))
    larger = larger[:, 1:, 1:] | larger[:, :-1, 1:] | larger[:, 1:, :-1] | larger[:, :-1, :-1]
    return hits_at(larger, peaks_of(batch).int().argmax(1), known & batch.usable)


@region_metric(
    name="iou:coherency",
    uses="values",
    paper=COHERENCY,
    needs=NEEDS,
    chance="about the region's share of the image",
    formula="|S ∩ R| / |S ∪ R|, S = pixels with a positive value",
    biases="nearly every pixel of most maps is positive, so that the map hardly matters",
)
def iou_coherency(batch: Batch) -> Responses:
    """Overlap of the region with all pixels of positive value, as released code does; 0 for an all-zero map."""
    region, known = region_of(batch)
    return {"value": where_defined(overlap(batch.maps > 0, region), known & batch.usable)}


LEAST = 1e-7
"""Positive relevance below which a map says nothing, and gets 0."""


@region_metric(
    uses="values",
    chance="1/k² of k×k cells: the region's share of the image",
    needs=BOXES,
    paper="Rao et al. 2022",
    formula="Σ max(a, 0) in the cell / Σ max(a, 0); 0 where the sum is below 1e-7",
    biases="a network that is shown a mosaic may use other cells too, as classes share evidence",
)
def grid_pointing(batch: Batch) -> Responses:
    """Share of the positive relevance in the right cell of a mosaic; a map without positive relevance gets 0.

    For the task grid(…).
    """
    region, known = region_of(batch, boxes=True)
    a = batch.finite.double().clamp_min(0)
    total, inside = a.sum((1, 2)), (a * region).sum((1, 2))
    share = torch.where(total < LEAST, 0.0, inside / total.clamp_min(LEAST))
    return {"value": where_defined(share, known & batch.usable), "chance": _chance(region, known)}
