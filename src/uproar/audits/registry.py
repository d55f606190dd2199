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

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from uproar.data import load
from uproar.errors import BadInput, NotApplicable
from uproar.expression import Call, parse
from uproar.registry import Registry
from uproar.results.finding import Finding, Plot, State
from uproar.results.finding import Kind as PlotKind
from uproar.statistics.intervals import Interval, mean_interval
from uproar.types import Kind
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.data import Task
    from uproar.results.study import StudyView
    from uproar.study.spec import Study

audits = Registry("audit", "uproar.audits", ("uproar.audits.*",))

OWN = "study"
"""The part that is the study itself, always there."""


class StudyEvidence(ABC):
    """The results of one study for one task and model."""

    study: Study

    @property
    @abstractmethod
    def task(self) -> Task:
        """The data."""

    @property
    @abstractmethod
    def estimators(self) -> tuple[str, ...]:
        """The chains by name, in the order of the study."""

    @property
    @abstractmethod
    def view(self) -> StudyView:
        """Its results: curves, areas and the study's own verdicts."""

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

    @abstractmethod
    def answers(self, metric: str, estimator: str, fraction: float, seed: int) -> np.ndarray:
        """Log probabilities of the test images, (n, classes), float64."""

    @abstractmethod
    def responses(self, metric: str, estimator: str, seed: int) -> Mapping[str, np.ndarray]:
        """A metric's values per test image (`value`), and what else it keeps (`curve`, ...)."""

    @abstractmethod
    def axis(self, metric: str) -> tuple[float, ...]:
        """Where the points of a metric's curves lie."""

    @abstractmethod
    def maps(self, estimator: str, seed: int) -> np.ndarray:
        """The maps of the test images, (n, h, w), each scaled so that its largest size is 1."""

    @abstractmethod
    def removed(self, estimator: str, seed: int, fraction: float, split: str = "test") -> np.ndarray:
        """The first share of the order of every image of a split, bool (n, h, w)."""


class Evidence(ABC):
    """What an audit reads: the study and the parts it asked for, by name."""

    study: Study

    @abstractmethod
    def __getitem__(self, part: str) -> StudyEvidence:
        """The results of one of its studies."""


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
