"""Insertion and deletion: the target's probability while pixels come or go, most important first.

A fraction is the share of pixels inserted, or deleted. Only the order of the map counts. Fills that draw are averaged
over `repeats` independent draws (5 for `uniform` and `resample` by default, 1 for the others).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from uproar.errors import BadOption
from uproar.metrics.axis import of_pixels
from uproar.metrics.base import Batch, Change, Responses, Seen, metric
from uproar.metrics.changes import Regions, Side, removed
from uproar.metrics.prepared_batch import BY_VALUE, ByWindow, Order, Prepared
from uproar.metrics.probabilities import area_of, curve_of, only
from uproar.removal import count
from uproar.removal.fill import read_fill

Steps = Annotated[int, Field(ge=1, le=100_000)]
Repeats = Annotated[int, Field(ge=1, le=1000)] | None
Window = Annotated[int, Field(ge=1)]
Unit = Literal["pixel", "region"]
Points = list[tuple[Change, ...]]

_CHANCE = "the area of a random order on the same images and model"
_FORMULA = "area under p_c against the share of pixels {}"
_BIASES = {
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
    shape: Sequence[int], side: Side, counts: Sequence[int], fill: str, repeats: int | None, order: Order = BY_VALUE
) -> Points:
    """Points along an order: at each, so many pixels are gone from one side."""
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


def _respond(
    batch: Batch, seen: Seen, points: Callable[..., Points], axis: Callable[..., list[float]], **options: Any
) -> Responses:
    shape = tuple(batch.x.shape[1:])
    values = curve_of(batch, seen, points(shape, **options))
    found = only(Prepared.of(batch).usable, area_of(axis(shape, **options), values))
    return {"value": found, "curve": values}


_DELETED, _INSERTED = _points(inserts=False), _points(inserts=True)


@metric(
    higher_is_better=False,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_BIASES["deletion"],
    paper="Petsiuk et al. 2018",
    formula=_FORMULA.format("deleted"),
    asks=flat(_DELETED),
    axis=of_pixels(steps_axis, "deleted"),
)
def deletion(
    batch: Batch,
    seen: Seen,
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
    return _respond(
        batch, seen, _DELETED, steps_axis, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats
    )


@metric(
    higher_is_better=True,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_BIASES["insertion"],
    paper="Petsiuk et al. 2018",
    formula=_FORMULA.format("inserted"),
    asks=flat(_INSERTED),
    axis=of_pixels(steps_axis, "inserted"),
)
def insertion(
    batch: Batch,
    seen: Seen,
    *,
    steps: Steps = 100,
    fill: str = "mean",
    unit: Unit = "pixel",
    window: Window = 9,
    repeats: Repeats = None,
) -> Responses:
    """Mean probability of the target while the most important pixels come first, on a canvas made by the fill."""
    return _respond(
        batch, seen, _INSERTED, steps_axis, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats
    )


def _rise_counts(shape: Sequence[int], step: int | None) -> list[int]:
    features = shape[1] * shape[2]
    each = step or shape[2]
    return [min(i * each, features) for i in range(math.ceil(features / each) + 1)]


def rise_axis(shape: Sequence[int], *, step: int | None, **_: Any) -> list[float]:
    """Equal steps from 0 to 1, also where the last step is shorter."""
    return steps_axis(shape, steps=len(_rise_counts(shape, step)) - 1)


def _rise(inserts: bool) -> Callable[..., Points]:
    """`step` pixels more at every point."""

    def points(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
        features, counts = shape[1] * shape[2], _rise_counts(shape, step)
        if inserts:
            return nested(shape, "least", [features - k for k in counts], fill, None)
        return nested(shape, "most", counts, fill, None)

    return points


_RISE_DELETED, _RISE_INSERTED = _rise(inserts=False), _rise(inserts=True)


@metric(
    name="deletion:rise",
    higher_is_better=False,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_BIASES["deletion"],
    paper="Petsiuk et al. 2018, released code",
    formula="deletion, `step` pixels at a time",
    asks=flat(_RISE_DELETED),
    axis=of_pixels(rise_axis, "deleted"),
)
def deletion_rise(batch: Batch, seen: Seen, *, step: Steps | None = None, fill: str = "mean") -> Responses:
    """Deletion with the step of the code released with RISE: as many pixels as the image is wide."""
    return _respond(batch, seen, _RISE_DELETED, rise_axis, step=step, fill=fill)


@metric(
    name="insertion:rise",
    higher_is_better=True,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_BIASES["insertion"],
    paper="Petsiuk et al. 2018, released code",
    formula="insertion, `step` pixels at a time, on the image blurred towards the mean colour",
    asks=flat(_RISE_INSERTED),
    axis=of_pixels(rise_axis, "inserted"),
)
def insertion_rise(batch: Batch, seen: Seen, *, step: Steps | None = None, fill: str = "blur:rise") -> Responses:
    """Insertion with the step and the blurred canvas of the code released with RISE."""
    return _respond(batch, seen, _RISE_INSERTED, rise_axis, step=step, fill=fill)


def _coherency(inserts: bool) -> Callable[..., Points]:
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


_COHERENCY_DELETED, _COHERENCY_INSERTED = _coherency(inserts=False), _coherency(inserts=True)


@metric(
    name="deletion:coherency",
    higher_is_better=False,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_BIASES["deletion"],
    paper="Vandersmissen and Oramas 2023, released code",
    formula="deletion in steps of ceil(h·w / steps) pixels, or of whole windows",
    asks=flat(_COHERENCY_DELETED),
    axis=of_pixels(steps_axis, "deleted"),
)
def deletion_coherency(
    batch: Batch,
    seen: Seen,
    *,
    steps: Steps = 100,
    fill: str = "mean",
    unit: Unit = "pixel",
    window: Window = 9,
    repeats: Repeats = None,
) -> Responses:
    """Deletion as in the code released with the coherency study; the last points may all be empty images."""
    return _respond(
        batch, seen, _COHERENCY_DELETED, steps_axis, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats
    )


@metric(
    name="insertion:coherency",
    higher_is_better=True,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_BIASES["insertion"],
    paper="Vandersmissen and Oramas 2023, released code",
    formula="insertion in steps of ceil(h·w / steps) pixels, or of whole windows",
    asks=flat(_COHERENCY_INSERTED),
    axis=of_pixels(steps_axis, "inserted"),
)
def insertion_coherency(
    batch: Batch,
    seen: Seen,
    *,
    steps: Steps = 100,
    fill: str = "blur",
    unit: Unit = "pixel",
    window: Window = 9,
    repeats: Repeats = None,
) -> Responses:
    """Insertion as in the code released with the coherency study, on the blurred image by default."""
    return _respond(
        batch, seen, _COHERENCY_INSERTED, steps_axis, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats
    )
