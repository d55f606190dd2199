"""Insertion, deletion and ROAD: what the model makes of images while their pixels come or go by rank.

Insertion and deletion follow the target's probability; of a regression, which has none, the value, on a scale on which
the image has 1 and the fully removed image 0. A fraction is the share of pixels inserted, or deleted. Fills that draw
are averaged over `repeats` independent draws (5 for `uniform` and `resample` by default, 1 for the others).

ROAD (remove and debias): removed pixels become noisy linear interpolations, so that the hole itself says little. A
fraction is the share of pixels removed, from the most important on (`road`) or from the least (`road_lerf`). By
accuracy, the value of an image is the share of fractions at which it is classified as the target, so that the mean
over images is the area under the accuracy curve.

Only the order of the map counts. Below each metric stand its forms in released code.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption
from uproar.metrics.changes import (
    BY_VALUE,
    AtPercentile,
    Batch,
    ByWindow,
    Change,
    Jittered,
    Outputs,
    PixelOrder,
    Regions,
    Side,
    removed,
    uses_mask,
)
from uproar.metrics.probe import area_of, curve_of, follows_values, only, target_score
from uproar.metrics.registry import Axis, Responses, metric, of_pixels
from uproar.registry import options_of
from uproar.removal import count
from uproar.removal.fill import FillContext, Positive, Size, fills, gaussian_kernel, read_fill, weighted_windows
from uproar.types import KINDS, WITH_PROBABILITIES, Images

Steps = Annotated[int, Field(ge=1, le=100_000)]
Repeats = Annotated[int, Field(ge=1, le=1000)] | None
Window = Annotated[int, Field(ge=1)]
Unit = Literal["pixel", "region"]
Fractions = tuple[Annotated[float, Field(ge=0, le=1)], ...]
Percentiles = tuple[Annotated[float, Field(ge=0, le=100)], ...]
By = Literal["accuracy", "probability"]
Points = list[tuple[Change, ...]]

CHANCE = "the area of a random order on the same images and model"
RISE = "Petsiuk et al. 2018"
COHERENCY = "Vandersmissen and Oramas 2023, released code"
ROAD = "Rong et al. 2022"
GRADCAM = "pytorch-grad-cam"

declare = functools.partial(metric, true_to="model", low=0, high=1, chance=CHANCE)
"""Declares a mean of what the model makes of images that lose pixels."""
released = functools.partial(declare, kinds=WITH_PROBABILITIES)
"""Declares a form of such a metric that released code computes."""


# points of a curve: how many pixels are removed at each, and from which end of an order


def nested(
    shape: Sequence[int],
    side: Side,
    counts: Sequence[int],
    fill: str,
    repeats: int | None = None,
    order: PixelOrder = BY_VALUE,
) -> Points:
    """Points along one order of the pixels: at each, so many are removed from one side, in every draw of the fill."""
    features, draws = shape[1] * shape[2], range(repeats_of(fill, repeats))
    points = ((removed(side, k, features, fill, d, order) for d in draws) for k in counts)
    return [tuple(dict.fromkeys(point)) for point in points]


def repeats_of(fill: str, repeats: int | None) -> int:
    """How many independent draws of a fill are averaged."""
    if not read_fill(fill)[0].facts.get("random"):
        return 1
    return repeats or (1 if uses_mask(fill) else 5)


def blank_point(shape: Sequence[int], *, fill: str, repeats: int | None = None, **_: Any) -> tuple[Change, ...]:
    """The changes that remove every pixel."""
    return nested(shape, "most", [shape[1] * shape[2]], fill, repeats)[0]


def flat(points: Callable[..., Points]) -> Callable[..., list[Change]]:
    """All changes of the points; for a regression also those that remove everything, by which it is normalised."""

    def changes(shape: Sequence[int], **options: Any) -> list[Change]:
        wanted = [change for point in points(shape, **options) for change in point]
        return [*wanted, *blank_point(shape, **options)] if follows_values() else wanted

    return changes


def area_responses(
    batch: Batch, outputs: Outputs, points: Callable[..., Points], axis: Callable[..., list[float]], **options: Any
) -> Responses:
    """The curve of the target's probability over some points, and the area under it."""
    shape = tuple(batch.x.shape[1:])
    values = curve_of(batch, outputs, points(shape, **options), blank=blank_point(shape, **options))
    return {"value": only(batch.usable, area_of(axis(shape, **options), values)), "curve": values}


