"""The registry of audits: the studies that an audit needs, and the verdict it draws from their results.

    @audit(title="Geometry", question="Does the shape of what is removed matter?", studies=needed)
    def geometry(evidence, *, metric="roar"):
        ...
        return Finding("misleads", "Random blocks cost 12.3 ± 0.8 points more than random pixels ...")

`studies(study, **options)` gives studies by part, each the given study with other estimators, metrics,
fills or tasks. They run as any study does: what the store has is not computed again, so that an audit after a run costs
only what is new. The verdict is a function of the results of those studies, and of nothing else.

An audit that does not apply raises `NotApplicable` with the reason and what would make it possible.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy

from uproar.data import load
from uproar.errors import Absent, BadInput, Damaged, NotApplicable
from uproar.estimators import Chain, read_chain
from uproar.expression import Call, parse
from uproar.metrics.probe import fractions_of
from uproar.metrics.registry import read_metric
from uproar.metrics.retraining import retraining_named
from uproar.registry import Registry
from uproar.results.finding import Finding, Plot, State
from uproar.results.finding import Kind as PlotKind
from uproar.statistics.intervals import Interval, mean_interval
from uproar.types import Kind
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.data import Task
    from uproar.results.study import StudyView
    from uproar.study.collect import Reading
    from uproar.study.spec import Study

audits = Registry("audit", "uproar.audits", ("uproar.audits.*",))

OWN = "study"
"""The part that is the study itself, always there."""


class StudyEvidence:
    """The results of one study for one task and model."""

    def __init__(self, study: Study, reading: Reading, view: Callable[[], StudyView]) -> None:
        self.study, self._reading, self._view = study, reading, view

    @property
    def task(self) -> Task:
        """The data."""
        return self._reading.task

    @property
    def estimators(self) -> tuple[str, ...]:
        """The chains by name, in the order of the study."""
        return tuple(chain.name for chain in self.study.chains)

    @functools.cached_property
    def view(self) -> StudyView:
        """Its results: curves, areas and the study's own verdicts."""
        return self._view()

    @property
    def cells(self) -> pd.DataFrame:
        """One row per finished cell: metric, estimator, fraction, seed, accuracy, ..."""
        return self.view.done

    @property
    def scores(self) -> pd.DataFrame:
        """One row per finished metric: metric, estimator, seed, value, higher_is_better, ..."""
        return self.view.scores

    def accuracy(self, metric: str, estimator: str) -> pd.DataFrame:
        """Accuracy by seed (rows) and fraction (columns), plain training included; only whole columns."""
        return self.view.accuracy(metric, estimator)

    def curves(self, metric: str) -> dict[str, pd.DataFrame]:
        """`accuracy` of each estimator that takes part in comparisons, in the order of the study."""
        compared = set(self.view.curves(metric)["estimator"])
        return {name: self.accuracy(metric, name) for name in self.estimators if name in compared}

    def areas(self, metric: str) -> pd.DataFrame:
        """Mean height of each curve, estimators by seeds; refused where nothing can be compared."""
        if metric not in self.view.retrained:
            raise NotApplicable("no estimator has finished cells")
        if metric in self.view.remarks:
            raise NotApplicable("the estimators share no finished fraction")
        table = self.view.areas(metric)
        if table.shape[1] < 2:
            raise NotApplicable("1 replicate cannot give an interval; run at least 2 seeds")
        return table.reindex([name for name in self.estimators if name in table.index])

    def metric_values(self, metric: str) -> pd.DataFrame:
        """A metric's value by estimator and seed."""
        rows = self.scores[self.scores["metric"] == metric]
        table = rows.pivot(index="estimator", columns="seed", values="value").astype(float)
        return table.reindex([name for name in self.estimators if name in table.index])

    def verdicts(self, metric: str) -> pd.DataFrame:
        """The study's own verdicts under a metric, by estimator; empty where it has none."""
        table = self.view.verdicts.get(metric)
        if table is None:
            return pd.DataFrame(columns=["verdict", "side", "advantage", "low", "high"])
        return table.set_index("estimator")

    def answers(self, metric: str, estimator: str, fraction: float, seed: int) -> np.ndarray:
        """Log probabilities of the test images, (n, classes), float64."""
        declared, chain = retraining_named(metric), self._chain(estimator)
        item = self._reading.find(self._reading.setting.accuracy(chain, declared, fraction, seed))
        if item is None:
            raise NotApplicable(f"{metric} of {estimator} at t={fraction:g}, seed {seed}, is not finished")
        return np.asarray(scipy.special.log_softmax(item.arrays[declared.test.of].astype(np.float64), axis=1))

    def responses(self, metric: str, estimator: str, seed: int) -> Mapping[str, np.ndarray]:
        """A metric's values per test image (`value`), and what else it keeps (`curve`, ...)."""
        chain, call = self._chain(estimator), str(read_metric(metric))
        item = self._reading.find(self._reading.setting.score(chain, call, seed))
        if item is None:
            raise NotApplicable(f"{metric} of {estimator}, seed {seed}, is not finished")
        return item.arrays

    def axis(self, metric: str) -> tuple[float, ...]:
        """Where the points of a metric's curves lie."""
        return fractions_of(read_metric(metric), self.task.shape)

    def maps(self, estimator: str, seed: int) -> np.ndarray:
        """The maps of the test images, (n, h, w), each scaled so that its largest size is 1."""
        ranking = self._reading.ranking(self._chain(estimator), seed)
        if ranking is not None and hasattr(ranking, "maps"):  # what removes without a ranking has none
            with contextlib.suppress(Absent, Damaged):
                maps = ranking.maps()
                return np.asarray(maps.sum(1) if maps.ndim == 4 else maps)
        raise NotApplicable(f"the maps of {estimator} for seed {seed} are not in the store")

    def _chain(self, estimator: str) -> Chain:
        return read_chain(estimator, self.study.sign, self.study.channels)


