"""The results of one task and model as claims read them: every number is a `Measure` with its interval."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from uproar.errors import NotApplicable
from uproar.expression import Call, parse
from uproar.metrics.registry import family_of, metrics, read_metric
from uproar.metrics.retraining import RETRAININGS
from uproar.results.claim_outcome import Measure, Missing, Range
from uproar.results.finding import Finding
from uproar.statistics.comparisons import areas_of, paired_difference
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, Measurements, Numbers, mean_interval

if TYPE_CHECKING:
    from uproar.results.study import Results

At = float | tuple[float, ...] | None
"""One fraction, some, or all that the study has."""


@functools.lru_cache(maxsize=512)
def without_options(name: str) -> str:
    """An estimator's name without options.

    >>> without_options("gaussian(sg_sq(ig(steps=50), samples=20), sigma=2.0)")
    'gaussian(sg_sq(ig))'
    """

    def stripped(call: Call) -> Call:
        return Call(call.name, tuple(stripped(arg) for arg in call.args), ())

    return str(stripped(parse(name)))


@functools.lru_cache(maxsize=256)
def options_of(metric: str) -> tuple[str, dict[str, Any]]:
    """The metric that it is or is a variant of, and all its options."""
    call = read_metric(metric)
    entry = metrics[call.name]
    return family_of(call.name), entry.bind(**dict(call.options))


@functools.lru_cache(maxsize=256)
def read_higher(metric: str) -> bool:
    """Whether higher values of a metric are better."""
    return bool(metrics[read_metric(metric).name].facts["higher_is_better"])


class ClaimEvidence:
    """One task and model of a study's results.

    Estimators and metrics are named by what they are, e.g. `sg_sq(ig)`; a study may give them other options.
    """

    def __init__(self, results: Results, task: str, model: str) -> None:
        self.view = results.view(task, model)
        self.results, self.task, self.model = results, task, model
        self._names: dict[str | None, dict[str, str]] = {}
        self._rows: dict[tuple[str, At], tuple[dict[str, np.ndarray], list[float]]] = {}

    # what there is

    @property
    def chance(self) -> float:
        """The accuracy of guessing."""
        if self.view.chance is None:
            raise NotApplicable("the number of classes is not known")
        return self.view.chance

    def finding(self, audit: str) -> Finding:
        """The finding of an audit of the study."""
        for finding in self.view.findings:
            if parse(finding.audit).name == audit:
                if finding.state == "skipped":
                    raise NotApplicable(f"the audit {audit} was not answered: {finding.reason}")
                return finding
        raise NotApplicable(f"the study does not ask the audit {audit!r}")

    # names

    def estimator(self, wanted: str, metric: str | None = None) -> str:
        """The study's name of an estimator, whatever its options, or of the first of `a|b` that it has.

        `metric` is the retraining metric under which it must have cells.
        """
        if metric not in self._names:
            done = self.view.done
            some = done if metric is None else done[done["metric"] == metric]
            names = [*some["estimator"].unique(), *([] if metric else self._scored)]
            self._names[metric] = {without_options(str(name)): str(name) for name in reversed(names)}
        for choice in wanted.split("|"):
            if choice in self._names[metric]:
                return self._names[metric][choice]
        where = "" if metric is None else f" under {metric}"
        raise NotApplicable(f"the study has no {wanted.replace('|', ' or ')}{where}")

    def available(self, wanted: Iterable[str], metric: str | None = None) -> list[str]:
        """Those of some estimators that the study has, by what they are."""
        names = []
        for name in wanted:
            with contextlib.suppress(NotApplicable):
                self.estimator(name, metric)
                names.append(name)
        return names

    def absent(self, wanted: Iterable[str], metric: str | None = None) -> list[Missing]:
        """Those of some estimators that the study has not, as parts of a claim that cannot be tested."""
        available = set(self.available(wanted := tuple(wanted), metric))
        where = "" if metric is None else f" under {metric}"
        return [
            Missing(f"the study has no {name.replace('|', ' or ')}{where}") for name in wanted if name not in available
        ]

    @functools.cached_property
    def _scored(self) -> list[str]:
        return [str(name) for name in self.view.image_scores["estimator"].unique()]

    def metric(self, wanted: str, **options: Any) -> str:
        """The study's name of a metric, or of a variant of it (`insertion:coherency`), that has these options.

        A variant of an option counts, too: `uniform:normalised` is a fill `uniform`.
        """
        for name in map(str, self.view.scores["metric"].unique()):
            base, has = options_of(name)
            if base == wanted and all(
                k in has and v in (has[k], str(has[k]).partition(":")[0]) for k, v in options.items()
            ):
                return name
        also = f" with {', '.join(f'{k}={v}' for k, v in options.items())}" if options else ""
        raise NotApplicable(f"the study has no metric {wanted}{also}")

    # retraining: intervals over replicates

    def area(
        self, metric: str, estimator: str, over: str = BASELINE, *, at: At = None, **claimed: Unpack[Range]
    ) -> Measure:
        """The advantage of one estimator over another under a metric, the mean height between their curves.

        Over the whole curve it is the number of the study's verdicts and comparisons; `at` takes one or some fractions
        instead. A study that was analysed until it was decided leaves a claim the
        share of the error that one of its analyses has.
        """
        a, b = self.estimator(estimator, metric), self.estimator(over, metric)
        rows, fractions = self._areas(metric, at)
        if a not in rows or b not in rows or not (difference := paired_difference(rows[a], rows[b])).n:
            raise NotApplicable(f"{a} shares no finished curve with {b} under {metric}")
        if not RETRAININGS[metric].higher_is_better:
            difference = -difference
        what = f"{metric}, {_where(fractions)}: {a} against {b}, accuracy"
        return replace(measured(what, difference, "replicates", claimed), alpha=self.results.comparison_alpha)

    def _areas(self, metric: str, at: At) -> tuple[dict[str, np.ndarray], list[float]]:
        """Areas over replicates by estimator, and the fractions they are over; several claims ask for the same."""
        key = (metric, at)
        if key not in self._rows:
            curves = self.view.curves(metric)
            if at is not None:
                wanted = np.atleast_1d(np.array(at, dtype=float))
                near = np.isclose(curves["fraction"].to_numpy(float)[:, None], wanted, atol=1e-9)
                if lacking := [f"{t:g}" for t, known in zip(wanted, near.any(0), strict=True) if not known]:
                    raise NotApplicable(f"the study has no finished cells of {metric} at {', '.join(lacking)}")
                curves = curves[near.any(1)]
            if curves.empty:
                raise NotApplicable(f"the study has no finished cells of {metric}")
            areas, fractions = areas_of(curves)
            self._rows[key] = {str(name): row.to_numpy(dtype=float) for name, row in areas.iterrows()}, fractions
        return self._rows[key]

    def accuracy(self, metric: str, estimator: str) -> pd.DataFrame:
        """Accuracy by replicate (rows) and fraction (columns), whole columns only."""
        return self.view.accuracy(metric, self.estimator(estimator, metric))

    def at(self, metric: str, estimator: str, fraction: float) -> pd.Series:
        """Accuracy by replicate at one fraction."""
        table = self.accuracy(metric, estimator)
        near = [t for t in table.columns if abs(t - fraction) < 1e-9]
        if not near:
            raise NotApplicable(f"the study has no {metric} of {self.estimator(estimator, metric)} at {fraction:g}")
        return table[near[0]]

    def over_replicates(self, what: str, values: pd.Series, **claimed: Unpack[Range]) -> Measure:
        """The mean of one number per replicate."""
        measure = measured(what, mean_interval(values.to_numpy(dtype=float)), "replicates", claimed)
        return replace(measure, alpha=self.results.comparison_alpha)

    # metrics: intervals over images, and over replicates where there are several

    def gap(self, metric: str, estimator: str, other: str, **claimed: Unpack[Range]) -> Measure:
        """How much better one estimator is than another by a metric of the study; positive is better."""
        a, b = self.estimator(estimator), self.estimator(other)
        if row := self._compared.get((metric, frozenset((a, b)))):
            ends = {name: row[name] for name in ("low", "high", "n", "replicates", "df")}
            difference = Interval(row["difference"], **ends)
            forwards = (row["better"] == a) == read_higher(metric)
            what = f"{metric}: {a} against {b}"
            return measured(what, difference if forwards else -difference, "images", claimed)
        raise NotApplicable(f"{metric} has no value of {a} or of {b} that could be compared")

    @functools.cached_property
    def _compared(self) -> dict[tuple[str, frozenset[str]], dict[str, Any]]:
        """The comparisons of two estimators, by metric and pair."""
        scores = self.view.metric_scores
        table = None if scores is None else scores.comparisons
        rows = [] if table is None else table.to_dict("records")
        return {(row["metric"], frozenset((row["better"], row["worse"]))): row for row in reversed(rows)}

    def per_image(self, metric: str, estimator: str) -> pd.Series:
        """A metric's values by image, mean over replicates, oriented so that higher is better."""
        return self.per_replicate(metric, estimator).mean()

    def per_replicate(self, metric: str, estimator: str) -> pd.DataFrame:
        """A metric's values, replicates × images, oriented so that higher is better."""
        values = {
            seed: v for (m, e, seed), v in self.view.values_per_replicate.items() if (m, e) == (metric, estimator)
        }
        return (1 if read_higher(metric) else -1) * pd.DataFrame(values, dtype=float).T

    def scored_by(self, *metrics_: str) -> list[str]:
        """The estimators beside random that have values of all these metrics."""
        known = {(metric, name) for metric, name, _ in self.view.values_per_replicate}
        return [n for n in self._scored if n != BASELINE and all((metric, n) in known for metric in metrics_)]

    def pairs(self, metric: str, other: str, names: Sequence[str]) -> Numbers:
        """Both metrics of all images, higher is better, (replicates, estimators, images, 2), NaN where undefined."""
        images = pd.Index(self.view.image_scores["image"].unique())
        if len(images) < 10 or not names:
            raise NotApplicable(f"fewer than 10 images have both {metric} and {other}")
        values = self.view.values_per_replicate
        nothing = pd.Series(dtype=float)

        def oriented(name: str, wanted: str, seed: int) -> Numbers:
            column = values.get((wanted, name, seed), nothing).reindex(images).to_numpy(float)
            return np.asarray(column if read_higher(wanted) else -column)

        replicates = [
            [np.stack([oriented(name, wanted, seed) for wanted in (metric, other)], 1) for name in names]
            for seed in sorted({seed for _, _, seed in values})
        ]
        whole = [values for values in replicates if np.isfinite(values).all(-1).any()]
        if not whole:
            raise NotApplicable(f"no replicate has both {metric} and {other} yet")
        return np.array(whole)

    def over_images(self, what: str, values: pd.DataFrame, **claimed: Unpack[Range]) -> Measure:
        """The mean of one number per replicate (rows) and image (columns)."""
        return measured(what, Measurements(values.to_numpy(dtype=float)).interval(), "images", claimed)

    # audits

    def row(self, audit: str, table: str, **where: Any) -> pd.Series:
        """The one row of an audit's table that has these values."""
        tables = self.finding(audit).tables
        if table not in tables:
            raise NotApplicable(f"the audit {audit} has no table {table!r} here")
        rows = tables[table]
        for column, value in where.items():
            rows = rows[rows[column] == value]
        if len(rows) != 1:
            raise NotApplicable(f"the audit {audit} says nothing of {', '.join(map(str, where.values()))}")
        return rows.iloc[0]


def _where(fractions: Sequence[float]) -> str:
    """Which fractions an advantage is over."""
    listed = ", ".join(f"{t:g}" for t in fractions)
    return f"at {listed}" if len(fractions) == 1 else f"mean height over {listed}"


def measured(what: str, interval: Interval, of: str, claimed: Range) -> Measure:
    """A number with its interval, if it has a value."""
    if not math.isfinite(interval.value):
        raise NotApplicable(f"{what} is not defined")
    return Measure(what, interval, of, **claimed)
