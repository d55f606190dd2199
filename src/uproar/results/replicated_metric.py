"""Tables of metrics: one row per method, every pair compared, mean curves; over images, and replicates where there are
several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.evaluation import RESAMPLED, Evaluation
from uproar.metrics.probe import fractions_of, has_curve
from uproar.results.scores import COLUMNS, COMPARISON_COLUMNS, Curves, Line, Scores, why_unranked, with_rank
from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.comparisons import compare
from uproar.statistics.intervals import UNLIMITED, Interval, Limits, Measurements, half_width, nanmean
from uproar.types import Role

TRACED = 40
"""Resamples of the images for the interval of a curve that is a statistic of the data set."""


@dataclass(frozen=True)
class ReplicatedMetric:
    """One metric of one method over all replicates: what its row, its comparisons and its curves are made of."""

    call: Call
    value: float
    measurements: Measurements
    """What its interval and its comparisons are computed from; rows of NaN for replicates without it."""
    images: int
    undefined: int
    """The largest number of any replicate."""
    tied: float
    note: str
    kind: str = "softmax"
    """What the model's outputs are."""
    line: Line | None = None
    """Its mean curve."""
    trace: Line | None = None
    """A statistic of the data set at all its levels."""

    @classmethod
    def of(
        cls, call: Call, evaluations: Sequence[Evaluation | None], traced: Sequence[Sequence[Evaluation]] = ()
    ) -> ReplicatedMetric:
        """From its replicates; None stands for one that does not have it.

        `traced` asks for the trace too; it has what each replicate is the mean of.
        """
        made = [one for one in evaluations if one is not None]
        used = [one for one in made if math.isfinite(one.value)] or made
        return cls(
            call,
            float(np.mean([one.value for one in used])),
            _measurements(call, evaluations),
            int(used[0].facts["n"]),
            int(max(one.facts["nan"] for one in made)),
            float(np.mean([one.facts["tied"] for one in used])),
            str(used[0].facts["note"]),
            _kind(used[0]),
            _line(used) if has_curve(call) and all("curve" in one.arrays for one in used) else None,
            _trace(call, traced) if traced and metrics[call.name].facts["trace"] is not None else None,
        )

    @property
    def interval(self) -> Interval:
        """Its interval inside the metric's range."""
        return _within_range(self.call, self.measurements, self.kind)

    @property
    def higher_is_better(self) -> bool:
        """The metric's direction."""
        return bool(metrics[self.call.name].facts["higher_is_better"])

    def row(self, method: str) -> dict[str, Any]:
        """Its row of `Scores.table`."""
        interval = self.interval
        return with_rank(
            {
                "method": method,
                "metric": str(self.call),
                "value": self.value,
                "low": interval.low,
                "high": interval.high,
                "median": _median(self.measurements.by_image),
                "n": self.images,
                "nan": self.undefined,
                "tied": self.tied,
                "note": self.note,
                "higher_is_better": self.higher_is_better,
            }
        )


def replicate_interval(call: Call, evaluation: Evaluation) -> Interval:
    """The interval of a metric in one replicate: over images alone."""
    return _within_range(call, _measurements(call, [evaluation]), _kind(evaluation))


def _kind(evaluation: Evaluation) -> str:
    return str(evaluation.facts.get("output", "softmax"))


def _within_range(call: Call, measurements: Measurements, kind: str) -> Interval:
    """The interval inside the metric's range."""
    return measurements.interval(limits=_range(call, kind))


def _range(call: Call, kind: str) -> Limits:
    """The metric's range, which holds for probabilities, not for values of a regression."""
    facts = metrics[call.name].facts
    return UNLIMITED if kind == "regression" else (facts["low"], facts["high"])


