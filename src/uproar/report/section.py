"""The results of one task and model by printed names, as sentences and figures are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pandas as pd

from uproar.protocols import Protocol
from uproar.report.formatting import clean
from uproar.report.style import Style, styles
from uproar.results.study import Picture, Results
from uproar.results.view import StudyView
from uproar.statistics.design import BASELINE

Kind = Literal["better", "worse", "unclear"]
KINDS: Mapping[int, Kind] = {1: "better", -1: "worse", 0: "unclear"}
"""By the side of a verdict."""

NAMES = ("task", "model", "estimator", "better", "worse")
"""Columns that hold names."""


@dataclass(frozen=True)
class Section:
    """One task and model. Frames are by protocol; a protocol without a number has no entry."""

    task: str
    model: str
    table: pd.DataFrame
    """All cells, finished or not."""
    own_cells: pd.DataFrame
    """Those without the plain training that all estimators share."""
    verdicts: Mapping[str, pd.DataFrame]
    """Against random, best first."""
    comparisons: Mapping[str, pd.DataFrame]
    """Every pair of estimators, `random` apart."""
    curves: Mapping[str, pd.DataFrame]
    """Mean and interval over the replicates by estimator and fraction."""
    costs: pd.DataFrame
    pictures: tuple[Picture, ...]
    protocols: Mapping[str, Protocol]
    styles: Mapping[str, Style]
    """By estimator, the same in all figures."""
    chance: float | None
    remarks: tuple[str, ...]
    """Why a protocol has curves but no verdicts."""
    spent: pd.DataFrame
    """Replicates by protocol and estimator, where the study ran until it was decided."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """By estimator, where it looks at layers of the network: their names."""
    score: str = "accuracy"
    """What networks are judged by: accuracy, mean average precision or R²."""
    evaluator: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """The evaluator's verdicts by target, best first; see `EvaluatorScores.verdicts`."""

    @property
    def name(self) -> str:
        return f"{self.task} · {self.model}"

    @property
    def retrained_protocols(self) -> list[str]:
        """The retrained protocols that have verdicts: they decide."""
        return [name for name in self.verdicts if self.protocols[name].retrains]

    @cached_property
    def estimators(self) -> list[str]:
        """All estimators with a number: random, then best first by the first protocol that judges."""
        there = list(dict.fromkeys(e for frame in self.curves.values() for e in frame["estimator"]))
        first = next(iter([*self.retrained_protocols, *self.verdicts]), None)
        ranked = list(self.verdicts[first]["estimator"]) if first else []
        study = [name for name in self.styles if name in there]
        order = [*[BASELINE][: BASELINE in there], *ranked, *study]
        return list(dict.fromkeys(order))

    def drawn(self, protocol: str) -> list[str]:
        """The estimators with a curve under a protocol, in the order of all."""
        there = set(self.curves[protocol]["estimator"])
        return [e for e in self.estimators if e in there]

    def label(self, protocol: str) -> str:
        """A protocol as it is called in a sentence."""
        return self.protocols[protocol].label

    @property
    def controls(self) -> list[str]:
        """Estimators that never look at the network; random is not one of them but the reference."""
        if "passes" not in self.costs:
            return []
        free = self.costs[(self.costs["passes"] == 0) & (self.costs["estimator"] != BASELINE)]
        return list(free["estimator"])

    @cached_property
    def kinds(self) -> dict[str, dict[str, Kind]]:
        """By protocol and estimator, best first: which of the three verdicts it has."""
        return {
            protocol: {str(e): KINDS[side] for e, side in zip(frame["estimator"], frame["side"], strict=True)}
            for protocol, frame in self.verdicts.items()
        }

    def with_verdict(self, protocol: str, kind: Kind) -> list[str]:
        """The estimators with one kind of verdict, best first."""
        return [e for e, own in self.kinds.get(protocol, {}).items() if own == kind]

    def advantage(self, protocol: str, estimator: str) -> float:
        """How much better than random, in accuracy, allowing for stopping early; NaN if it was not compared."""
        frame = self.verdicts[protocol]
        own = frame.loc[frame["estimator"] == estimator, "adjusted" if "adjusted" in frame else "advantage"]
        return float(own.iloc[0]) if len(own) else float("nan")

    def accuracy(self, protocol: str, estimator: str, fraction: float) -> float:
        """Mean accuracy over the replicates; NaN where there is none."""
        return self._means.get((protocol, estimator, round(fraction, 9)), float("nan"))

    @cached_property
    def _means(self) -> dict[tuple[str, str, float], float]:
        return {
            (protocol, str(e), round(float(t), 9)): float(mean)
            for protocol, frame in self.curves.items()
            for e, t, mean in zip(frame["estimator"], frame["fraction"], frame["mean"], strict=True)
        }


def sections_of(results: Results) -> list[Section]:
    """One section per task and model, in the order of the study."""
    there = (n for t in (results.table, results.scores) for n in t["estimator"] if n not in results.further_rankings)
    by_estimator = styles(clean(n) for n in there)
    return [_section(view, by_estimator) for view in results.views]


def _section(view: StudyView, by_estimator: Mapping[str, Style]) -> Section:
    results = view.results
    return Section(
        clean(view.task),
        clean(view.model),
        _named(view.table),
        _named(view.own_cells),
        {protocol: _named(frame) for protocol, frame in view.verdicts.items()},
        {protocol: _named(frame) for protocol, frame in view.comparisons.items()},
        {protocol: _named(frame) for protocol, frame in view.intervals.items()},
        _named(view.own(results.costs)),
        view.pictures,
        results.protocols,
        by_estimator,
        view.chance,
        tuple(f"{results.protocols[protocol].label}: {reason}" for protocol, reason in view.remarks.items()),
        _named(view.own(results.spent)),
        _layers(_named(view.own(results.costs))),
        view.score_name,
        {target: _named(scores.verdicts) for target, scores in view.evaluators.items() if len(scores.verdicts)},
    )


def _layers(costs: pd.DataFrame) -> dict[str, str]:
    """By estimator: the layers it looks at."""
    named = costs[costs["layers"] != ""] if "layers" in costs else costs[:0]
    return {row["estimator"]: clean(row["layers"]) for row in named.to_dict("records")}


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose names can be shown anywhere."""
    return frame.assign(**{column: frame[column].map(clean) for column in NAMES if column in frame})
