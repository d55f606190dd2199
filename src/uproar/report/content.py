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

from uproar.report.figures import CHOSEN as GREEN
from uproar.report.figures import MUTED as GREY
from uproar.report.figures import REFERENCE as BLACK
from uproar.report.figures import Figure, Forest, ForestRow, limits_of
from uproar.report.formatting import NOTHING, clean, number, p_value, with_interval
from uproar.results.answer import Answer
from uproar.results.evaluator import EvaluatorScores
from uproar.results.quality import NetworkQuality

ROWS = 200
"""Rows of a table on a page; the CSV files have all."""
BASELINES = ("centre", "sobel", "brightness", "block_random")
"""Those whose maps show something, for the top of the page."""


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
        return bool(cells) and all(re.match(r"[+−<(≈]?\s?[\d.]", cell) for cell in cells)


@dataclass(frozen=True)
class ImageRow:
    """A test image with what is shown of it by view and method, and its values by metric and method."""

    caption: str
    pixels: np.ndarray
    tiles: Mapping[str, Mapping[str, np.ndarray]]
    values: Mapping[str, Mapping[str, float]]

    def spread(self, metric: str) -> float:
        """How far methods lie apart on this image."""
        there = [value for value in self.values.get(metric, {}).values() if np.isfinite(value)]
        return max(there) - min(there) if there else 0.0


@dataclass(frozen=True)
class Images:
    """Test images side by side for all methods; a reader chooses what is shown and which value stands below."""

    methods: tuple[str, ...]
    rows: tuple[ImageRow, ...]

    @property
    def views(self) -> list[str]:
        """What can be shown: the maps, and the changed images of each protocol and fraction."""
        return list(dict.fromkeys(view for row in self.rows for view in row.tiles))

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for row in self.rows for metric in row.values))


@dataclass(frozen=True)
class Fold:
    """Blocks behind one line, which a page opens when asked."""

    title: str
    blocks: tuple[Block, ...]


Block = str | Table | Figure | Images | Fold


@dataclass(frozen=True)
class Part:
    """A part of a report under its heading."""

    title: str
    blocks: tuple[Block, ...]
    anchor: str = ""


@dataclass(frozen=True)
class Chapter:
    """A task and model, or scores alone: the recommendation and everything behind it."""

    name: str
    """Task and model; empty for scores."""
    prefix: str
    """Before the names of its files; empty where there is one chapter."""
    answer: Answer
    quality: NetworkQuality | None
    chart: Figure | None
    """Every method by the metric that decides."""
    images: Images | None
    """A few images beside the chart: the best method, a baseline and the last one."""
    parts: tuple[Part, ...]

    def blocks(self) -> Iterator[Block]:
        """All blocks, those in folds included."""
        waiting: list[Block] = [*([self.chart] if self.chart else []), *(b for part in self.parts for b in part.blocks)]
        while waiting:
            block = waiting.pop(0)
            yield block
            waiting = [*block.blocks, *waiting] if isinstance(block, Fold) else waiting

    def figures(self) -> dict[str, Figure]:
        """The figures by file name."""
        return {self.prefix + one.name: one for one in self.blocks() if isinstance(one, Figure)}

    def tables(self) -> dict[str, Table]:
        """The tables that a paper may want, by file name."""
        return {self.prefix + one.name: one for one in self.blocks() if isinstance(one, Table) and one.name}


# what studies and scores have in common


def deciding_chart(
    answer: Answer, roles: Mapping[str, str], values: pd.DataFrame, label: str, unit: str
) -> Figure | None:
    """Every method by the metric that decides, with the baselines as a grey band.

    `values` has the columns name, value, low and high, the best first. Recommended methods are green, those that are
    better than every baseline black, all others grey: the chart says what the recommendation says.
    """
    methods = values[values["name"].isin(answer.methods)]
    if methods["value"].notna().sum() == 0:
        return None
    free = [roles.get(str(name)) in ("baseline", "random") for name in values["name"]]
    baselines = values[free].dropna(subset="value")
    rows = []
    for row in methods.itertuples():
        style = GREEN if row.name in answer.recommended else BLACK if row.name in answer.choice.qualified else GREY
        rows.append(ForestRow.of(str(row.name), style, row.value, row.low, row.high))
    ends = (baselines["value"].min(), baselines["value"].max()) if len(baselines) else None
    limits = limits_of([*(v for row in rows for v in (row.value, row.low, row.high)), *(ends or ())])
    forest = Forest(tuple(rows), limits, f"{unit}, 95 % CI", band=ends)
    grey = f"Grey band: model-free baselines ({', '.join(baselines['name'])})." if ends else ""
    return Figure((forest,), 1, "deciding", f"How much each method finds, by {label}", grey)


def answer_part(answer: Answer) -> Part | None:
    """The table of methods by metrics."""
    table = answer.table
    if table.empty:
        return None
    shown = table.drop(columns="recommended")
    shown = shown.loc[:, [not (shown[c].isna().all() or shown[c].eq("").all()) for c in shown]]
    if "seconds" in shown:
        shown = shown.assign(seconds=[number(1000 * s, 2) for s in shown["seconds"]])
    renamed = {"group": "rank group", "passes": "passes per image", "seconds": "ms per image"}
    renamed |= {one.label: f"{one.label} (not reliable here)" for one in answer.metrics if one.unreliable}
    frame = as_text(shown.rename(columns=renamed))
    frame["method"] = [f"✓ {m}" if m in answer.recommended else m for m in frame["method"]]
    caption = "Methods by metric: significantly better than every model-free baseline, or not."
    note = "Methods that share a letter (rank group) are not significantly different. ✓ recommended."
    return Part("Methods by metric", (Table(frame, caption, "answer", note), *answer.details), "answer")