def scores_of(
    metrics_of_methods: Iterable[tuple[Call, Mapping[str, ReplicatedMetric]]],
    shape: Sequence[int],
    roles: Mapping[str, Role],
) -> Scores | None:
    """The scores of all methods, metric after metric; None without any. `shape` is that of an image, (c, h, w).

    What `roles` does not name is a method.
    """
    rows, pairs, curves, traces = [], [], {}, {}
    for call, methods in metrics_of_methods:
        if not methods:
            continue
        rows += [{"role": roles.get(method, "method"), **one.row(method)} for method, one in methods.items()]
        pairs.append(_compared(call, methods, roles))
        lines = {method: one.line for method, one in methods.items() if one.line is not None}
        if lines:
            curves[str(call)] = Curves(np.asarray(fractions_of(call, tuple(shape))), lines)
        traced = {method: one.trace for method, one in methods.items() if one.trace is not None}
        if traced:
            traces[str(call)] = Curves(np.asarray(metrics[call.name].facts["trace"].levels), traced)
    if not rows:
        return None
    return Scores(
        pd.DataFrame(rows)[list(COLUMNS)],
        pd.DataFrame(columns=["method", "metric", "image", "value"]),
        pd.concat(pairs, ignore_index=True)[list(COMPARISON_COLUMNS)],
        curves,
        traces,
    )


def _compared(call: Call, methods: Mapping[str, ReplicatedMetric], roles: Mapping[str, Role]) -> pd.DataFrame:
    """Every method against every baseline and every two methods under one metric, the better one first."""
    unranked = {method: why_unranked(one.images, one.undefined) for method, one in methods.items()}
    first, measurements = next(iter(methods.values())), {method: one.measurements for method, one in methods.items()}
    baselines = [method for method in methods if roles.get(method) in ("baseline", "random")]
    frame = compare(measurements, baselines, first.higher_is_better, unranked)
    frame.insert(0, "metric", str(call))
    return frame


def _measurements(call: Call, evaluations: Sequence[Evaluation | None]) -> Measurements:
    def stacked(name: str) -> np.ndarray:
        arrays = [np.asarray(math.nan) if one is None else one.arrays[name].astype(float) for one in evaluations]
        size = max(array.size for array in arrays)
        return np.stack([np.broadcast_to(array, (size,)) for array in arrays])

    if metrics[call.name].facts["statistic"] is None:
        return Measurements(stacked("value"))
    numbers = np.array([math.nan if one is None else one.value for one in evaluations])
    return Measurements(stacked("value"), numbers, stacked(RESAMPLED))


def _line(evaluations: Sequence[Evaluation]) -> Line:
    """The mean curve over replicates and images, with the half width of its interval at every point."""
    shape = evaluations[0].arrays["curve"].shape
    total, there, means = np.zeros(shape), np.zeros(shape, int), []
    for one in evaluations:
        curve = one.arrays["curve"].astype(float)
        finite = np.isfinite(curve)
        total += np.where(finite, curve, 0.0)
        there += finite
        means.append(nanmean(curve))
    with np.errstate(invalid="ignore", divide="ignore"):
        by_image = np.asarray(total / there)
        n, mean = np.isfinite(by_image).sum(0), nanmean(by_image)
        variance = np.where(np.isfinite(by_image), (by_image - mean) ** 2, 0.0).sum(0) / (n - 1)
        half = half_width(np.stack(means), np.where(n > 1, variance / n, np.nan), n)
    return Line(mean, half, n)


def _trace(call: Call, replicates: Sequence[Sequence[Evaluation]]) -> Line:
    """A statistic of the data set at all its levels, mean over replicates; images are resampled for its interval."""
    traced = [[_traced(call, one) for one in group] for group in replicates]
    means = np.stack([np.mean([own for own, _ in group], axis=0) for group in traced])
    drawn = np.mean([np.mean([again for _, again in group], axis=0) for group in traced], axis=0)
    whole = np.where(np.isfinite(drawn).all(0), drawn, np.nan)  # undefined for some resample: no interval
    n = len(replicates[0][0].responses["value"])
    return Line(means.mean(0), half_width(means, whole.var(0, ddof=1), n), np.full(means.shape[1], n))


def _traced(call: Call, evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """A statistic of the data set at all its levels, (levels,), and that of resamples of the images."""
    entry = metrics[call.name]
    trace, options = entry.facts["trace"], entry.bind(**dict(call.options))
    responses = evaluation.responses
    again = [
        trace.of({k: v[r] for k, v in responses.items()}, trace.levels, **options)
        for r in resampled_images(len(responses["value"]), TRACED, name="trace")
    ]
    return trace.of(responses, trace.levels, **options).numpy(), torch.stack(again).double().numpy()


def _median(values: np.ndarray) -> float:
    """The median of the values that are defined; NaN where none is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
