"""The finding of an audit: a sentence, numbers, figures as plain data, and marks on the verdicts they bear on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from uproar.results.html import block

State = Literal["misleads", "holds", "cannot tell", "skipped"]
"""Whether the benchmark misleads here as far as this audit can see."""

Kind = Literal["lines", "scatter", "bars", "heatmap"]

FlagKind = Literal["fails sanity", "unstable"]


@dataclass(frozen=True)
class Flag:
    """One warning about a method. It does not forbid to recommend it: a network that sees one corner alone sees the
    same corner with fresh weights, so that correct maps hardly change."""

    method: str
    kind: FlagKind
    why: str
    """The number behind it."""


@dataclass(frozen=True)
class Plot:
    """A figure as a tidy table and the columns that are drawn; the report decides on its style.

    lines     y over x, one line per `series`; `low` and `high` are a band
    scatter   a point per row, one style per `series`; `line` draws a least-squares line through all
    bars      one bar per row: `x` names it, `y` is its length, `series` stands bars of one name side by side
    heatmap   `x` and `y` name column and row, `value` is the number in the cell
    """

    name: str
    """Of its file: lower case, no spaces."""
    kind: Kind
    title: str
    """The finding in a sentence, e.g. "Blurring improves 8 of 9 estimators under ROAR"."""
    reading: str
    """One line on how to read it."""
    data: pd.DataFrame
    x: str
    y: str
    x_label: str
    y_label: str
    series: str | None = None
    low: str | None = None
    high: str | None = None
    value: str | None = None
    diverging: bool = False
    """Whether the heat map's colours part at zero, e.g. correlations."""
    changes: bool = False
    """Whether the heat map shows what a change does: losses magenta with a minus, gains cyan with a plus."""
    line: bool = False
    reference: float | None = None
    """A horizontal line: chance, zero, the plain network."""
    reference_label: str = ""
    percent: bool = False
    """Whether values are shares shown in percent."""


@dataclass(frozen=True)
class Mark:
    """What an audit says about one verdict of the study."""

    metric: str
    estimator: str
    text: str
    """Two or three words: `leaks`, `explained by blur`, `contradicted by road`."""
    why: str
    """The number behind it."""


@dataclass(frozen=True)
class Finding:
    """The answer to an audit's question, for one task and model."""

    state: State
    sentence: str
    """One sentence with the numbers and their uncertainty."""
    plots: tuple[Plot, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Every number behind the sentence and the plots, by title."""
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    """How it was obtained, and what it does not say."""
    audit: str = ""
    title: str = ""
    question: str = ""
    task: str = ""
    model: str = ""
    reason: str = ""
    """Why it was skipped; empty for every other state."""
    flags: tuple[Flag, ...] = ()
    """What it holds against estimators themselves, whatever the metric."""

    def __repr__(self) -> str:
        return f"<Finding of {self.audit}, {self.state}: {self.sentence or self.reason}>"

    def _repr_html_(self) -> str:
        head = f"{self.title or self.audit}: {self.state}. {self.sentence or self.reason}"
        tables = [piece for title, frame in self.tables.items() for piece in ([title], frame)]
        return block([head], [self.question, *self.notes], *tables)