def pairs_table(frame: pd.DataFrame, caption: str, name: str, form: str = "difference", sign: int = 1) -> Table:
    """Method against method: every pair of a table of comparisons; `sign` turns differences into leads."""
    rows = []
    for row in frame.to_dict("records"):
        low, high = sorted((sign * row["low"], sign * row["high"]))
        tested = row["ranked"] and row["p"] == row["p"]
        verdict = "not significantly different" if tested else row["verdict"]  # or why there is no test
        verdict = "better" if row["side"] == 1 else verdict
        cells = [row["better"], verdict, row["worse"], with_interval(sign * row["difference"], low, high, form)]
        rows.append([*cells, p_value(row["p_holm"]), f"{row['n']:.0f}"])
    heads = ["method", "verdict", "against", "difference [95 % CI]", "p (Holm)", "n"]
    return Table(pd.DataFrame(rows, columns=heads), caption, name)


def evaluator_blocks(target: str, scores: EvaluatorScores) -> list[Block]:
    """What an evaluator says: every method with its score and leads."""
    of = "the label" if target == "label" else "the network's predictions"
    rows = [
        [
            row["estimator"],
            row["verdict"],
            with_interval(row["score"], row["low"], row["high"], "difference"),
            with_interval(row["over_random"], row["over_random_low"], row["over_random_high"], "difference"),
            with_interval(row["margin"], row["margin_low"], row["margin_high"], "difference"),
            p_value(row["p_baseline"]),
        ]
        for row in scores.verdicts.to_dict("records")
    ]
    heads = ["method", "verdict", "score", "over random", "over the hardest baseline", "p (Holm)"]
    first = scores.verdicts.iloc[0]
    basis = f"{first['replicates']:.0f} replicates, {first['n']:.0f} images"
    caption = f"Evaluator of {of} ({basis}): bits of log-loss, 95 % CI."
    return [
        f"Score: bits of log-loss that an image's own mask costs the evaluator of {of} beyond the same mask at another "
        "place. p: better than every model-free baseline, adjusted by Holm's method over the methods.",
        Table(pd.DataFrame(rows, columns=heads), caption, f"evaluator-{target}"),
    ]


def cost_part(costs: pd.DataFrame) -> Part | None:
    """Passes and time per image, the cheapest first."""
    if "passes" not in costs or costs.empty:
        return None
    names = {
        "estimator": "method",
        "milliseconds_per_image": "ms per image",
        "passes": "passes per image",
        "constant_maps": "constant maps",
        "layers": "layers",
    }
    there = [c for c in names if c in costs and not (costs[c].isna().all() or costs[c].eq("").all())]
    ordered = costs.sort_values([c for c in ("milliseconds_per_image", "passes") if c in costs], na_position="last")
    table = Table(as_text(ordered[there].rename(columns=names)), "Cost of each method.", "cost")
    return Part("Cost", ("A pass is one forward and backward pass for one image.", table), "cost")


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with its cells as they are printed."""
    return pd.DataFrame({clean(c).replace("_", " "): [_cell(v) for v in frame[c]] for c in frame.columns})


def _cell(value: Any) -> str:
    if value is None or value != value:
        return NOTHING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return number(float(value), 4).replace("-", "−") if isinstance(value, float) else clean(value)


def facts_table(facts: Mapping[str, Any], caption: str) -> Table:
    """Nested settings as a table of names and values."""
    return Table(pd.DataFrame(flat_facts(facts), columns=["setting", "value"]), caption)


def flat_facts(given: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as a flat list of names and values."""
    facts: list[tuple[str, str]] = []
    for name, value in given.items():
        label = f"{before}{clean(name)}"
        if isinstance(value, Mapping):
            facts += flat_facts(value, f"{label}: ")
        else:
            facts.append((label.replace("_", " "), _plain(value)))
    return facts


def _plain(value: Any) -> str:
    if value is None or value == "" or value == () or value == []:
        return NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return _cell(value)


def few_images(images: Images | None, answer: Answer, most: int = 3) -> Images | None:
    """Some images with the maps of the best method, a baseline and the last method: for the top of the page."""
    if images is None:
        return None
    free = [name for name in images.methods if name not in answer.methods]
    baseline = next((name for name in (*BASELINES, *free) if name in free), None)
    wanted = [*answer.recommended[:1], *answer.methods[:1], baseline, *answer.methods[-1:]]
    methods = tuple(dict.fromkeys(name for name in wanted if name in images.methods))[:3]
    maps = "maps"
    rows = [ImageRow(r.caption, r.pixels, {maps: r.tiles[maps]}, {}) for r in images.rows if maps in r.tiles]
    return Images(methods, tuple(rows[:most])) if rows and methods else None


def compact(blocks: Sequence[Block | None]) -> tuple[Block, ...]:
    """The blocks that are there."""
    return tuple(block for block in blocks if block is not None)
