"""Metrics of maps as plain tables and arrays: what scoring hands over to reporting."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

from uproar.expression import Call, parse
from uproar.metrics import metrics
from uproar.metrics.evaluation import RESAMPLED, Evaluation
from uproar.metrics.probe import fractions_of, has_curve
from uproar.results.answer import Answer, answer_of
from uproar.results.evaluator import EvaluatorBits, EvaluatorScores
from uproar.results.evidence import Control, Evidence, evaluator_evidence, metric_evidence
from uproar.results.html import block
from uproar.results.plots import plot_curves
from uproar.results.quality import NetworkQuality, Prediction
from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.comparisons import COLUMNS as PAIR_COLUMNS
from uproar.statistics.comparisons import compare
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import UNLIMITED, Interval, Measurements, half_width, nanmean
from uproar.types import Role
from uproar.wording import counted

COLUMNS = {
    "method": "whose maps",
    "role": "what the maps are: method, baseline (never looks at the network), random, or truth (told where to look)",
    "metric": "as asked for",
    "value": "mean over images, or the data set's own statistic",
    "low": "lower end of the 95 % interval: Student's t over images and replicates",
    "high": "upper end",
    "median": "the median over images and replicates",
    "n": "images",
    "nan": "images where the metric is not defined; they are left out",
    "higher_is_better": "the metric's direction",
    "ranked": "whether the metric is defined for enough images (`MOST_UNDEFINED`) to take part in rankings",
    "tied": "mean share of pixels whose value another pixel of the map has too",
    "note": "what to keep in mind",
}
"""The columns of `Scores.table`."""


MOST_UNDEFINED = 0.1
"""The share of images for which a metric may be undefined before a method is not ranked by it.

A method is then scored on other images than its rivals, and which images those are is the method's own doing: beyond a
tenth of them, that choice can be larger than any difference between methods.
"""


def is_ranked(n: int, undefined: int) -> bool:
    """Whether a metric that is undefined for some of `n` images still ranks a method.

    >>> is_ranked(500, 50), is_ranked(500, 51), is_ranked(3, 3)
    (True, False, False)
    """
    return undefined < n and undefined <= MOST_UNDEFINED * n


def why_unranked(n: int, undefined: int) -> str:
    """The note on a method that a metric does not rank; nothing where it does.

    >>> why_unranked(500, 51)
    'not ranked: undefined for 51 of 500 images'
    """
    return "" if is_ranked(n, undefined) else f"not ranked: undefined for {undefined} of {n} images"


def with_rank(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with `n`, `nan` and `note`, with `ranked` beside them and the reason in the note where that is False."""
    why = why_unranked(row["n"], row["nan"])
    note = "; ".join(text for text in (why, row["note"]) if text)
    return {**row, "ranked": not why, "note": note}


COMPARISON_COLUMNS = {"metric": "as asked for", **PAIR_COLUMNS}
"""The columns of `Scores.comparisons`. Where `uproar choose` planned several analyses, the column `analyses` says how
many, and `p_holm` is also multiplied by their number."""


@dataclass(frozen=True)
class Line:
    """A mean curve: its points, half the width of their 95 % intervals, and the images behind them."""

    mean: np.ndarray
    half: np.ndarray
    n: np.ndarray


