"""Insertion and deletion: the target's probability while pixels come or go, most important first.

Of a regression, which has no probability, it is the value, on a scale on which the image has 1 and the fully removed
image 0.

A fraction is the share of pixels inserted, or deleted. Only the order of the map counts. Fills that draw are averaged
over `repeats` independent draws (5 for `uniform` and `resample` by default, 1 for the others).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption, NotApplicable
from uproar.metrics.changes import BY_VALUE, ByWindow, PixelOrder, PreparedBatch, Regions, Side, removed
from uproar.metrics.curves import Cuts, area_of, curve_of, follows_values, only, refined
from uproar.metrics.registry import SHOWN, Batch, Change, Outputs, Responses, metric, of_pixels
from uproar.registry import options_of
from uproar.removal import count
from uproar.removal.fill import FillContext, Positive, Size, fills, gaussian_kernel, read_fill, weighted_windows
from uproar.types import KINDS, WITH_PROBABILITIES, Images

Steps = Annotated[int, Field(ge=1, le=100_000)] | Literal["adaptive"]
"""Equal steps, or `adaptive`: a curve of `FINE` steps of which only those are shown where it changes."""
FINE, EACH = 100, 5
"""Steps of an adaptive curve, and how many of them its coarse curve takes at once."""
EXPECTED = 10.0
"""Images that an adaptive curve takes beside its coarse curve, about."""
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
    return 5 if entry.facts.get("random") and not entry.facts.get("uses_mask") else 1


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


def steps_axis(shape: Sequence[int], *, steps: int | str, **_: Any) -> list[float]:
    """Equal steps from 0 to 1."""
    total = FINE if isinstance(steps, str) else steps
    return [i / total for i in range(total + 1)]


def coarse_points(steps: int | str) -> list[int]:
    """The points of the axis that every image is shown at."""
    return list(range(0, FINE + 1, EACH)) if isinstance(steps, str) else list(range(steps + 1))


def expected_forwards(steps: int | str, **_: Any) -> float:
    """Images shown beside those of `asks`, about."""
    return EXPECTED if isinstance(steps, str) else 0.0


def _points(inserts: bool) -> Callable[..., Points]:
    """Exactly `round(t · h · w)` pixels at every fraction t."""

    def points(
        shape: Sequence[int], *, steps: int | str, fill: str, unit: Unit, window: int, repeats: int | None
    ) -> Points:
        cuts = _cuts(shape, inserts, steps, fill, unit, window, repeats)
        counts = [cuts.counts[i] for i in coarse_points(steps)]
        return nested(shape, cuts.side, counts, fill, repeats, cuts.order)

    return points


def _cuts(
    shape: Sequence[int], inserts: bool, steps: int | str, fill: str, unit: Unit, window: int, repeats: int | None
) -> Cuts:
    """All points of the axis: how many pixels are removed at each, and from which side."""
    features = shape[1] * shape[2]
    order = BY_VALUE if unit == "pixel" else ByWindow(window)
    counts = [count(t, features) for t in steps_axis(shape, steps=steps)]
    gone = [features - k for k in counts] if inserts else counts
    return Cuts("least" if inserts else "most", tuple(gone), fill, order, repeats_of(fill, repeats))


def flat(points: Callable[..., Points]) -> Callable[..., list[Change]]:
    """All changes of the points; for a regression also those that remove everything, by which it is normalised."""

    def changes(shape: Sequence[int], **options: Any) -> list[Change]:
        wanted = [change for point in points(shape, **options) for change in point]
        return [*wanted, *blank_point(shape, **options)] if follows_values() else wanted

    return changes


def blank_point(shape: Sequence[int], *, fill: str, repeats: int | None = None, **_: Any) -> tuple[Change, ...]:
    """The changes that remove every pixel."""
    return nested(shape, "most", [shape[1] * shape[2]], fill, repeats)[0]


def area_responses(
    batch: Batch, outputs: Outputs, points: Callable[..., Points], axis: Callable[..., list[float]], **options: Any
) -> Responses:
    """The curve of the target's probability over some points, and the area under it."""
    shape = tuple(batch.x.shape[1:])
    values = curve_of(batch, outputs, points(shape, **options), blank=blank_point(shape, **options))
    area = only(PreparedBatch.of(batch).usable, area_of(axis(shape, **options), values))
    return {"value": area, "curve": values}