# insertion and deletion

_FORMULA = "area under p_c against the share of pixels {}"
DELETION: dict[str, Any] = {
    "higher_is_better": False,
    "biases": "changed images are unlike the training data; scattered pixels break an image sooner than a "
    "coherent patch, so noisy maps do well",
}
INSERTION: dict[str, Any] = {
    "higher_is_better": True,
    "biases": "changed images are unlike the training data; coherent patches are recognised sooner than "
    "scattered pixels, so smooth maps do well",
}


def steps_axis(shape: Sequence[int], *, steps: int, **_: Any) -> list[float]:
    """Equal steps from 0 to 1."""
    return [i / steps for i in range(steps + 1)]


def _points(side: Side) -> Callable[..., Points]:
    """Exactly `round(t · h · w)` pixels are deleted, or inserted, at every fraction t."""

    def points(shape: Sequence[int], *, steps: int, fill: str, unit: Unit, window: int, repeats: int | None) -> Points:
        features = shape[1] * shape[2]
        counts = [count(t, features) for t in steps_axis(shape, steps=steps)]
        gone = counts if side == "most" else [features - k for k in counts]
        return nested(shape, side, gone, fill, repeats, BY_VALUE if unit == "pixel" else ByWindow(window))

    return points


_DELETED, _INSERTED = _points("most"), _points("least")


