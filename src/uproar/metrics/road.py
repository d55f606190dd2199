"""ROAD: remove and debias. Removed pixels become noisy linear interpolations, so that the hole itself says little.

A fraction is the share of pixels removed, from the most important on (`road`) or from the least (`road_lerf`); only
the order of the map counts. By accuracy, the value of an image is the share of fractions at which it is classified as
the target, so that the mean over images is the area under the accuracy curve.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption, NotApplicable
from uproar.metrics.changes import BY_VALUE, AtPercentile, Jittered, PreparedBatch, Side, removed
from uproar.metrics.curves import Cuts, area_of, curve_of, follows_values, only, refined, target_score
from uproar.metrics.insertion_deletion import Points, blank_point, flat, nested, repeats_of
from uproar.metrics.registry import SHOWN, Axis, Batch, Change, Outputs, Responses, metric, of_pixels
from uproar.registry import options_of
from uproar.removal import count
from uproar.types import KINDS, WITH_PROBABILITIES

Fraction = Annotated[float, Field(ge=0, le=1)]
Fractions = tuple[Fraction, ...]
By = Literal["accuracy", "probability"]
Shown = Literal["all", "adaptive"]
"""All fractions, or `adaptive`: those given, and others between them where the curve changes."""
PARTS = 8
"""Parts of an interval between two of the given fractions, of which an adaptive curve is made."""
TOLERANCE = 0.008
"""Area that an interval of an adaptive curve may hide: mean areas were within .005 of those of the full curve."""
EXPECTED = 8.0
"""Images that an adaptive curve takes beside the given fractions, about."""

PAPER: Fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""The fractions of the paper."""

ROAD = "Rong et al. 2022"
CHANCE = "the area of a random order on the same images and model"
MORF_BIAS = "scattered holes are interpolated almost perfectly, so maps of scattered pixels look harmless"
LERF_BIAS = "maps that keep one coherent patch do well"


def axis(shape: Sequence[int], *, fractions: Fractions, points: Shown = "all", **_: Any) -> list[float]:
    """The fractions, which must increase; of an adaptive curve also those between them."""
    if not fractions or any(b <= a for a, b in itertools.pairwise(fractions)):
        raise BadOption(f"Fractions must increase, at least one; got {list(fractions)}.")
    if points == "all":
        return list(fractions)
    if len(fractions) < 2:
        raise BadOption(f"points=adaptive needs at least two fractions; got {list(fractions)}.")
    parts = ([a + (b - a) * i / PARTS for i in range(PARTS)] for a, b in itertools.pairwise(fractions))
    return [*itertools.chain(*parts), fractions[-1]]


def expected_forwards(*, points: Shown, **_: Any) -> float:
    """Images shown beside those of `asks`, about."""
    return EXPECTED if points == "adaptive" else 0.0


def _points(side: Side) -> Callable[..., Points]:
    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [count(t, features) for t in axis(shape, fractions=fractions)]
        return nested(shape, side, counts, fill, None)

    return points


_POINTS: dict[Side, Callable[..., Points]] = {"most": _points("most"), "least": _points("least")}


def _both(shape: Sequence[int], **options: Any) -> list[Change]:
    return [change for points in _POINTS.values() for change in flat(points)(shape, **options)]


def _curve(
    batch: Batch, outputs: Outputs, side: Side, *, fractions: Fractions, fill: str, by: By, points: Shown
) -> tuple[Tensor, Tensor]:
    """The curve of every image, and how many images it took beside those of the given fractions."""
    shape, given = tuple(batch.x.shape[1:]), _POINTS[side]
    values = curve_of(batch, outputs, given(shape, fractions=fractions, fill=fill), by, blank_point(shape, fill=fill))
    if points == "all":
        return values, torch.zeros(len(values))
    if by != "probability":
        raise BadOption(f"points=adaptive is for by=probability, whose curves have no jumps; got by={by}.")
    if follows_values():
        raise NotApplicable("adaptive points are for class probabilities; give points=all for a regression")
    fine = axis(shape, fractions=fractions, points=points)
    counts = tuple(count(t, shape[1] * shape[2]) for t in fine)
    cuts = Cuts(side, counts, fill, BY_VALUE, repeats_of(fill, None))
    at = range(0, len(fine), PARTS)
    return refined(PreparedBatch.of(batch), values, at, fine, cuts, by, TOLERANCE)


