"""As in the code released with ROAD (Rong, Leemann et al. 2022).

One field of noise on all maps, `int(p·h·w)` pixels, the mean over p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from uproar.metrics.axis import of_pixels
from uproar.metrics.changes import Side, removed
from uproar.metrics.insertion_deletion import Points, flat
from uproar.metrics.prepared_batch import Jittered, PreparedBatch
from uproar.metrics.probabilities import curve_of, only
from uproar.metrics.registry import Batch, Outputs, Responses, metric
from uproar.metrics.road import CHANCE, LERF_BIAS, MORF_BIAS, PAPER, ROAD, By, Fractions, axis
from uproar.registry import options_of
from uproar.types import WITH_PROBABILITIES


def _points(side: Side) -> Callable[..., Points]:
    """`int(p · h · w)` pixels are taken away, or, from the other side, left."""

    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, jitter: float, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [int(features * p) for p in axis(shape, fractions=fractions)]
        gone = counts if side == "most" else [features - k for k in counts]
        return [(removed(side, k, features, fill, 0, Jittered(jitter)),) for k in gone]

    return points


_MOST, _LEAST = _points("most"), _points("least")


def _mean_over_fractions(batch: Batch, outputs: Outputs, points: Points, by: By) -> Responses:
    """The curve over the points and its plain mean, where the released code has no area."""
    values = curve_of(batch, outputs, points, by)
    return {"value": only(PreparedBatch.of(batch).usable, values.mean(1)), "curve": values}


_FACTS: dict[str, Any] = {"low": 0, "high": 1, "chance": CHANCE, "paper": f"{ROAD}, released code"}
_JITTER = "noise added to the map reorders real differences below 1e-4 of its range"


@metric(
    true_to="model",
    name="road:leemann",
    variant_of="road",
    higher_is_better=False,
    biases=f"{MORF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with int(p·h·w) most important pixels removed",
    asks=flat(_MOST),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(axis, "removed"),
    **_FACTS,
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
    points = _MOST(batch.x.shape[1:], fractions=fractions, fill=fill, jitter=jitter)
    return _mean_over_fractions(batch, outputs, points, by)


@metric(
    true_to="model",
    name="road_lerf:leemann",
    variant_of="road_lerf",
    higher_is_better=True,
    biases=f"{LERF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with all but the int(p·h·w) most important pixels removed",
    asks=flat(_LEAST),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(axis, "kept", of_shown=True),
    **_FACTS,
)
@options_of(road_leemann)
def road_lerf_leemann(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """ROAD's other order as in its released code, where a fraction is the share of pixels that is *kept*."""
    return _mean_over_fractions(batch, outputs, _LEAST(batch.x.shape[1:], **options), options["by"])