@dataclass(frozen=True)
class Curves:
    """The mean curves of one metric over the fractions, by method."""

    fractions: np.ndarray
    lines: Mapping[str, Line]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The curves of single images, (n, points) by method, where they are kept."""


@dataclass(frozen=True)
class Scores:
    """Everything a report of scores needs."""

    table: pd.DataFrame
    """One row per method and metric; see COLUMNS."""
    per_image: pd.DataFrame
    """One row per method, metric and image: `image`, `value` (NaN where not defined)."""
    comparisons: pd.DataFrame
    """One row per metric and pair of methods; see COMPARISON_COLUMNS."""
    curves: Mapping[str, Curves] = field(default_factory=dict)
    """By metric, where it has curves."""
    traces: Mapping[str, Curves] = field(default_factory=dict)
    """By metric, where a statistic of the data set is a curve: over levels, not fractions."""
    forwards: int = 0
    """Images shown to the model, clean ones included."""
    images: np.ndarray | None = None
    """The images, (n, c, h, w) in [0, 1], or the first of them."""
    maps: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Maps by method for those images."""
    titles: tuple[str, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    """What the network says of those images."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    replicates: int = 1
    """How many networks the numbers are means of."""
    quality: NetworkQuality | None = None
    """How often the network is right on the images; None where nobody asked it."""
    costs: pd.DataFrame = field(default_factory=lambda: pd.DataFrame())
    """One row per method that was explained here: estimator, passes, milliseconds_per_image."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that were asked for and could not be scored, with the reason."""
    evaluations: Mapping[str, EvaluatorBits] = field(default_factory=dict)
    """By target (label or answer): what evaluators say, where there were training images for them."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """By method, where it looks at layers of the network: their names."""

    @functools.cached_property
    def roles(self) -> Mapping[str, Role]:
        """What each method of the table is."""
        return dict(zip(self.table["method"].map(str), self.table["role"], strict=True))

    @functools.cached_property
    def evaluators(self) -> Mapping[str, EvaluatorScores]:
        """What the evaluators say, by target."""
        return {target: EvaluatorScores(bits, target=target) for target, bits in self.evaluations.items()}

    @functools.cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """What every evaluator and metric says of the methods."""
        return (*evaluator_evidence(self.evaluators), *metric_evidence(self))

    @functools.cached_property
    def negative_controls(self) -> Mapping[str, Control]:
        """By metric, where random maps were scored: whether it finds any method better than these."""
        known = self.roles.get(BASELINE) == "random"  # somebody's own maps may have that name
        return {one.name: one.control for one in metric_evidence(self) if known and BASELINE in one.values}

    @property
    def never_ranked(self) -> Mapping[str, str]:
        """Methods that no metric ranks, with what the first of them says."""
        groups = self.table.groupby("method", sort=False)
        return {str(name): str(rows["note"].iloc[0]) for name, rows in groups if not rows["ranked"].any()}

    @functools.cached_property
    def answer(self) -> Answer:
        """Which method to use, as far as the metrics can tell."""
        left_out = {**self.never_ranked, **self.left_out}
        return answer_of(self.evidence, self.quality, (self,), self.costs, left_out)

    def plot_curves(self, metric: str, axes: Any = None) -> Any:
        """The mean curves of a metric on axes of Matplotlib, with the baselines behind them."""
        curves, call = self.curves[metric], parse(metric)
        means = {name: line.mean for name, line in curves.lines.items()}
        halves = {name: line.half for name, line in curves.lines.items()}
        baselines = [name for name, role in self.roles.items() if role != "method"]
        x = metrics[call.name].facts["axis"].x
        return plot_curves(curves.fractions, means, halves, baselines, x, call.name, axes)

    def __repr__(self) -> str:
        methods, metrics = self.table["method"].nunique(), self.table["metric"].nunique()
        return f"<Scores of {counted(methods, 'method')} by {counted(metrics, 'metric')}: {self.answer.sentence}>"

    def _repr_html_(self) -> str:
        ends = zip(self.table["value"], self.table["low"], self.table["high"], strict=True)
        shown = [f"{v:.3g}" if low != low else f"{v:.3g} [{low:.3g}, {high:.3g}]" for v, low, high in ends]
        wide = self.table.assign(shown=shown).pivot(index="method", columns="metric", values="shown").reset_index()
        quality = [] if self.quality is None else [self.quality.sentence]
        columns = ["method", *dict.fromkeys(self.table["metric"])]
        return block([self.answer.sentence], wide[columns], [*quality, *self.notices])


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
            str(used[0].facts.get("output", "softmax")),
            _line(used) if has_curve(call) and all("curve" in one.arrays for one in used) else None,
            _trace(call, traced) if traced and metrics[call.name].facts["trace"] is not None else None,
        )

    def row(self, method: str) -> dict[str, Any]:
        """Its row of `Scores.table`."""
        interval, values = within_range(self.call, self.measurements, self.kind), self.measurements.by_image
        known = values[np.isfinite(values)]
        return with_rank(
            {
                "method": method,
                "metric": str(self.call),
                "value": self.value,
                "low": interval.low,
                "high": interval.high,
                "median": float(np.median(known)) if len(known) else math.nan,
                "n": self.images,
                "nan": self.undefined,
                "tied": self.tied,
                "note": self.note,
                "higher_is_better": bool(metrics[self.call.name].facts["higher_is_better"]),
            }
        )


def replicate_interval(call: Call, evaluation: Evaluation) -> Interval:
    """The interval of a metric in one replicate: over images alone."""
    return within_range(call, _measurements(call, [evaluation]), str(evaluation.facts.get("output", "softmax")))


def within_range(call: Call, measurements: Measurements, kind: str) -> Interval:
    """The interval inside the metric's range, which holds for probabilities, not for values of a regression."""
    facts = metrics[call.name].facts
    return measurements.interval(limits=UNLIMITED if kind == "regression" else (facts["low"], facts["high"]))


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
        unranked = {method: why_unranked(one.images, one.undefined) for method, one in methods.items()}
        baselines = [method for method in methods if roles.get(method) in ("baseline", "random")]
        measured = {method: one.measurements for method, one in methods.items()}
        higher_is_better = bool(metrics[call.name].facts["higher_is_better"])
        pairs.append(compare(measured, baselines, higher_is_better, unranked).assign(metric=str(call)))
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
