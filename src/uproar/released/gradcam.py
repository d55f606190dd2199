"""As in the library pytorch-grad-cam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor

from uproar.metrics.axis import Axis
from uproar.metrics.changes import AtPercentile, Blended, Side
from uproar.metrics.confidence import FACTS, INCREASE, drop_responses, probabilities_of
from uproar.metrics.prepared_batch import PreparedBatch
from uproar.metrics.probabilities import curve_of, only, target_score
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.metrics.road import CHANCE, axis
from uproar.registry import options_of
from uproar.types import WITH_PROBABILITIES

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
_ROAD: dict[str, Any] = {"low": -1, "high": 1, "biases": _TIES, "paper": _GRADCAM, "axis": _PERCENTILES}


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
    **_ROAD,
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
    **_ROAD,
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
    **_ROAD,
)
@options_of(road_morf_gradcam)
def road_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Half the difference between removing the least and the most important pixels."""
    most = _difference(batch, outputs, "most", **options)
    least = _difference(batch, outputs, "least", **options)
    values = (least - most) / 2
    value = (least.mean(1) - most.mean(1)) / 2
    return {"value": only(PreparedBatch.of(batch).usable, value), "curve": values}


def _always(change: Change) -> Callable[..., list[Change]]:
    return lambda shape, **_: [change]


@metric(
    name="average_drop:gradcam",
    variant_of="average_drop",
    higher_is_better=False,
    formula="max(0, p_c(x) − p_c(x'))",
    paper=_GRADCAM,
    asks=_always(Blended("none")),
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def average_drop_gradcam(batch: Batch, outputs: Outputs) -> Responses:
    """Lost probability itself, not its share: what that library calls the drop in confidence."""
    before, after = probabilities_of(batch, outputs, Blended("none"))
    return drop_responses(PreparedBatch.of(batch).usable, (before - after).clamp_min(0), before, after)


@metric(
    name="increase_in_confidence:gradcam",
    variant_of="increase_in_confidence",
    higher_is_better=True,
    paper=_GRADCAM,
    formula=INCREASE,
    asks=_always(Blended("none")),
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def increase_in_confidence_gradcam(batch: Batch, outputs: Outputs) -> Responses:
    """Whether the probability grows, with the map taken as it is."""
    before, after = probabilities_of(batch, outputs, Blended("none"))
    return drop_responses(PreparedBatch.of(batch).usable, (after > before).double(), before, after)
