"""As in the code released with the coherency study (Vandersmissen and Oramas 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field

from uproar.errors import BadOption
from uproar.metrics.axis import of_pixels
from uproar.metrics.changes import Blended, Regions, Side
from uproar.metrics.confidence import DROP, FACTS, INCREASE, drop_of, drop_responses, probabilities_of
from uproar.metrics.insertion_deletion import (
    BIASES,
    CHANCE,
    Points,
    Unit,
    area_responses,
    deletion,
    flat,
    nested,
    repeats_of,
    steps_axis,
)
from uproar.metrics.localisation import BOXES, CONTEXT_BIAS, NEEDS, hits_at, overlap, peaks_of, region_of
from uproar.metrics.prepared_batch import PreparedBatch
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.metrics.shape import where_defined
from uproar.registry import options_of
from uproar.types import WITH_PROBABILITIES

Percentile = Annotated[float, Field(ge=0, le=100)]

_PAPER = "Vandersmissen and Oramas 2023"
_CODE = f"{_PAPER}, released code"
_CURVE: dict[str, Any] = {"low": 0, "high": 1, "chance": CHANCE, "paper": _CODE}
_REGION: dict[str, Any] = {"higher_is_better": True, "low": 0, "high": 1, "paper": _PAPER}


def _points(inserts: bool) -> Callable[..., Points]:
    """Steps of ceil(h·w / steps) pixels, or whole windows until each share is covered."""

    def points(shape: Sequence[int], *, steps: int, fill: str, unit: Unit, window: int, repeats: int | None) -> Points:
        features = shape[1] * shape[2]
        side: Side = "least" if inserts else "most"
        if unit == "pixel":
            counts = [min(i * math.ceil(features / steps), features) for i in range(steps + 1)]
            gone = [features - k for k in counts] if inserts else counts
            return nested(shape, side, gone, fill, repeats)
        if features < steps * window**2:
            raise BadOption(
                f"Whole windows of {window}×{window} pixels need at most {features // window**2} steps on "
                f"{shape[1]}×{shape[2]} pixels, not {steps}."
            )
        draws = range(repeats_of(fill, repeats))
        inner = [tuple(Regions(side, i, steps, window, fill, d) for d in draws) for i in range(1, steps)]
        ends = nested(shape, side, [features, 0] if inserts else [0, features], fill, repeats)
        return [ends[0], *inner, ends[1]]

    return points


_DELETED, _INSERTED = _points(inserts=False), _points(inserts=True)


@metric(
    name="deletion:coherency",
    variant_of="deletion",
    true_to="model",
    higher_is_better=False,
    biases=BIASES["deletion"],
    formula="deletion in steps of ceil(h·w / steps) pixels, or of whole windows",
    asks=flat(_DELETED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(steps_axis, "deleted"),
    **_CURVE,
)
@options_of(deletion)
def deletion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Deletion as in the code released with the coherency study; the last points may all be empty images."""
    return area_responses(batch, outputs, _DELETED, steps_axis, **options)


@metric(
    name="insertion:coherency",
    variant_of="insertion",
    true_to="model",
    higher_is_better=True,
    biases=BIASES["insertion"],
    formula="insertion in steps of ceil(h·w / steps) pixels, or of whole windows",
    asks=flat(_INSERTED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
    **_CURVE,
)
@options_of(deletion, fill="blur")
def insertion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Insertion as in the code released with the coherency study, on the blurred image by default."""
    return area_responses(batch, outputs, _INSERTED, steps_axis, **options)


def _blended(threshold: float | None, percentile: float | None) -> Blended:
    if percentile is not None:
        return Blended("none", "percentile", percentile)
    return Blended("none") if threshold is None else Blended("none", "value", threshold)


def _asks(shape: Sequence[int], **options: Any) -> list[Change]:
    return [_blended(**options)]


@metric(
    name="average_drop:coherency",
    variant_of="average_drop",
    higher_is_better=False,
    formula=DROP,
    paper=_CODE,
    asks=_asks,
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def average_drop_coherency(
    batch: Batch, outputs: Outputs, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Average drop of maps taken as they are, or as 0 and 1 at a value or at each map's percentile (reached = 1)."""
    before, after = probabilities_of(batch, outputs, _blended(threshold, percentile))
    return drop_responses(PreparedBatch.of(batch).usable, drop_of(before, after), before, after)


@metric(
    name="increase_in_confidence:coherency",
    variant_of="increase_in_confidence",
    higher_is_better=True,
    paper=_CODE,
    formula=INCREASE,
    asks=_asks,
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def increase_in_confidence_coherency(
    batch: Batch, outputs: Outputs, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Increase in confidence of maps taken as they are, or as 0 and 1 at a value or at each map's percentile."""
    before, after = probabilities_of(batch, outputs, _blended(threshold, percentile))
    return drop_responses(PreparedBatch.of(batch).usable, (after > before).double(), before, after)


@metric(
    name="pointing_game:coherency",
    variant_of="pointing_game",
    true_to="data",
    **_REGION,
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
    peaks, finite = peaks_of(batch.maps)
    return hits_at(larger, peaks.int().argmax(1), known & finite)


@metric(
    name="iou:coherency",
    variant_of="iou",
    true_to="data",
    uses="values",
    **_REGION,
    needs=NEEDS,
    chance="about the region's share of the image",
    formula="|S ∩ R| / |S ∪ R|, S = pixels with a positive value",
    biases="nearly every pixel of most maps is positive, so that the map hardly matters",
)
def iou_coherency(batch: Batch) -> Responses:
    """Overlap of the region with all pixels of positive value, as released code does; 0 for an all-zero map."""
    region, known = region_of(batch)
    finite = torch.isfinite(batch.maps).flatten(1).all(1)
    return {"value": where_defined(overlap(batch.maps > 0, region), known & finite)}
