"""The results of one task and model, cut into the slices that sentences and figures are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import pandas as pd

from uproar.errors import BadInput
from uproar.report.formatting import clean, protocol_label, retrains
from uproar.report.style import Style, styles
from uproar.results.study import Picture, Results
from uproar.statistics.design import BASELINE
from uproar.statistics.verdicts import intervals

Kind = Literal["better", "worse", "unclear"]


@dataclass(frozen=True)
class Section:
    """One task and model. Frames are by protocol; a protocol without a number has no entry."""

    task: str
    model: str
    table: pd.DataFrame
    verdicts: Mapping[str, pd.DataFrame]
    """As `compare` gives them, best first."""
    comparisons: Mapping[str, pd.DataFrame]
    """Every pair of estimators, `random` apart, as `compare_pairs` gives them."""
    curves: Mapping[str, pd.DataFrame]
    """Mean and interval over the replicates by estimator and fraction."""
    costs: pd.DataFrame
    pictures: tuple[Picture, ...]
    higher_is_better: Mapping[str, bool]
    looks: Mapping[str, Style]
    chance: float | None
    remarks: tuple[str, ...]
    """Why a protocol has curves but no verdicts."""
    spent: pd.DataFrame
    """Replicates by protocol and estimator, where the study ran until it was decided."""

    @property
    def name(self) -> str:
        return f"{self.task} · {self.model}"

    @property
    def judged(self) -> list[str]:
        """The retrained protocols that have verdicts: they decide."""
        return [name for name in self.verdicts if retrains(name)]

    @cached_property
    def estimators(self) -> list[str]:
        """All estimators with a number: random, then best first by the first protocol that judges."""
        there = list(dict.fromkeys(e for frame in self.curves.values() for e in frame["estimator"]))
        first = next(iter([*self.judged, *self.verdicts]), None)
        ranked = list(self.verdicts[first]["estimator"]) if first else []
        study = [name for name in self.looks if name in there]
        order = [*[BASELINE][: BASELINE in there], *ranked, *study]
        return list(dict.fromkeys(order))

    @property
    def controls(self) -> list[str]:
        """Estimators that never look at the network; random is not one of them but the reference."""
        if "passes" not in self.costs:
            return []
        free = self.costs[(self.costs["passes"] == 0) & (self.costs["estimator"] != BASELINE)]
        return list(free["estimator"])

    def called(self, protocol: str, kind: Kind) -> list[str]:
        """The estimators with one kind of verdict, best first."""
        frame = self.verdicts.get(protocol)
        if frame is None:
            return []
        return [e for e, v in zip(frame["estimator"], frame["verdict"], strict=True) if kind_of(v) == kind]

    def advantage(self, protocol: str, estimator: str) -> float:
        """How much better than random, in accuracy; NaN if it was not compared."""
        frame = self.verdicts[protocol]
        found = frame.loc[frame["estimator"] == estimator, "advantage"]
        return float(found.iloc[0]) if len(found) else float("nan")

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


def kind_of(verdict: str) -> Kind:
    """The three verdicts as words to sort by.

    >>> kind_of("better than random"), kind_of("cannot tell with 3 replicates")
    ('better', 'unclear')
    """
    first = str(verdict).partition(" ")[0]
    return "better" if first == "better" else "worse" if first == "worse" else "unclear"


def sections_of(results: Results) -> list[Section]:
    """One section per task and model, in the order of the study."""
    looks = styles(clean(n) for t in (results.table, results.scores) for n in t["estimator"])
    table = _named(results.table)
    return [
        _section(results, task, model, table[(table["task"] == task) & (table["model"] == model)], looks)
        for task, model in settings_of(results)
    ]


def settings_of(results: Results) -> list[tuple[str, str]]:
    """The tasks and models that have cells or metrics, by printed names, in the order of the study."""
    pairs = [
        (clean(task), clean(model))
        for frame in (results.table, results.scores)
        for task, model in zip(frame["task"], frame["model"], strict=True)
    ]
    return list(dict.fromkeys(pairs))


def _section(results: Results, task: str, model: str, table: pd.DataFrame, looks: Mapping[str, Style]) -> Section:
    verdicts, curves, pairs, remarks = {}, {}, {}, []
    for protocol, rows in table.groupby("protocol", sort=False):
        name = str(protocol)
        measured = _measured(rows, 1.0 if results.higher_is_better[name] else 0.0)
        if measured.empty:
            continue
        try:
            curves[name] = intervals(_tidy(measured))
            own = replace(results, table=measured, judged={})
            frame, compared = own.verdicts, own.comparisons
        except BadInput as error:
            remarks.append(f"{protocol_label(name)}: {error}")
            continue
        if not frame.empty:
            verdicts[name] = frame
        if not compared.empty:
            pairs[name] = compared
    pictures = tuple(p for p in results.pictures if (clean(p.task), clean(p.model)) == (task, model))
    costs = results.costs
    if not costs.empty:
        costs = _named(costs)
        costs = costs[(costs["task"] == task) & (costs["model"] == model)]
    return Section(
        task,
        model,
        table,
        verdicts,
        pairs,
        curves,
        costs,
        pictures,
        results.higher_is_better,
        looks,
        _chance(results, task),
        tuple(remarks),
        _spent(results, task, model),
    )


def _spent(results: Results, task: str, model: str) -> pd.DataFrame:
    found = _named(results.spent)
    return found[(found["task"] == task) & (found["model"] == model)]


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose names can be shown anywhere."""
    names = {c: frame[c].map(clean) for c in ("task", "model", "estimator")}
    return frame.assign(**names)


def _measured(rows: pd.DataFrame, plain: float) -> pd.DataFrame:
    """Cells with a number, of estimators that have one of their own.

    The plain training is shared by all estimators, also by those that were skipped: alone it is no
    curve, and it would leave the others no fraction in common but its own.
    """
    done = rows[(rows["status"] == "done") & rows["accuracy"].notna()]
    own = set(done.loc[(done["fraction"] - plain).abs() > 1e-9, "estimator"])
    return done[done["estimator"].isin(own)]


def _tidy(rows: pd.DataFrame) -> pd.DataFrame:
    tidy = rows.rename(columns={"seed": "replicate", "accuracy": "value"})
    return tidy[["estimator", "replicate", "fraction", "value"]]


def _chance(results: Results, task: str) -> float | None:
    """Accuracy of guessing, where the provenance says how many classes a task has."""
    classes = results.provenance.get("classes")
    size = classes.get(task) if isinstance(classes, Mapping) else None
    return 1 / size if isinstance(size, int) and size > 1 else None


def own_cells(results: Results) -> pd.DataFrame:
    """The cells of the study's grid, without the plain training that all curves start from."""
    plain = results.table["protocol"].map(lambda p: 1.0 if results.higher_is_better[p] else 0.0)
    return results.table[(results.table["fraction"] - plain.astype(float)).abs() > 1e-9]
