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

from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption
from uproar.metrics.axis import of_pixels
from uproar.metrics.changes import Side
from uproar.metrics.insertion_deletion import Points, blank_point, flat, nested
from uproar.metrics.prepared_batch import PreparedBatch
from uproar.metrics.probabilities import area_of, curve_of, only
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.registry import options_of
from uproar.removal import count
from uproar.types import KINDS

Fraction = Annotated[float, Field(ge=0, le=1)]
Fractions = tuple[Fraction, ...]
By = Literal["accuracy", "probability"]

PAPER: Fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""The fractions of the paper."""

ROAD = "Rong et al. 2022"
CHANCE = "the area of a random order on the same images and model"
MORF_BIAS = "scattered holes are interpolated almost perfectly, so maps of scattered pixels look harmless"
LERF_BIAS = "maps that keep one coherent patch do well"


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


def _curve(
    batch: Batch, outputs: Outputs, points: Callable[..., Points], fractions: Fractions, fill: str, by: By
) -> Tensor:
    shape = tuple(batch.x.shape[1:])
    return curve_of(batch, outputs, points(shape, fractions=fractions, fill=fill), by, blank_point(shape, fill=fill))


def _respond(batch: Batch, fractions: Fractions, values: Tensor) -> Responses:
    usable = PreparedBatch.of(batch).usable
    return {"value": only(usable, area_of(fractions, values)), "curve": values}


curve_metric = functools.partial(metric, true_to="model", low=0, high=1, chance=CHANCE, paper=ROAD, kinds=KINDS)
"""Declares a mean of what the model makes of images that lose pixels."""


@curve_metric(
    higher_is_better=False,
    biases=MORF_BIAS,
    formula="area under the accuracy against the share removed, most important first",
    asks=flat(_MOST),
    axis=of_pixels(axis, "removed"),
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
    return _respond(batch, fractions, _curve(batch, outputs, _MOST, fractions, fill, by))


@curve_metric(
    higher_is_better=True,
    biases=LERF_BIAS,
    formula="area under the accuracy against the share removed, least important first",
    asks=flat(_LEAST),
    axis=of_pixels(axis, "removed", "The least important pixels go first."),
)
@options_of(road)
def road_lerf(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean accuracy (or probability) of the target while the least important pixels are interpolated away."""
    return _respond(batch, options["fractions"], _curve(batch, outputs, _LEAST, **options))


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
    kinds=KINDS,
    axis=of_pixels(axis, "removed", "", "{by}, least − most first"),
)
@options_of(road)
def road_gap(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """How much longer the class survives when the least important pixels go first than when the most do."""
    least, most = (_curve(batch, outputs, points, **options) for points in (_LEAST, _MOST))
    return _respond(batch, options["fractions"], least - most)
