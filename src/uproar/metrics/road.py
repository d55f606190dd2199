"""ROAD: remove and debias. Removed pixels become noisy linear interpolations, so that the hole itself says little.

A fraction is the share of pixels removed, from the most important on (`road`) or from the least (`road_lerf`); only
the order of the map counts. By accuracy, the value of an image is the share of fractions at which it is classified as
the target, so that the mean over images is the area under the accuracy curve.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption
from uproar.metrics.axis import Axis, of_pixels
from uproar.metrics.base import Batch, Change, Responses, Seen, metric
from uproar.metrics.changes import AtPercentile, Side, removed
from uproar.metrics.insertion import Points, flat, nested
from uproar.metrics.prepared_batch import Jittered, Prepared
from uproar.metrics.probabilities import area_of, curve_of, measured, only
from uproar.removal import count

Fraction = Annotated[float, Field(ge=0, le=1)]
Fractions = tuple[Fraction, ...]
By = Literal["accuracy", "probability"]

PAPER: Fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""The fractions of the paper."""

_ROAD = "Rong et al. 2022"
_CHANCE = "the area of a random order on the same images and model"
_MORF = "scattered holes are interpolated almost perfectly, so maps of scattered pixels look harmless"
_LERF = "maps that keep one coherent patch do well"


def axis(shape: Sequence[int], *, fractions: Fractions, **_: Any) -> list[float]:
    """The fractions, which must increase."""
    if not fractions or any(b <= a for a, b in itertools.pairwise(fractions)):
        raise BadOption(f"Fractions must increase, at least one; got {list(fractions)}.")
    return list(fractions)


def _points(side: Side) -> Callable[..., Points]:
    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [count(t, features) for t in axis(shape, fractions=fractions)]
        return nested(shape, side, counts, fill, None)

    return points


_MOST, _LEAST = _points("most"), _points("least")


def _both(shape: Sequence[int], **options: Any) -> list[Change]:
    return [*flat(_MOST)(shape, **options), *flat(_LEAST)(shape, **options)]


def _respond(batch: Batch, fractions: Fractions, values: Tensor) -> Responses:
    usable = Prepared.of(batch).usable
    return {"value": only(usable, area_of(fractions, values)), "curve": values}


@metric(
    higher_is_better=False,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_MORF,
    paper=_ROAD,
    formula="area under the accuracy against the share removed, most important first",
    asks=flat(_MOST),
    axis=of_pixels(axis, "removed"),
)
def road(
    batch: Batch, seen: Seen, *, fractions: Fractions = (0.0, *PAPER, 1.0), fill: str = "linear", by: By = "accuracy"
) -> Responses:
    """Mean accuracy (or probability) of the target while the most important pixels are interpolated away."""
    points = _MOST(batch.x.shape[1:], fractions=fractions, fill=fill)
    return _respond(batch, fractions, curve_of(batch, seen, points, by))


@metric(
    higher_is_better=True,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=_LERF,
    paper=_ROAD,
    formula="area under the accuracy against the share removed, least important first",
    asks=flat(_LEAST),
    axis=of_pixels(axis, "removed", "The least important pixels go first."),
)
def road_lerf(
    batch: Batch, seen: Seen, *, fractions: Fractions = (0.0, *PAPER, 1.0), fill: str = "linear", by: By = "accuracy"
) -> Responses:
    """Mean accuracy (or probability) of the target while the least important pixels are interpolated away."""
    points = _LEAST(batch.x.shape[1:], fractions=fractions, fill=fill)
    return _respond(batch, fractions, curve_of(batch, seen, points, by))


@metric(
    higher_is_better=True,
    low=-1,
    high=1,
    chance="0",
    biases=f"{_MORF}; {_LERF}",
    paper=_ROAD,
    formula="road_lerf − road",
    asks=_both,
    axis=of_pixels(axis, "removed", "", "{by}, least − most first"),
)
def road_gap(
    batch: Batch, seen: Seen, *, fractions: Fractions = (0.0, *PAPER, 1.0), fill: str = "linear", by: By = "accuracy"
) -> Responses:
    """How much longer the class survives when the least important pixels go first than when the most do."""
    most = curve_of(batch, seen, _MOST(batch.x.shape[1:], fractions=fractions, fill=fill), by)
    least = curve_of(batch, seen, _LEAST(batch.x.shape[1:], fractions=fractions, fill=fill), by)
    return _respond(batch, fractions, least - most)


def _leemann(side: Side) -> Callable[..., Points]:
    """`int(p · h · w)` pixels are taken away, or, from the other side, left."""

    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, jitter: float, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [int(features * p) for p in axis(shape, fractions=fractions)]
        gone = counts if side == "most" else [features - k for k in counts]
        return [(removed(side, k, features, fill, 0, Jittered(jitter)),) for k in gone]

    return points


_LEEMANN_MOST, _LEEMANN_LEAST = _leemann("most"), _leemann("least")
_JITTER = "noise added to the map reorders real differences below 1e-4 of its range"