def _respond(batch: Batch, values: Tensor, shown: Tensor, **options: Any) -> Responses:
    area = area_of(axis(tuple(batch.x.shape[1:]), **options), values)
    responses = {"value": only(PreparedBatch.of(batch).usable, area), "curve": values}
    return responses if options["points"] == "all" else {**responses, SHOWN: shown}


curve_metric = functools.partial(
    metric, true_to="model", low=0, high=1, chance=CHANCE, paper=ROAD, kinds=KINDS, forwards=expected_forwards
)
"""Declares a mean of what the model makes of images that lose pixels."""


@curve_metric(
    higher_is_better=False,
    biases=MORF_BIAS,
    formula="area under the accuracy against the share removed, most important first",
    asks=flat(_POINTS["most"]),
    axis=of_pixels(axis, "removed"),
)
def road(
    batch: Batch,
    outputs: Outputs,
    *,
    fractions: Fractions = (0.0, *PAPER, 1.0),
    fill: str = "linear",
    by: By = "accuracy",
    points: Shown = "all",
) -> Responses:
    """Mean accuracy (or probability) of the target while the most important pixels are interpolated away.

    `points="adaptive"` (by probability) shows the given fractions, and others between them where the curve changes: the
    area is nearly that of eight times as many fractions, for about a third of the images.
    """
    options: dict[str, Any] = {"fractions": fractions, "fill": fill, "by": by, "points": points}
    return _respond(batch, *_curve(batch, outputs, "most", **options), **options)