_DELETED, _INSERTED = _points(inserts=False), _points(inserts=True)


def _responses(batch: Batch, outputs: Outputs, inserts: bool, **options: Any) -> Responses:
    """Curve and area with equal steps, or adaptively."""
    points = _INSERTED if inserts else _DELETED
    if options["steps"] != "adaptive":
        return area_responses(batch, outputs, points, steps_axis, **options)
    if follows_values():
        raise NotApplicable("adaptive steps are for class probabilities; give a number of steps for a regression")
    shape, ready = tuple(batch.x.shape[1:]), PreparedBatch.of(batch)
    axis = steps_axis(shape, steps="adaptive")
    coarse = curve_of(batch, outputs, points(shape, **options))
    cuts = _cuts(shape, inserts, **options)
    values, shown = refined(ready, coarse, coarse_points("adaptive"), axis, cuts, "probability")
    return {"value": only(ready.usable, area_of(axis, values)), "curve": values, SHOWN: shown}


curve_metric = functools.partial(
    metric,
    true_to="model",
    low=0,
    high=1,
    chance=CHANCE,
    paper="Petsiuk et al. 2018",
    forwards=expected_forwards,
    kinds=KINDS,
)
"""Declares an area under the curve of the target's probability."""


@curve_metric(
    higher_is_better=False,
    biases=BIASES["deletion"],
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

    `steps="adaptive"` is the curve of 100 steps, shown at every fifth and where it changes: about a quarter of the
    images, the same area within 0.005. `unit="region"` takes window×window pixels around the most important pixel at a
    time, still with exact counts.
    """
    return _responses(batch, outputs, False, steps=steps, fill=fill, unit=unit, window=window, repeats=repeats)


@curve_metric(
    higher_is_better=True,
    biases=BIASES["insertion"],
    formula=_FORMULA.format("inserted"),
    asks=flat(_INSERTED),
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
)
@options_of(deletion)
def insertion(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean probability of the target while the most important pixels come first, on a canvas made by the fill.

    `steps="adaptive"` as for `deletion`.
    """
    return _responses(batch, outputs, True, **options)


@fills.declare("blur:rise")
def blur_rise(x: Images, removed: Tensor, around: FillContext, *, size: Size = 11, sigma: Positive = 5.0) -> Images:
    """The image blurred as in the code released with RISE: the mean colour lies around it.

    The weights are those of a Gaussian whose tails are folded back into the size×size window.
    """
    colour = around.colour("blur:rise").to(x).view(1, -1, 1, 1)
    kernel = folded_gaussian(size, sigma).to(x)
    x = x - colour
    for axis in (2, 3):
        beside = [0, 0, 0, 0]
        beside[2 * (3 - axis) : 2 * (3 - axis) + 2] = size // 2, (size - 1) // 2
        x = weighted_windows(F.pad(x, beside), kernel, axis)
    return x + colour


def folded_gaussian(size: int, sigma: float) -> Tensor:
    """Weights of a Gaussian around the middle of a window that is mirrored at its own edges; they sum to 1."""
    reach = math.floor(4 * sigma + 0.5)
    steps = torch.arange(-reach, reach + 1)
    place = (steps + size // 2) % (2 * size)
    place = torch.minimum(place, 2 * size - 1 - place)
    return torch.zeros(size, dtype=torch.float64).index_add_(0, place, gaussian_kernel(steps, sigma))


def _rise_counts(shape: Sequence[int], step: int | None) -> list[int]:
    features = shape[1] * shape[2]
    each = step or shape[2]
    return [min(i * each, features) for i in range(math.ceil(features / each) + 1)]


def rise_axis(shape: Sequence[int], *, step: int | None, **_: Any) -> list[float]:
    """Equal steps from 0 to 1, also where the last step is shorter."""
    return steps_axis(shape, steps=len(_rise_counts(shape, step)) - 1)


def _rise_points(inserts: bool) -> Callable[..., Points]:
    """`step` pixels more at every point."""

    def points(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
        features, counts = shape[1] * shape[2], _rise_counts(shape, step)
        if inserts:
            return nested(shape, "least", [features - k for k in counts], fill, None)
        return nested(shape, "most", counts, fill, None)

    return points


_RISE: dict[str, Any] = {"low": 0, "high": 1, "chance": CHANCE, "paper": "Petsiuk et al. 2018, released code"}
_RISE_DELETED, _RISE_INSERTED = _rise_points(inserts=False), _rise_points(inserts=True)


@metric(
    true_to="model",
    name="deletion:rise",
    variant_of="deletion",
    higher_is_better=False,
    biases=BIASES["deletion"],
    formula="deletion, `step` pixels at a time",
    asks=flat(_RISE_DELETED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(rise_axis, "deleted"),
    **_RISE,
)
def deletion_rise(batch: Batch, outputs: Outputs, *, step: Steps | None = None, fill: str = "mean") -> Responses:
    """Deletion with the step of the code released with RISE: as many pixels as the image is wide."""
    return area_responses(batch, outputs, _RISE_DELETED, rise_axis, step=step, fill=fill)


@metric(
    true_to="model",
    name="insertion:rise",
    variant_of="insertion",
    higher_is_better=True,
    biases=BIASES["insertion"],
    formula="insertion, `step` pixels at a time, on the image blurred towards the mean colour",
    asks=flat(_RISE_INSERTED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(rise_axis, "inserted", of_shown=True),
    **_RISE,
)
def insertion_rise(batch: Batch, outputs: Outputs, *, step: Steps | None = None, fill: str = "blur:rise") -> Responses:
    """Insertion with the step and the blurred canvas of the code released with RISE."""
    return area_responses(batch, outputs, _RISE_INSERTED, rise_axis, step=step, fill=fill)


def _coherency_points(inserts: bool) -> Callable[..., Points]:
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


_COHERENCY: dict[str, Any] = {
    "low": 0,
    "high": 1,
    "chance": CHANCE,
    "paper": "Vandersmissen and Oramas 2023, released code",
}
_COHERENCY_DELETED, _COHERENCY_INSERTED = _coherency_points(inserts=False), _coherency_points(inserts=True)


@metric(
    name="deletion:coherency",
    variant_of="deletion",
    true_to="model",
    higher_is_better=False,
    biases=BIASES["deletion"],
    formula="deletion in steps of ceil(h·w / steps) pixels, or of whole windows",
    asks=flat(_COHERENCY_DELETED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(steps_axis, "deleted"),
    **_COHERENCY,
)
@options_of(deletion)
def deletion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Deletion as in the code released with the coherency study; the last points may all be empty images."""
    return area_responses(batch, outputs, _COHERENCY_DELETED, steps_axis, **options)


@metric(
    name="insertion:coherency",
    variant_of="insertion",
    true_to="model",
    higher_is_better=True,
    biases=BIASES["insertion"],
    formula="insertion in steps of ceil(h·w / steps) pixels, or of whole windows",
    asks=flat(_COHERENCY_INSERTED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
    **_COHERENCY,
)
@options_of(deletion, fill="blur")
def insertion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Insertion as in the code released with the coherency study, on the blurred image by default."""
    return area_responses(batch, outputs, _COHERENCY_INSERTED, steps_axis, **options)
