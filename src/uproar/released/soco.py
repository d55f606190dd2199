"""As in the code released with soundness and completeness (Li et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from uproar.metrics.insertion_deletion import Points, flat, nested
from uproar.metrics.prepared_batch import PreparedBatch
from uproar.metrics.probabilities import By, only
from uproar.metrics.registry import Batch, Outputs, Responses, metric
from uproar.metrics.soundness import (
    COMPLETE_BIAS,
    LI,
    LOST_AXIS,
    SOUND_BIAS,
    TENTHS,
    Level,
    Ratios,
    Rule,
    above_threshold,
    accuracy_lost,
    at_levels,
    sound_axis,
    sound_curve,
    sound_responses,
)
from uproar.types import WITH_PROBABILITIES

RATIOS = tuple(i / 100 for i in range(98, 2, -1))
"""Shares of hidden pixels in the released code: 0.98, 0.97, …, 0.03."""


def _points(shape: Sequence[int], *, fill: str, **_: Any) -> Points:
    return nested(shape, "least", [int(shape[1] * shape[2] * r) for r in RATIOS], fill, None)


def _rule(epsilon: float, gate: float) -> Rule:
    return Rule(epsilon, closed=True, gate=gate, lag=True, small=1e-6)


def _of_data_set(
    responses: Mapping[str, Tensor], *, level: Level, epsilon: float, gate: float, by: By, **_: Any
) -> float:
    return float(at_levels(*curve(responses, epsilon=epsilon, gate=gate, by=by), level))


def curve(
    responses: Mapping[str, Tensor], *, epsilon: float = 0.01, gate: float = 0.04, by: By = "accuracy", **_: Any
) -> tuple[Tensor, Tensor]:
    """Accuracy (or mean score) and soundness at the 96 steps of the released code."""
    return sound_curve(responses, by, _rule(epsilon, gate))


@metric(
    true_to="model",
    name="soundness:soco",
    variant_of="soundness",
    uses="values",
    higher_is_better=True,
    low=0,
    high=1,
    chance="that of a random map",
    biases=f"{SOUND_BIAS}; a step's own attribution is judged one step late",
    statistic=_of_data_set,
    paper=f"{LI}, released code",
    asks=flat(_points),
    kinds=WITH_PROBABILITIES,
    axis=sound_axis(lambda shape, **_: RATIOS),
    formula="as soundness, in 96 steps, false attribution counted one step late, gains of at most ε false "
    "once the accuracy is above the gate",
)
def soundness_soco(
    batch: Batch,
    outputs: Outputs,
    *,
    level: Level = 0.5,
    epsilon: float = 0.01,
    gate: float = 0.04,
    fill: str = "linear",
    by: By = "accuracy",
) -> Responses:
    """Soundness as in its released code, where `by="logit"` is called PredScore; maps of zeros count as unsound."""
    shape = tuple(batch.x.shape[1:])
    features = shape[1] * shape[2]
    kept = [features - int(features * r) for r in RATIOS]
    points, rule = _points(shape, fill=fill), _rule(epsilon, gate)
    usable = PreparedBatch.of(batch).usable
    return sound_responses(batch, outputs, points, kept, by, rule, level, usable)


@metric(
    true_to="model",
    name="completeness:soco",
    variant_of="completeness",
    uses="values",
    higher_is_better=True,
    low=-1,
    high=1,
    chance="that of a random map",
    biases=f"{COMPLETE_BIAS}; a map of zeros removes nothing and scores 0",
    asks=above_threshold,
    kinds=WITH_PROBABILITIES,
    axis=LOST_AXIS,
    paper=f"{LI}, released code",
    formula="as completeness, maps of zeros included",
)
def completeness_soco(batch: Batch, outputs: Outputs, *, ratios: Ratios = TENTHS, fill: str = "linear") -> Responses:
    """Completeness as in its released code: maps without values count, and remove nothing."""
    values = accuracy_lost(batch, outputs, ratios, fill, "accuracy")
    return {"value": only(PreparedBatch.of(batch).usable, values.mean(1)), "curve": values}