@metric(
    name="road:leemann",
    higher_is_better=False,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=f"{_MORF}; {_JITTER}",
    paper=f"{_ROAD}, released code",
    formula="mean over p of the accuracy with int(p·h·w) most important pixels removed",
    asks=flat(_LEEMANN_MOST),
    axis=of_pixels(axis, "removed"),
)
def road_leemann(
    batch: Batch,
    seen: Seen,
    *,
    fractions: Fractions = PAPER,
    fill: str = "linear",
    jitter: float = 1e-4,
    by: By = "accuracy",
) -> Responses:
    """ROAD as in its released code: one field of noise on all maps, `int(p·h·w)` pixels, the mean over p."""
    points = _LEEMANN_MOST(batch.x.shape[1:], fractions=fractions, fill=fill, jitter=jitter)
    values = curve_of(batch, seen, points, by)
    return {"value": only(Prepared.of(batch).usable, values.mean(1)), "curve": values}


@metric(
    name="road_lerf:leemann",
    higher_is_better=True,
    low=0,
    high=1,
    chance=_CHANCE,
    biases=f"{_LERF}; {_JITTER}",
    paper=f"{_ROAD}, released code",
    formula="mean over p of the accuracy with all but the int(p·h·w) most important pixels removed",
    asks=flat(_LEEMANN_LEAST),
    axis=of_pixels(axis, "kept"),
)
def road_lerf_leemann(
    batch: Batch,
    seen: Seen,
    *,
    fractions: Fractions = PAPER,
    fill: str = "linear",
    jitter: float = 1e-4,
    by: By = "accuracy",
) -> Responses:
    """ROAD's other order as in its released code, where a fraction is the share of pixels that is *kept*."""
    points = _LEEMANN_LEAST(batch.x.shape[1:], fractions=fractions, fill=fill, jitter=jitter)
    values = curve_of(batch, seen, points, by)
    return {"value": only(Prepared.of(batch).usable, values.mean(1)), "curve": values}


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


def _at(*sides: Side) -> Callable[..., list[Change]]:
    def asks(shape: Sequence[int], *, percentiles: Percentiles, fill: str) -> list[Change]:
        return [AtPercentile(side, q, fill) for side in sides for q in percentiles]

    return asks


def _difference(batch: Batch, seen: Seen, side: Side, percentiles: Percentiles, fill: str) -> Tensor:
    """Probability after minus before, (n, percentiles)."""
    after = curve_of(batch, seen, [(AtPercentile(side, q, fill),) for q in percentiles])
    return after - measured(batch.clean, batch.target, "probability")[:, None]


@metric(
    name="road_morf:gradcam",
    higher_is_better=False,
    low=-1,
    high=1,
    chance=_CHANCE,
    biases=_TIES,
    paper=_GRADCAM,
    asks=_at("most"),
    axis=_PERCENTILES,
    formula="mean over q of p'_c − p_c, pixels from the q-th percentile up removed",
)
def road_morf_gradcam(batch: Batch, seen: Seen, *, percentiles: Percentiles = _TENS, fill: str = "linear") -> Responses:
    """Change of the target's probability when values from a percentile up go, so (100 − q) % of the pixels."""
    values = _difference(batch, seen, "most", percentiles, fill)
    return {"value": only(Prepared.of(batch).usable, values.mean(1)), "curve": values}


@metric(
    name="road_lerf:gradcam",
    higher_is_better=True,
    low=-1,
    high=1,
    chance=_CHANCE,
    biases=_TIES,
    paper=_GRADCAM,
    asks=_at("least"),
    axis=_PERCENTILES,
    formula="mean over q of p'_c − p_c, pixels of 1 − map from the q-th percentile up removed",
)
def road_lerf_gradcam(batch: Batch, seen: Seen, *, percentiles: Percentiles = _TENS, fill: str = "linear") -> Responses:
    """Change of the target's probability when the lowest (100 − q) % of the pixels go."""
    values = _difference(batch, seen, "least", percentiles, fill)
    return {"value": only(Prepared.of(batch).usable, values.mean(1)), "curve": values}


@metric(
    name="road:gradcam",
    higher_is_better=True,
    low=-1,
    high=1,
    chance="0",
    biases=_TIES,
    paper=_GRADCAM,
    asks=_at("most", "least"),
    axis=_PERCENTILES,
    formula="(road_lerf:gradcam − road_morf:gradcam) / 2",
)
def road_gradcam(batch: Batch, seen: Seen, *, percentiles: Percentiles = _TENS, fill: str = "linear") -> Responses:
    """Half the difference between removing the least and the most important pixels."""
    most = _difference(batch, seen, "most", percentiles, fill)
    least = _difference(batch, seen, "least", percentiles, fill)
    values = (least - most) / 2
    value = (least.mean(1) - most.mean(1)) / 2
    return {"value": only(Prepared.of(batch).usable, value), "curve": values}
