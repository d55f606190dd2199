"""Insertion and deletion: the target's probability while pixels come or go, most important first.

A fraction is the share of pixels inserted, or deleted. Only the order of the map counts. Fills that draw are averaged
over `repeats` independent draws (5 for `uniform` and `resample` by default, 1 for the others).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from uproar.metrics.axis import of_pixels
from uproar.metrics.changes import Side, removed
from uproar.metrics.prepared_batch import BY_VALUE, ByWindow, PixelOrder, PreparedBatch
from uproar.metrics.probabilities import area_of, curve_of, only
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.removal import count
from uproar.removal.fill import read_fill

Steps = Annotated[int, Field(ge=1, le=100_000)]
Repeats = Annotated[int, Field(ge=1, le=1000)] | None
Window = Annotated[int, Field(ge=1)]
Unit = Literal["pixel", "region"]
Points = list[tuple[Change, ...]]

CHANCE = "the area of a random order on the same images and model"
_FORMULA = "area under p_c against the share of pixels {}"
BIASES = {
    "deletion": "changed images are unlike the training data; scattered pixels break an image sooner than a "
    "coherent patch, so noisy maps do well",
    "insertion": "changed images are unlike the training data; coherent patches are recognised sooner than "
    "scattered pixels, so smooth maps do well",
}


def repeats_of(fill: str, repeats: int | None) -> int:
    """How many independent draws of a fill are averaged."""
    entry, _ = read_fill(fill)
    if repeats is not None:
        return repeats if entry.facts.get("random") else 1
    return 5 if entry.facts.get("random") and not entry.facts.get("looks") else 1


def nested(
    shape: Sequence[int],
    side: Side,
    counts: Sequence[int],
    fill: str,
    repeats: int | None,
    order: PixelOrder = BY_VALUE,
) -> Points:
    """Points along an order: at each, so many pixels are removed from one side."""
    features = shape[1] * shape[2]
    draws = range(repeats_of(fill, repeats))
    points = ((removed(side, k, features, fill, d, order) for d in draws) for k in counts)
    return [tuple(dict.fromkeys(point)) for point in points]


def steps_axis(shape: Sequence[int], *, steps: int, **_: Any) -> list[float]:
    """Equal steps from 0 to 1."""
    return [i / steps for i in range(steps + 1)]


def _points(inserts: bool) -> Callable[..., Points]:
    """Exactly `round(t · h · w)` pixels at every fraction t."""

    def points(shape: Sequence[int], *, steps: int, fill: str, unit: Unit, window: int, repeats: int | None) -> Points:
        features = shape[1] * shape[2]
        counts = [count(t, features) for t in steps_axis(shape, steps=steps)]
        order = BY_VALUE if unit == "pixel" else ByWindow(window)
        if inserts:
            return nested(shape, "least", [features - k for k in counts], fill, repeats, order)
        return nested(shape, "most", counts, fill, repeats, order)

    return points


def flat(points: Callable[..., Points]) -> Callable[..., list[Change]]:
    """All changes of the points."""
    return lambda shape, **options: [c for point in points(shape, **options) for c in point]


def area_responses(
    batch: Batch, outputs: Outputs, points: Callable[..., Points], axis: Callable[..., list[float]], **options: Any
) -> Responses:
    """The curve of the target's probability over some points, and the area under it."""
    shape = tuple(batch.x.shape[1:])
    values = curve_of(batch, outputs, points(shape, **options))
    area = only(PreparedBatch.of(batch).usable, area_of(axis(shape, **options), values))
    return {"value": area, "curve": values}


_DELETED, _INSERTED = _points(inserts=False), _points(inserts=True)


@metric(
    higher_is_better=False,
    low=0,
    high=1,
    chance=CHANCE,
    biases=BIASES["deletion"],
    paper="Petsiuk et al. 2018",
    formula=_FORMULA.format("deleted"),
    asks=flat(_DELETED),
    axis=of_pixels(steps_axis, "deleted"),
)
def deletion(
    batch: Batch,
    outputs: Outputs,
    *,
    steps: Steps = 100,
    fill: str = "mean",
    unit: Unit = "pixel",
    window: Window = 9,
    repeats: Repeats = None,
) -> Responses:
    """Mean probability of the target while the most important pixels go first.

    `unit="region"` takes window×window pixels around the most important pixel at a time, still with exact counts.
    """
    return area_responses(
        batch, outputs, _DELETED, steps_axis, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats
    )


@metric(
    higher_is_better=True,
    low=0,
    high=1,
    chance=CHANCE,
    biases=BIASES["insertion"],
    paper="Petsiuk et al. 2018",
    formula=_FORMULA.format("inserted"),
    asks=flat(_INSERTED),
    axis=of_pixels(steps_axis, "inserted"),
)
def insertion(
    batch: Batch,
    outputs: Outputs,
    *,
    steps: Steps = 100,
    fill: str = "mean",
    unit: Unit = "pixel",
    window: Window = 9,
    repeats: Repeats = None,
) -> Responses:
    """Mean probability of the target while the most important pixels come first, on a canvas made by the fill."""
    return area_responses(
        batch, outputs, _INSERTED, steps_axis, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats
    )
