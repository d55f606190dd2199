"""Scores by printed names, as sentences and figures are made of them: cells, pairs, values per image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from uproar.report.figures import numbers
from uproar.report.formatting import clean
from uproar.report.metric_guide import Metric, metric_of
from uproar.report.pairs import Pair, pairs_of
from uproar.report.style import Style, styles
from uproar.results.scores import Line, Scores
from uproar.wording import counted

Mark = Literal["sole", "best", "level", "unranked", ""]
"""Decidedly better than all others; the best value only; not told apart from the best value; undefined for too many
images to be ranked; none of these."""


@dataclass(frozen=True)
class Cell:
    """One method under one metric."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    nan: int
    tied: float | None
    note: str
    ranked: bool

    @property
    def undefined(self) -> str:
        """How many images have no value, in words; nothing where all have one."""
        share = 100 * self.nan / self.n if self.n else 0.0
        words = "<1" if share < 0.5 else f"{share:.0f}"
        return f"{self.nan} of {self.n} undefined ({words}\u00a0%)" if self.nan else ""


@dataclass(frozen=True)
class ScoreTable:
    """All scores by printed names, in the order in which they were asked for."""

    methods: tuple[str, ...]
    metrics: tuple[Metric, ...]
    styles: Mapping[str, Style]
    cells: Mapping[tuple[str, str], Cell]
    """By method and metric."""
    pairs: Mapping[str, tuple[Pair, ...]]
    values: Mapping[str, Mapping[str, np.ndarray]]
    """By metric and method: a value per image."""
    curves: Mapping[str, tuple[np.ndarray, Mapping[str, Line]]]
    """By metric: the fractions, and a mean curve by method."""
    maps: Mapping[str, np.ndarray]
    replicates: int = 1
    analyses: int = 1
    """Planned analyses, by whose number the adjusted p of pairs are multiplied."""

    @property
    def adjusted_by(self) -> str:
        """What p of pairs are adjusted by beside Holm's method; empty for nothing."""
        return f", times the {self.analyses} rounds of images that were planned" if self.analyses > 1 else ""

    @cached_property
    def judges(self) -> tuple[Metric, ...]:
        """The metrics that judge maps and have a number: they decide."""
        return tuple(m for m in self.metrics if not m.describes and self.scored(m))

    @cached_property
    def images(self) -> int:
        return max((cell.n for cell in self.cells.values()), default=0)

    @property
    def basis(self) -> str:
        """What the numbers rest on, in words."""
        images = counted(self.images, "image")
        return images if self.replicates == 1 else f"{self.replicates} replicates of {images}"

    def scored(self, metric: Metric) -> list[str]:
        """The methods with a number, in order."""
        cells = {m: self.cells.get((m, metric.name)) for m in self.methods}
        return [m for m, cell in cells.items() if cell is not None and cell.value is not None]

    def ranked(self, metric: Metric) -> list[str]:
        """The methods with a number that is defined for enough images to be ranked by it."""
        return [m for m in self.scored(metric) if self.cells[m, metric.name].ranked]

    def value(self, method: str, metric: Metric) -> float | None:
        cell = self.cells.get((method, metric.name))
        return None if cell is None else cell.value

    def best(self, metric: Metric) -> list[str]:
        """The methods of the best value: several only where values are equal."""
        values = {m: self.value(m, metric) or 0.0 for m in self.ranked(metric)}
        top = (max if metric.higher else min)(values.values(), default=None)
        return [m for m, value in values.items() if value == top]

    def decided(self, metric: Metric) -> list[Pair]:
        return [pair for pair in self.pairs.get(metric.name, ()) if pair.decided]

    @cached_property
    def _wins(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(
            (metric, pair.better, pair.worse) for metric, pairs in self.pairs.items() for pair in pairs if pair.decided
        )

    def beats(self, metric: Metric, a: str, b: str) -> bool:
        return (metric.name, a, b) in self._wins

    def beaten(self, metric: Metric) -> set[str]:
        """The methods that some other is decidedly better than."""
        return {pair.worse for pair in self.decided(metric)}

    def leaders(self, metric: Metric) -> list[str]:
        """The methods that nothing decidedly beats, where anything was decided."""
        beaten = self.beaten(metric)
        return [m for m in self.ranked(metric) if m not in beaten] if beaten else []

    def sole(self, metric: Metric) -> str | None:
        """The method that decidedly beats all others, if there is one."""
        there = self.ranked(metric)
        for method in there if len(there) > 1 else ():
            if all(self.beats(metric, method, other) for other in there if other != method):
                return method
        return None

    @property
    def notes(self) -> dict[str, list[str]]:
        """What is noted of values, each once, with the metrics it is noted of."""
        notes: dict[str, list[str]] = {}
        for (_, metric), cell in self.cells.items():
            if cell.note and metric not in notes.setdefault(cell.note, []):
                notes[cell.note].append(metric)
        return notes

    @property
    def some_unranked(self) -> bool:
        """Whether any value is undefined for too many images to be ranked."""
        return any(cell.value is not None and not cell.ranked for cell in self.cells.values())

    def tied(self, method: str) -> float | None:
        """The share of a method's pixels whose value another pixel has too."""
        shares = (cell.tied for (name, _), cell in self.cells.items() if name == method)
        return next((share for share in shares if share is not None), None)

    def mark(self, method: str, metric: Metric) -> Mark:
        best = self.best(metric)
        if self.value(method, metric) is None:
            return ""
        if method not in self.ranked(metric):
            return "unranked"
        if metric.describes or len(self.ranked(metric)) < 2:
            return ""
        if method in best:
            return "sole" if self.sole(metric) == method else "best"
        judged = any({p.better, p.worse} == {method, best[0]} for p in self.pairs.get(metric.name, ()))
        return "level" if judged and not self.beats(metric, best[0], method) else ""


def score_table(scores: Scores, known_styles: Mapping[str, Style] | None = None) -> ScoreTable:
    """Everything by names that can be printed; two that would be printed alike get a number.

    `known_styles` are those of a page on which the methods already have some.
    """
    table, per_image = scores.table, scores.per_image
    methods = printable_names([*table["method"], *scores.maps])
    names = printable_names(table["metric"])
    there = tuple(methods[m] for m in dict.fromkeys(table["method"]))
    directions = dict(zip(table["metric"], table["higher_is_better"], strict=True))
    cells = {(methods[row["method"]], names[row["metric"]]): _cell(row) for row in table.to_dict("records")}
    values: dict[str, dict[str, np.ndarray]] = {}
    for (metric, method), group in per_image.groupby(["metric", "method"], sort=False):
        if metric in names and method in methods:
            row = np.full(int(group["image"].max()) + 1, np.nan)
            row[group["image"].to_numpy(dtype=int)] = group["value"].to_numpy(dtype=float)
            values.setdefault(names[metric], {})[methods[method]] = row
    curves = {
        names[metric]: (
            np.asarray(own.fractions, dtype=float),
            {methods[m]: line for m, line in own.lines.items() if np.isfinite(line.mean).any()},
        )
        for metric, own in scores.curves.items()
        if metric in names
    }
    failed = {metric for metric, one in scores.negative_controls.items() if one.failed}
    return ScoreTable(
        there,
        tuple(
            replace(metric_of(raw, label, bool(directions[raw])), unable=raw in failed) for raw, label in names.items()
        ),
        {m: (known_styles or {}).get(m) or own for m, own in styles(there).items()},
        cells,
        _pairs(scores.comparisons, names, methods),
        values,
        curves,
        {methods[m]: np.asarray(a, dtype=float) for m, a in scores.maps.items()},
        scores.replicates,
        int(scores.comparisons["analyses"].max()) if "analyses" in scores.comparisons else 1,
    )


def _cell(row: Mapping[str, Any]) -> Cell:
    value, low, high, tied = numbers(row[key] for key in ("value", "low", "high", "tied"))
    note = clean(row["note"]) if isinstance(row["note"], str) else ""
    return Cell(value, low, high, int(row["n"]), int(row["nan"]), tied, note, bool(row["ranked"]))


def _pairs(frame: pd.DataFrame, names: Mapping[str, str], methods: Mapping[str, str]) -> dict[str, tuple[Pair, ...]]:
    known = frame[frame["metric"].isin(names) & frame["better"].isin(methods) & frame["worse"].isin(methods)]
    shown = known.assign(better=known["better"].map(methods), worse=known["worse"].map(methods))
    return {names[str(metric)]: pairs_of(rows) for metric, rows in shown.groupby("metric", sort=False)}


def printable_names(names: Iterable[str]) -> dict[str, str]:
    """Names as they can be printed, by what they were; no two are the same.

    >>> printable_names(["grad", "a\\nb", "a b", "random"])
    {'grad': 'grad', 'a\\nb': 'a b', 'a b': 'a b (2)', 'random': 'random'}
    """
    labels: dict[str, str] = {}
    for name in dict.fromkeys(names):
        label, place = clean(name) or "unnamed", 2
        while label in labels.values():
            label, place = f"{clean(name)} ({place})", place + 1
        labels[name] = label
    return labels