@curve_metric(
    higher_is_better=True,
    biases=LERF_BIAS,
    formula="area under the accuracy against the share removed, least important first",
    asks=flat(_POINTS["least"]),
    axis=of_pixels(axis, "removed", "The least important pixels go first."),
)
@options_of(road)
def road_lerf(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean accuracy (or probability) of the target while the least important pixels are interpolated away."""
    return _respond(batch, *_curve(batch, outputs, "least", **options), **options)


@metric(
    true_to="model",
    higher_is_better=True,
    low=-1,
    high=1,
    chance="0",
    biases=f"{MORF_BIAS}; {LERF_BIAS}",
    paper=ROAD,
    formula="road_lerf − road",
    asks=_both,
    forwards=lambda **options: 2 * expected_forwards(**options),
    kinds=KINDS,
    axis=of_pixels(axis, "removed", "", "{by}, least − most first"),
)
@options_of(road)
def road_gap(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """How much longer the class survives when the least important pixels go first than when the most do."""
    least, beside = _curve(batch, outputs, "least", **options)
    most, more = _curve(batch, outputs, "most", **options)
    return _respond(batch, least - most, beside + more, **options)


def _leemann_points(side: Side) -> Callable[..., Points]:
    """`int(p · h · w)` pixels are taken away, or, from the other side, left."""

    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, jitter: float, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [int(features * p) for p in axis(shape, fractions=fractions)]
        gone = counts if side == "most" else [features - k for k in counts]
        return [(removed(side, k, features, fill, 0, Jittered(jitter)),) for k in gone]

    return points


_LEEMANN_MOST, _LEEMANN_LEAST = _leemann_points("most"), _leemann_points("least")


def _mean_over_fractions(batch: Batch, outputs: Outputs, points: Points, by: By) -> Responses:
    """The curve over the points and its plain mean, where the released code has no area."""
    values = curve_of(batch, outputs, points, by)
    return {"value": only(PreparedBatch.of(batch).usable, values.mean(1)), "curve": values}


_LEEMANN: dict[str, Any] = {"low": 0, "high": 1, "chance": CHANCE, "paper": f"{ROAD}, released code"}
_JITTER = "noise added to the map reorders real differences below 1e-4 of its range"


@metric(
    true_to="model",
    name="road:leemann",
    variant_of="road",
    higher_is_better=False,
    biases=f"{MORF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with int(p·h·w) most important pixels removed",
    asks=flat(_LEEMANN_MOST),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(axis, "removed"),
    **_LEEMANN,
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
    return _mean_over_fractions(batch, outputs, points, by)


@metric(
    true_to="model",
    name="road_lerf:leemann",
    variant_of="road_lerf",
    higher_is_better=True,
    biases=f"{LERF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with all but the int(p·h·w) most important pixels removed",
    asks=flat(_LEEMANN_LEAST),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(axis, "kept", of_shown=True),
    **_LEEMANN,
)
@options_of(road_leemann)
def road_lerf_leemann(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """ROAD's other order as in its released code, where a fraction is the share of pixels that is *kept*."""
    return _mean_over_fractions(batch, outputs, _LEEMANN_LEAST(batch.x.shape[1:], **options), options["by"])


Percentile = Annotated[float, Field(ge=0, le=100)]
Percentiles = tuple[Percentile, ...]
_TENS: Percentiles = (10, 20, 30, 40, 50, 60, 70, 80, 90)
_GRADCAM = "pytorch-grad-cam"
_TIES = "all equal values at a threshold go: a sparse map loses nearly everything at every percentile"


def percentile_axis(shape: Sequence[int], *, percentiles: Percentiles, **_: Any) -> list[float]:
    """The percentiles as fractions of the map that stays."""
    return axis(shape, fractions=tuple(q / 100 for q in percentiles))


_PERCENTILES = Axis(
    percentile_axis, "percentile of the map at the cut", "change of probability", "change", "percentile"
)
_GRADCAM_FACTS: dict[str, Any] = {"low": -1, "high": 1, "biases": _TIES, "paper": _GRADCAM, "axis": _PERCENTILES}


def _at(*sides: Side) -> Callable[..., list[Change]]:
    def asks(shape: Sequence[int], *, percentiles: Percentiles, fill: str) -> list[Change]:
        return [AtPercentile(side, q, fill) for side in sides for q in percentiles]

    return asks


def _difference(batch: Batch, outputs: Outputs, side: Side, percentiles: Percentiles, fill: str) -> Tensor:
    """Probability after minus before, (n, percentiles)."""
    after = curve_of(batch, outputs, [(AtPercentile(side, q, fill),) for q in percentiles])
    return after - target_score(batch.clean, batch.target, "probability")[:, None]


@metric(
    name="road_morf:gradcam",
    variant_of="road_morf",
    true_to="model",
    higher_is_better=False,
    chance=CHANCE,
    asks=_at("most"),
    kinds=WITH_PROBABILITIES,
    formula="mean over q of p'_c − p_c, pixels from the q-th percentile up removed",
    **_GRADCAM_FACTS,
)
def road_morf_gradcam(
    batch: Batch, outputs: Outputs, *, percentiles: Percentiles = _TENS, fill: str = "linear"
) -> Responses:
    """Change of the target's probability when values from a percentile up go, so (100 − q) % of the pixels."""
    values = _difference(batch, outputs, "most", percentiles, fill)
    return {"value": only(PreparedBatch.of(batch).usable, values.mean(1)), "curve": values}


@metric(
    name="road_lerf:gradcam",
    variant_of="road_lerf",
    true_to="model",
    higher_is_better=True,
    chance=CHANCE,
    asks=_at("least"),
    kinds=WITH_PROBABILITIES,
    formula="mean over q of p'_c − p_c, pixels of 1 − map from the q-th percentile up removed",
    **_GRADCAM_FACTS,
)
@options_of(road_morf_gradcam)
def road_lerf_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Change of the target's probability when the lowest (100 − q) % of the pixels go."""
    values = _difference(batch, outputs, "least", **options)
    return {"value": only(PreparedBatch.of(batch).usable, values.mean(1)), "curve": values}


@metric(
    name="road:gradcam",
    variant_of="road",
    true_to="model",
    higher_is_better=True,
    chance="0",
    asks=_at("most", "least"),
    kinds=WITH_PROBABILITIES,
    formula="(road_lerf:gradcam − road_morf:gradcam) / 2",
    **_GRADCAM_FACTS,
)
@options_of(road_morf_gradcam)
def road_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Half the difference between removing the least and the most important pixels."""
    most = _difference(batch, outputs, "most", **options)
    least = _difference(batch, outputs, "least", **options)
    values = (least - most) / 2
    value = (least.mean(1) - most.mean(1)) / 2
    return {"value": only(PreparedBatch.of(batch).usable, value), "curve": values}