@declare(
    **DELETION,
    formula=_FORMULA.format("deleted"),
    paper=RISE,
    kinds=KINDS,
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
    options: dict[str, Any] = {"steps": steps, "fill": fill, "unit": unit, "window": window, "repeats": repeats}
    return area_responses(batch, outputs, _DELETED, steps_axis, **options)


@declare(
    **INSERTION,
    formula=_FORMULA.format("inserted"),
    paper=RISE,
    kinds=KINDS,
    asks=flat(_INSERTED),
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
)
@options_of(deletion)
def insertion(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean probability of the target while the most important pixels come first, on a canvas made by the fill."""
    return area_responses(batch, outputs, _INSERTED, steps_axis, **options)


@fills.declare("blur:rise")
def blur_rise(x: Images, removed: Tensor, around: FillContext, *, size: Size = 11, sigma: Positive = 5.0) -> Images:
    """The image blurred as in the code released with RISE: the mean colour lies around it.

    The weights are those of a Gaussian whose tails are folded back into the size×size window.
    """
    colour = around.colour("blur:rise").to(x).view(1, -1, 1, 1)
    kernel = folded_gaussian(size, sigma).to(x)
    before, after = size // 2, (size - 1) // 2
    x = weighted_windows(F.pad(x - colour, (0, 0, before, after)), kernel, 2)
    return weighted_windows(F.pad(x, (before, after)), kernel, 3) + colour


def folded_gaussian(size: int, sigma: float) -> Tensor:
    """Weights of a Gaussian around the middle of a window that is mirrored at its own edges; they sum to 1."""
    reach = math.floor(4 * sigma + 0.5)
    steps = torch.arange(-reach, reach + 1)
    source = (steps + size // 2) % (2 * size)
    source = torch.minimum(source, 2 * size - 1 - source)
    return torch.zeros(size, dtype=torch.float64).index_add_(0, source, gaussian_kernel(steps, sigma))


def _rise_counts(shape: Sequence[int], step: int | None) -> list[int]:
    features = shape[1] * shape[2]
    each = step or shape[2]
    return [min(i * each, features) for i in range(math.ceil(features / each) + 1)]


def rise_axis(shape: Sequence[int], *, step: int | None, **_: Any) -> list[float]:
    """Equal steps from 0 to 1, also where the last step is shorter."""
    return steps_axis(shape, steps=len(_rise_counts(shape, step)) - 1)


def _rise_deleted(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
    """`step` pixels more at every point."""
    return nested(shape, "most", _rise_counts(shape, step), fill)


def _rise_inserted(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
    return nested(shape, "least", [shape[1] * shape[2] - k for k in _rise_counts(shape, step)], fill)


@released(
    name="deletion:rise",
    **DELETION,
    formula="deletion, `step` pixels at a time",
    paper=f"{RISE}, released code",
    asks=flat(_rise_deleted),
    axis=of_pixels(rise_axis, "deleted"),
)
def deletion_rise(batch: Batch, outputs: Outputs, *, step: Steps | None = None, fill: str = "mean") -> Responses:
    """Deletion with the step of the code released with RISE: as many pixels as the image is wide."""
    return area_responses(batch, outputs, _rise_deleted, rise_axis, step=step, fill=fill)


@released(
    name="insertion:rise",
    **INSERTION,
    formula="insertion, `step` pixels at a time, on the image blurred towards the mean colour",
    paper=f"{RISE}, released code",
    asks=flat(_rise_inserted),
    axis=of_pixels(rise_axis, "inserted", of_shown=True),
)
@options_of(deletion_rise, fill="blur:rise")
def insertion_rise(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Insertion with the step and the blurred canvas of the code released with RISE."""
    return area_responses(batch, outputs, _rise_inserted, rise_axis, **options)


def _coherency_points(side: Side) -> Callable[..., Points]:
    """Steps of ceil(h·w / steps) pixels, or whole windows until each share is covered."""

    def points(shape: Sequence[int], *, steps: int, fill: str, unit: Unit, window: int, repeats: int | None) -> Points:
        features = shape[1] * shape[2]
        counts = [min(i * math.ceil(features / steps), features) for i in range(steps + 1)]
        gone = counts if side == "most" else [features - k for k in counts]
        if unit == "pixel":
            return nested(shape, side, gone, fill, repeats)
        if features < steps * window**2:
            raise BadOption(
                f"Whole windows of {window}×{window} pixels need at most {features // window**2} steps on "
                f"{shape[1]}×{shape[2]} pixels, not {steps}."
            )
        draws = range(repeats_of(fill, repeats))
        inner = [tuple(Regions(side, i, steps, window, fill, d) for d in draws) for i in range(1, steps)]
        ends = nested(shape, side, [gone[0], gone[-1]], fill, repeats)
        return [ends[0], *inner, ends[1]]

    return points


_COHERENCY_DELETED, _COHERENCY_INSERTED = _coherency_points("most"), _coherency_points("least")


@released(
    name="deletion:coherency",
    **DELETION,
    formula="deletion in steps of ceil(h·w / steps) pixels, or of whole windows",
    paper=COHERENCY,
    asks=flat(_COHERENCY_DELETED),
    axis=of_pixels(steps_axis, "deleted"),
)
@options_of(deletion)
def deletion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Deletion as in the code released with the coherency study; the last points may all be empty images."""
    return area_responses(batch, outputs, _COHERENCY_DELETED, steps_axis, **options)


@released(
    name="insertion:coherency",
    **INSERTION,
    formula="insertion in steps of ceil(h·w / steps) pixels, or of whole windows",
    paper=COHERENCY,
    asks=flat(_COHERENCY_INSERTED),
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
)
@options_of(deletion, fill="blur")
def insertion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Insertion as in the code released with the coherency study, on the blurred image by default."""
    return area_responses(batch, outputs, _COHERENCY_INSERTED, steps_axis, **options)


# ROAD

PAPER: Fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""The fractions of the paper."""
MORF_BIAS = "scattered holes are interpolated almost perfectly, so maps of scattered pixels look harmless"
LERF_BIAS = "maps that keep one coherent patch do well"


def road_axis(shape: Sequence[int], *, fractions: Fractions, **_: Any) -> list[float]:
    """The fractions, which must increase."""
    if not fractions or any(b <= a for a, b in itertools.pairwise(fractions)):
        raise BadOption(f"Fractions must increase, at least one; got {list(fractions)}.")
    return list(fractions)


def _road_points(*sides: Side) -> Callable[..., Points]:
    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, **_: Any) -> Points:
        counts = [count(t, shape[1] * shape[2]) for t in road_axis(shape, fractions=fractions)]
        return [point for side in sides for point in nested(shape, side, counts, fill)]

    return points


def _road_curve(batch: Batch, outputs: Outputs, side: Side, *, fractions: Fractions, fill: str, by: By) -> Tensor:
    """The curve of every image, (n, fractions)."""
    shape = tuple(batch.x.shape[1:])
    points = _road_points(side)(shape, fractions=fractions, fill=fill)
    return curve_of(batch, outputs, points, by, blank_point(shape, fill=fill))


def _road_responses(batch: Batch, fractions: Fractions, curve: Tensor) -> Responses:
    return {"value": only(batch.usable, area_of(fractions, curve)), "curve": curve}


@declare(
    higher_is_better=False,
    biases=MORF_BIAS,
    formula="area under the accuracy against the share removed, most important first",
    paper=ROAD,
    kinds=KINDS,
    asks=flat(_road_points("most")),
    axis=of_pixels(road_axis, "removed"),
)
def road(
    batch: Batch,
    outputs: Outputs,
    *,
    fractions: Fractions = (0.0, *PAPER, 1.0),
    fill: str = "linear",
    by: By = "accuracy",
) -> Responses:
    """Mean accuracy (or probability) of the target while the most important pixels are interpolated away."""
    curve = _road_curve(batch, outputs, "most", fractions=fractions, fill=fill, by=by)
    return _road_responses(batch, fractions, curve)


@declare(
    higher_is_better=True,
    biases=LERF_BIAS,
    formula="area under the accuracy against the share removed, least important first",
    paper=ROAD,
    kinds=KINDS,
    asks=flat(_road_points("least")),
    axis=of_pixels(road_axis, "removed", "The least important pixels go first."),
)
@options_of(road)
def road_lerf(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean accuracy (or probability) of the target while the least important pixels are interpolated away."""
    return _road_responses(batch, options["fractions"], _road_curve(batch, outputs, "least", **options))


@metric(
    true_to="model",
    higher_is_better=True,
    low=-1,
    high=1,
    chance="0",
    biases=f"{MORF_BIAS}; {LERF_BIAS}",
    paper=ROAD,
    formula="road_lerf − road",
    asks=flat(_road_points("most", "least")),
    kinds=KINDS,
    axis=of_pixels(road_axis, "removed", "", "{by}, least − most first"),
)
@options_of(road)
def road_gap(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """How much longer the class survives when the least important pixels go first than when the most do."""
    least, most = (_road_curve(batch, outputs, side, **options) for side in ("least", "most"))
    return _road_responses(batch, options["fractions"], least - most)


def _leemann_points(side: Side) -> Callable[..., Points]:
    """`int(p · h · w)` pixels are removed, or, from the other side, left."""

    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, jitter: float, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [int(features * p) for p in road_axis(shape, fractions=fractions)]
        gone = counts if side == "most" else [features - k for k in counts]
        return [(removed(side, k, features, fill, 0, Jittered(jitter)),) for k in gone]

    return points


def _mean_over(batch: Batch, values: Tensor) -> Responses:
    """The curve and its plain mean, where the released code has no area."""
    return {"value": only(batch.usable, values.mean(1)), "curve": values}


_LEEMANN_MOST, _LEEMANN_LEAST = _leemann_points("most"), _leemann_points("least")
_JITTER = "noise added to the map reorders real differences below 1e-4 of its range"


@released(
    name="road:leemann",
    higher_is_better=False,
    biases=f"{MORF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with int(p·h·w) most important pixels removed",
    paper=f"{ROAD}, released code",
    asks=flat(_LEEMANN_MOST),
    axis=of_pixels(road_axis, "removed"),
)
def road_leemann(
    batch: Batch,
    outputs: Outputs,
    *,
    fractions: Fractions = PAPER,
    fill: str = "linear",
    jitter: float = 1e-4,
    by: By = "accuracy",
) -> Responses:
    """ROAD as in its released code: one field of noise on all maps, `int(p·h·w)` pixels, the mean over p."""
    points = _LEEMANN_MOST(batch.x.shape[1:], fractions=fractions, fill=fill, jitter=jitter)
    return _mean_over(batch, curve_of(batch, outputs, points, by))


@released(
    name="road_lerf:leemann",
    higher_is_better=True,
    biases=f"{LERF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with all but the int(p·h·w) most important pixels removed",
    paper=f"{ROAD}, released code",
    asks=flat(_LEEMANN_LEAST),
    axis=of_pixels(road_axis, "kept", of_shown=True),
)
@options_of(road_leemann)
def road_lerf_leemann(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """ROAD's other order as in its released code, where a fraction is the share of pixels that is *kept*."""
    return _mean_over(batch, curve_of(batch, outputs, _LEEMANN_LEAST(batch.x.shape[1:], **options), options["by"]))


_TENS: Percentiles = (10, 20, 30, 40, 50, 60, 70, 80, 90)


def percentile_axis(shape: Sequence[int], *, percentiles: Percentiles, **_: Any) -> list[float]:
    """The percentiles as fractions of the map that stays."""
    return road_axis(shape, fractions=tuple(q / 100 for q in percentiles))


def _at(*sides: Side) -> Callable[..., list[Change]]:
    def asks(shape: Sequence[int], *, percentiles: Percentiles, fill: str) -> list[Change]:
        return [AtPercentile(side, q, fill) for side in sides for q in percentiles]

    return asks


def _difference(batch: Batch, outputs: Outputs, side: Side, percentiles: Percentiles, fill: str) -> Tensor:
    """Probability after minus before, (n, percentiles)."""
    after = curve_of(batch, outputs, [(AtPercentile(side, q, fill),) for q in percentiles])
    return after - target_score(batch.clean, batch.target, "probability")[:, None]


gradcam_metric = functools.partial(
    metric,
    true_to="model",
    low=-1,
    high=1,
    kinds=WITH_PROBABILITIES,
    biases="all equal values at a threshold go: a sparse map loses nearly everything at every percentile",
    paper=GRADCAM,
    axis=Axis(percentile_axis, "percentile of the map at the cut", "change of probability", "change", "percentile"),
)


@gradcam_metric(
    name="road_morf:gradcam",
    higher_is_better=False,
    chance=CHANCE,
    asks=_at("most"),
    formula="mean over q of p'_c − p_c, pixels from the q-th percentile up removed",
)
def road_morf_gradcam(
    batch: Batch, outputs: Outputs, *, percentiles: Percentiles = _TENS, fill: str = "linear"
) -> Responses:
    """Change of the target's probability when values from a percentile up go, so (100 − q) % of the pixels."""
    return _mean_over(batch, _difference(batch, outputs, "most", percentiles, fill))


@gradcam_metric(
    name="road_lerf:gradcam",
    higher_is_better=True,
    chance=CHANCE,
    asks=_at("least"),
    formula="mean over q of p'_c − p_c, pixels of 1 − map from the q-th percentile up removed",
)
@options_of(road_morf_gradcam)
def road_lerf_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Change of the target's probability when the lowest (100 − q) % of the pixels go."""
    return _mean_over(batch, _difference(batch, outputs, "least", **options))


@gradcam_metric(
    name="road:gradcam",
    higher_is_better=True,
    chance="0",
    asks=_at("most", "least"),
    formula="(road_lerf:gradcam − road_morf:gradcam) / 2",
)
@options_of(road_morf_gradcam)
def road_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Half the difference between removing the least and the most important pixels."""
    most, least = (_difference(batch, outputs, side, **options) for side in ("most", "least"))
    return _mean_over(batch, (least - most) / 2)
