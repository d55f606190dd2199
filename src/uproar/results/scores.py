"""Metrics of maps without retraining, as plain tables and arrays: what scoring hands over to reporting."""

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
from uproar.metrics.evaluation import RESAMPLED, Evaluation, average_evaluations
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


def metric_labels(names: Iterable[str]) -> dict[str, str]:
    """By metric: its name, with those options that distinguish it where two have the same name.

    >>> list(metric_labels(["road(by=probability)", "deletion(steps=8)", "deletion(steps=9)"]).values())
    ['road', 'deletion(steps=8)', 'deletion(steps=9)']
    """
    calls = {str(name): parse(str(name)) for name in names}
    labels = {}
    for name, call in calls.items():
        others = [other for other in calls.values() if other.name == call.name and other != call]
        differing = [pair for pair in call.options if any(pair not in other.options for other in others)]
        labels[name] = str(Call(call.name, (), tuple(differing)))
    return labels


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
        return {
            evidence.name: evidence.control
            for evidence in metric_evidence(self)
            if known and BASELINE in evidence.values
        }

    @property
    def never_ranked(self) -> Mapping[str, str]:
        """Methods that no metric ranks, with what the first of them says."""
        groups = self.table.groupby("method", sort=False)
        return {str(name): str(rows["note"].iloc[0]) for name, rows in groups if not rows["ranked"].any()}

    @functools.cached_property
    def answer(self) -> Answer:
        """Which method to use, as far as the metrics can tell."""
        left_out = {**self.never_ranked, **self.left_out}
        return answer_of(self.evidence, (self,), self.costs, left_out)

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

Replicates = Sequence[Sequence[Evaluation]]
"""What one metric says of one method, by replicate: of its maps, or of each of several random rankings; empty where it
is not there."""


def combined_scores(
    evaluations: Mapping[Call, Mapping[str, Replicates]],
    shape: Sequence[int],
    roles: Mapping[str, Role],
    traced: bool = False,
) -> Scores | None:
    """The scores of all methods, metric after metric; None without any. `shape` is that of an image, (c, h, w).

    What `roles` does not name is a method. `traced` asks for statistics of the data set at all their levels, too.
    """
    rows, pairs, curves, traces = [], [], dict[str, Curves](), dict[str, Curves]()
    for call, methods in evaluations.items():
        if not methods:
            continue
        facts, metric = metrics[call.name].facts, str(call)
        measured: dict[str, Measurements] = {}
        unranked, lines, levels = dict[str, str](), dict[str, Line](), dict[str, Line]()
        for method, groups in methods.items():
            means = [average_evaluations(group) for group in groups]
            present = [evaluation for evaluation in means if evaluation is not None]
            used = [evaluation for evaluation in present if math.isfinite(evaluation.value)] or present
            measured[method] = measurements_of(call, means)
            row = _row(call, used, measured[method], max(evaluation.facts["nan"] for evaluation in present))
            unranked[method] = why_unranked(row["n"], row["nan"])
            rows.append({"method": method, "role": roles.get(method, "method"), **row})
            if has_curve(call) and all("curve" in evaluation.arrays for evaluation in used):
                lines[method] = _line(used)
            if traced and facts["trace"] is not None:
                defined = (evaluation is not None and math.isfinite(evaluation.value) for evaluation in means)
                levels[method] = _trace(call, [group for group, known in zip(groups, defined, strict=True) if known])
        baselines = [method for method in methods if roles.get(method) in ("baseline", "random")]
        table = compare(measured, baselines, bool(facts["higher_is_better"]), unranked)
        pairs.append(table.assign(metric=metric))
        if lines:
            curves[metric] = Curves(np.asarray(fractions_of(call, tuple(shape))), lines)
        if levels:
            traces[metric] = Curves(np.asarray(facts["trace"].levels), levels)
    if not rows:
        return None
    comparisons = pd.concat(pairs, ignore_index=True)[list(COMPARISON_COLUMNS)]
    per_image = pd.DataFrame(columns=["method", "metric", "image", "value"])
    return Scores(pd.DataFrame(rows)[list(COLUMNS)], per_image, comparisons, curves, traces)


def _row(call: Call, evaluations: Sequence[Evaluation], measurements: Measurements, undefined: int) -> dict[str, Any]:
    """One row of `Scores.table`, from the replicates in which the metric is defined."""
    facts, values = evaluations[0].facts, measurements.by_image
    interval, known = within_range(call, measurements, facts), values[np.isfinite(values)]
    return with_rank(
        {
            "metric": str(call),
            "value": float(np.mean([evaluation.value for evaluation in evaluations])),
            "low": interval.low,
            "high": interval.high,
            "median": float(np.median(known)) if len(known) else math.nan,
            "n": int(facts["n"]),
            "nan": int(undefined),
            "tied": float(np.mean([evaluation.facts["tied"] for evaluation in evaluations])),
            "note": str(facts["note"]),
            "higher_is_better": bool(metrics[call.name].facts["higher_is_better"]),
        }
    )


def replicate_interval(call: Call, evaluation: Evaluation) -> Interval:
    """The interval of a metric in one replicate: over images alone."""
    return within_range(call, measurements_of(call, [evaluation]), evaluation.facts)


def within_range(call: Call, measurements: Measurements, about: Mapping[str, Any]) -> Interval:
    """The interval inside the metric's range, which holds for probabilities, not for values of a regression."""
    facts, bounded = metrics[call.name].facts, about.get("output") != "regression"
    return measurements.interval((facts["low"], facts["high"]) if bounded else UNLIMITED)


def measurements_of(call: Call, evaluations: Sequence[Evaluation | None]) -> Measurements:
    """What intervals and comparisons of a metric are computed from; rows of NaN for replicates without it."""

    def stacked(name: str) -> np.ndarray:
        arrays = [
            np.asarray(math.nan) if evaluation is None else evaluation.arrays[name].astype(float)
            for evaluation in evaluations
        ]
        size = max(array.size for array in arrays)
        return np.stack([np.broadcast_to(array, (size,)) for array in arrays])

    if metrics[call.name].facts["statistic"] is None:
        return Measurements(stacked("value"))
    numbers = np.array([math.nan if each is None else each.value for each in evaluations])
    return Measurements(stacked("value"), numbers, stacked(RESAMPLED))


def _line(evaluations: Sequence[Evaluation]) -> Line:
    """The mean curve over replicates and images, with the half width of its interval at every point."""
    shape = evaluations[0].arrays["curve"].shape
    total, counts, means = np.zeros(shape), np.zeros(shape, int), []
    for evaluation in evaluations:
        curve = evaluation.arrays["curve"].astype(float)
        finite = np.isfinite(curve)
        total += np.where(finite, curve, 0.0)
        counts += finite
        means.append(nanmean(curve))
    with np.errstate(invalid="ignore", divide="ignore"):
        by_image = np.asarray(total / counts)
        n, mean = np.isfinite(by_image).sum(0), nanmean(by_image)
        variance = np.where(np.isfinite(by_image), (by_image - mean) ** 2, 0.0).sum(0) / (n - 1)
        half = half_width(np.stack(means), np.where(n > 1, variance / n, np.nan), n)
    return Line(mean, half, n)


def _trace(call: Call, replicates: Replicates) -> Line:
    """A statistic of the data set at all its levels, mean over replicates; images are resampled for its interval."""
    traced = [[_traced(call, evaluation) for evaluation in group] for group in replicates]
    means = np.stack([np.mean([statistic for statistic, _ in group], axis=0) for group in traced])
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
