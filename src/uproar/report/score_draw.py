"""The figures of a score report drawn with Matplotlib: SVG and PNG files for papers and slides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from uproar.report.draw import drawn as drawn_curves
from uproar.report.draw_pictures import ABOVE, GAP, SIDE, mosaic
from uproar.report.figures import Curves
from uproar.report.formatting import shortened
from uproar.report.pictures import as_colours, map_colours
from uproar.report.print_layout import INK, SETTINGS, Sheet, room, sheet
from uproar.report.score_disagreements import Disagreement
from uproar.report.score_figures import Box, Overview, Spreads
from uproar.report.score_findings import score
from uproar.report.score_metrics import Metric
from uproar.report.style import Style

Drawable = Curves | Overview | Spreads | Disagreement
WIDE, COLUMNS = 2.1, 4
"""Width of a small plot in inches, and how many stand side by side."""


def drawn(figure: Drawable, kinds: Sequence[str] = ("svg", "png")) -> dict[str, bytes]:
    """The figure as files: `<name>.svg` and `<name>.png`, or of other kinds (pdf)."""
    if isinstance(figure, Curves):
        return drawn_curves(figure, kinds)
    drawers: dict[type, Callable[..., Sheet]] = {Overview: _overview, Spreads: _spreads, Disagreement: _disagreement}
    with mpl.rc_context(cast(Any, SETTINGS)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        made = drawers[type(figure)](figure)
        return {f"{figure.name}.{kind}": made.file(kind) for kind in kinds}


def _overview(figure: Overview) -> Sheet:
    names = [name for name, _ in figure.methods]
    made, places = _multiples(figure.title, names, len(figure.columns))
    for place, (metric, limits, cells) in zip(places, figure.columns, strict=True):
        axes = _small(made, place, names, metric, limits)
        for row, ((_, style), (cell, mark)) in enumerate(zip(figure.methods, cells, strict=True)):
            if cell is None or cell.value is None:
                continue
            if cell.low is not None and cell.high is not None:
                axes.plot([cell.low, cell.high], [row, row], color=style.light, linewidth=1.8)
            inside = style.light if mark == "sole" else "white"
            axes.plot(
                cell.value,
                row,
                marker="x" if mark == "unranked" else "o",
                markersize=5.5,
                color=style.light,
                markerfacecolor=inside,
                markeredgewidth=1.5,
            )
    marks = {mark for _, _, cells in figure.columns for _, mark in cells}
    cross = " Cross: not ranked, undefined for too many images." if "unranked" in marks else ""
    made.text(0.1, 0.1, f"Filled: decidedly better than all others. Hollow: not.{cross}", fontsize=8)
    return made


def _spreads(figure: Spreads) -> Sheet:
    names = list(dict.fromkeys(box.label for s in figure.spreads for box in s.boxes))
    made, places = _multiples(figure.title, names, len(figure.spreads))
    for place, spread in zip(places, figure.spreads, strict=True):
        axes = _small(made, place, names, spread.metric, spread.limits)
        for box in spread.boxes:
            _box(axes, names.index(box.label), box, spread.shares)
    made.text(
        0.1,
        0.1,
        "Box: the middle half of the images, line: median, dot: mean, whiskers: 5 % to 95 %. "
        "Bars: share of images with 1.",
        fontsize=8,
    )
    return made


def _box(axes: Axes, row: int, box: Box, shares: bool) -> None:
    colour, pale = box.style.light, mpl.colors.to_rgba(box.style.light, 0.2)
    if box.marks is None or box.mean is None:
        return
    if shares:
        axes.barh(row, box.mean, height=0.55, color=colour)
        return
    low, first, middle, third, high = box.marks
    axes.plot([low, high], [row, row], color=colour, linewidth=1)
    axes.barh(row, third - first, left=first, height=0.6, color=pale, edgecolor=colour)
    axes.plot([middle, middle], [row - 0.3, row + 0.3], color=colour, linewidth=2)
    axes.plot(box.mean, row, marker="o", markersize=3.5, color=INK)


def _multiples(title: str, names: list[str], plots: int) -> tuple[Sheet, list[tuple[float, float, float, bool]]]:
    """A sheet for small plots with names at the left: left edge, bottom, height, whether names stand there."""
    columns = min(COLUMNS, max(plots, 1))
    rows = -(-max(plots, 1) // columns)
    left, high = room(names), 0.22 * max(len(names), 2)
    step = high + 0.75
    made = sheet(title, max(left + columns * WIDE + 0.1, 6.0), rows * step + 0.35)
    return made, [
        (left + (i % columns) * WIDE, 0.65 + (rows - 1 - i // columns) * step, high, i % columns == 0)
        for i in range(plots)
    ]


def _small(
    made: Sheet, place: tuple[float, float, float, bool], names: list[str], metric: Metric, limits: tuple[float, float]
) -> Axes:
    left, bottom, high, named = place
    axes = made.axes(left, bottom, WIDE - 0.25, high)
    axes.set(xlim=limits, ylim=(len(names) - 0.5, -0.5))
    axes.set_title(f"{shortened(metric.name, 24)} {metric.arrow}", loc="left", fontsize=9)
    labels = [shortened(name) if named else "" for name in names]
    axes.set_yticks(range(len(names)), labels, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=7)
    return axes


def _disagreement(figure: Disagreement) -> Sheet:
    heads: list[tuple[str, Style | None]] = [("image", None), *figure.methods]
    step, pitch = SIDE + GAP + ABOVE, SIDE + GAP
    names = room([title for title, _, _ in figure.rows], 1.6)
    wide, tall = pitch * len(heads), step * len(figure.rows)
    made = sheet(figure.title, max(names + wide + 0.1, 5.0), tall + 0.45)
    paper = made.paper(names, 0.1, wide, tall + 0.3)
    for column, (name, _) in enumerate(heads):
        paper.text(column * pitch + SIDE / 2, 0.22, shortened(name, 15), ha="center", fontsize=7)
    grid = [
        [as_colours(image), *(None if j.pixels is None else map_colours(j.pixels) for j in judged)]
        for _, image, judged in figure.rows
    ]
    mosaic(paper, grid, 0.3 + ABOVE, step)
    for row, (title, _, judged) in enumerate(figure.rows):
        y = 0.3 + row * step + ABOVE
        paper.text(-0.08, y + SIDE / 2, shortened(title, 20), ha="right", va="center", fontsize=8)
        for column, j in enumerate(judged, 1):
            paper.text(
                column * pitch + SIDE / 2,
                y - 0.03,
                score(j.value),
                ha="center",
                va="bottom",
                fontsize=7.5,
                fontweight="bold" if j.best else "normal",
            )
    return made