@dataclass(frozen=True)
class Evidence:
    """What an audit reads: the study and the parts it asked for, by name."""

    study: Study
    parts: Mapping[str, StudyEvidence]

    def __getitem__(self, name: str) -> StudyEvidence:
        return self.parts[name]


Studies = Callable[..., Mapping[str, "Study"]]


def audit(
    *,
    title: str,
    question: str,
    studies: Studies | None = None,
    paper: str = "",
    needs: str = "",
    kinds: tuple[Kind, ...] = ("softmax",),
) -> Callable[[Callable[..., Finding]], Callable[..., Finding]]:
    """Declare `(evidence, *, options) -> Finding` under its own name; `needs` says what a study must have.

    `kinds` are the kinds of tasks that it serves, by default those with one class per image.
    `studies(study, **options)` gives the studies it needs.
    """

    facts: dict[str, Any] = {"studies": studies, "paper": paper, "needs": needs, "kinds": kinds}
    return audits.declare(title=title, question=question, **facts)


def read_audit(text: str) -> Call:
    """The audit a text names, e.g. `blur(sigma=2)`; its name and options are checked here."""
    call = parse(text)
    if call.args:
        raise BadInput(f"The audit {call.name!r} takes options, not {call.args[0]}.")
    audits[call.name].bind(**dict(call.options))
    return call


def studies_of(call: Call, study: Study) -> dict[str, Study]:
    """The studies an audit needs, by part; the study itself is one of them."""
    entry = audits[call.name]
    needed = entry.facts["studies"]
    return {OWN: study, **(needed(study, **entry.bind(**dict(call.options))) if needed else {})}


def unique_names(names: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Names with more names, each once.

    >>> unique_names(["grad", "ig"], ["random", "grad"])
    ('grad', 'ig', 'random')
    """
    return tuple(dict.fromkeys([*names, *more]))


def conclude(misleads: bool, holds: bool) -> State:
    """What an audit concludes: the benchmark misleads, or else it holds, or else the data cannot tell."""
    return "misleads" if misleads else "holds" if holds else "cannot tell"


def paired_over_seeds(first: pd.Series, second: pd.Series) -> Interval:
    """The mean difference over the seeds that both have, with its t-interval; refused for fewer than two."""
    interval = mean_interval((first - second).to_numpy(dtype=float))
    if interval.n < 2:
        raise NotApplicable(f"{counted(interval.n, 'replicate')} cannot give an interval; run at least 2 seeds")
    return interval


@functools.lru_cache(maxsize=2)
def knows_truth(task: str) -> bool:
    """Whether the important pixels of the test images of a task are known."""
    return load(task).test.truth(slice(0, 1)) is not None


# figures: a column and the words beside its axis as one pair

Labelled = tuple[str, str]
Style = dict[str, Any]
REMOVED = ("fraction", "share removed")


def plot(
    kind: PlotKind,
    name: str,
    title: str,
    reading: str,
    data: pd.DataFrame,
    x: Labelled,
    y: Labelled,
    series: str | None = None,
    *,
    band: bool = False,
    reference: tuple[float, str] | None = None,
    **style: Any,
) -> Plot:
    """A figure of a tidy table; `band` draws its columns `low` and `high`, `reference` a labelled horizontal line."""
    ends: Style = {"low": "low", "high": "high"} if band else {}
    level: Style = {"reference": reference[0], "reference_label": reference[1]} if reference else {}
    return Plot(name, kind, title, reading, data, x[0], y[0], x[1], y[1], series, **ends, **level, **style)


lines = functools.partial(plot, "lines")
bars = functools.partial(plot, "bars")
heat_map = functools.partial(plot, "heatmap")
