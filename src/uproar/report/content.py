"""What reports are made of: parts with text, tables, figures and images, which a page, Markdown and LaTeX all take.

Text may hold names in backquotes. Cells of tables are text as it is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from uproar.report.figures import Figure
from uproar.report.formatting import NOTHING, clean, number
from uproar.results.answer import Answer
from uproar.results.quality import NetworkQuality
from uproar.wording import setting_text

ROWS = 200
"""Rows of a table on a page; the CSV files have all."""
MAPS = "maps"
"""The view of images that shows maps: numbers in [-1, 1]. All others show changed images: bytes."""


@dataclass(frozen=True)
class Table:
    """Cells as they are printed, with a short caption; `name` is that of its LaTeX file."""

    frame: pd.DataFrame
    caption: str = ""
    name: str = ""
    note: str = ""

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers, which stand at the right."""
        cells = [str(cell) for cell in self.frame.iloc[:, column] if str(cell) not in ("", NOTHING)]
        return bool(cells) and all(re.match(r"[▲+−<(≈]?\s?[+−]?[\d.]", c) and c.count(" ") < 8 for c in cells)


@dataclass(frozen=True)
class ImageRow:
    """A test image with what is shown of it by view and method, and its values by metric and method."""

    caption: str
    pixels: np.ndarray
    tiles: Mapping[str, Mapping[str, np.ndarray]]
    values: Mapping[str, Mapping[str, float]]
    label: str = ""
    """Its class; empty where it is not known."""
    answer: str = ""
    """`right` or `wrong`: what the network says of it; empty where that is not known."""

    def disagreement(self, methods: Sequence[str]) -> float:
        """How differently methods rank the pixels of this image: 1 minus their mean rank correlation."""
        maps = [np.ravel(self.tiles[MAPS][name]) for name in methods if name in self.tiles.get(MAPS, {})]
        if len(maps) < 2:
            return 0.0
        ranks = np.argsort(np.argsort(maps, axis=1, kind="stable"), axis=1, kind="stable")
        pairs = np.asarray(np.corrcoef(ranks))[np.triu_indices(len(maps), 1)]
        return float(1 - np.nan_to_num(pairs).mean())


@dataclass(frozen=True)
class Images:
    """Test images side by side for all methods; a reader chooses what is shown and which value stands below."""

    methods: tuple[str, ...]
    rows: tuple[ImageRow, ...]
    marks: Mapping[str, str]
    """By method: `✓` recommended, `✗` not better than a baseline, `(baseline)`."""

    @property
    def views(self) -> list[str]:
        """What can be shown: the maps, and the changed images of each metric and fraction."""
        return list(dict.fromkeys(view for row in self.rows for view in row.tiles))

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for row in self.rows for metric in row.values))

    @property
    def labels(self) -> list[str]:
        return sorted({row.label for row in self.rows} - {""})

    @property
    def answers(self) -> list[str]:
        return sorted({row.answer for row in self.rows} - {""})


Block = str | Table | Figure | Images


@dataclass(frozen=True)
class Part:
    """A part of a report under its heading; a page opens it when asked."""

    title: str
    blocks: tuple[Block, ...]
    anchor: str


@dataclass(frozen=True)
class Chapter:
    """A task and model, or scores alone: the recommendation and everything behind it."""

    answer: Answer
    quality: NetworkQuality | None
    chart: Figure | None
    """Every method by the metric that decides."""
    images: Images | None
    """A few images beside the chart: the recommended method, the best baseline and a rejected one."""
    parts: tuple[Part, ...]
    basis: str
    """How many methods, baselines, images and runs."""
    question: str = "Which attribution method shows what your network uses?"
    name: str = ""
    """Task and model; empty for scores."""
    prefix: str = ""
    """Before the names of its files; empty where there is one chapter."""
    paper: tuple[Part, ...] = ()
    """Of a study of a paper: its claims and figures, with which the page begins."""

    def blocks(self) -> Iterator[Block]:
        """All blocks."""
        yield from [self.chart] if self.chart else []
        for section in (*self.paper, *self.parts):
            yield from section.blocks

    def figures(self) -> dict[str, Figure]:
        """The figures by file name."""
        return {self.prefix + block.name: block for block in self.blocks() if isinstance(block, Figure)}

    def tables(self) -> dict[str, Table]:
        """The tables that a paper may want, by file name."""
        return {self.prefix + block.name: block for block in self.blocks() if isinstance(block, Table) and block.name}


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with its cells as they are printed."""
    return pd.DataFrame({clean(c).replace("_", " "): [_cell(v) for v in frame[c]] for c in frame.columns})


def _cell(value: Any) -> str:
    if value is None or value != value:
        return NOTHING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return number(float(value), 4).replace("-", "−") if isinstance(value, float) else clean(value)


def facts_table(facts: Mapping[str, Any], caption: str = "") -> Table:
    """Nested settings as a table of names and values, without those that are empty."""
    return Table(pd.DataFrame(flat_facts(facts), columns=["setting", "value"]), caption)


def flat_facts(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings that are not empty as a flat list of names and values."""
    facts: list[tuple[str, str]] = []
    for name, value in settings.items():
        label = f"{before}{clean(name)}"
        if isinstance(value, Mapping):
            facts += flat_facts(value, f"{label}: ")
        elif value not in (None, "", (), []):
            shown = number(value, 6) if isinstance(value, float) else setting_text(value)
            facts.append((label.replace("_", " "), clean(shown)))
    return facts
