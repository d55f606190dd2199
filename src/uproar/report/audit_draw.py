"""An audit's plots drawn with Matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from uproar.report.audit_figures import AuditFigure, Line
from uproar.report.formatting import shortened
from uproar.report.print_layout import MUTED, Sheet, legend_name, look, numbers, room, sheet

SCALES: dict[str, str | Colormap] = {
    "sequential": "Blues",
    "diverging": "RdBu_r",
    "changes": LinearSegmentedColormap.from_list("changes", ["#d1008f", "#ffffff", "#00a5b8"]),
}
"""Colours of heat maps; those of changes are the ones of Song et al., Figure 4: magenta below zero, cyan above."""


def draw_audit(figure: AuditFigure) -> Sheet:
    """The plot on a sheet of its own."""
    if figure.plot.kind == "heatmap":
        return _heatmap(figure)
    named = [line for line in figure.lines if line.label]
    body = max(3.6, 0.6 + 0.2 * len(named))
    made = sheet(figure.title, 5.4 + (room([line.label for line in named]) + 0.5), body)
    foot = 1.1 if figure.plot.kind == "bars" else 0.5  # slanted names need room
    axes = made.axes(0.85, foot, 4.5, body - foot - 0.1)
    drawers = {"lines": _lines, "scatter": _points, "bars": _bars}
    drawers[figure.plot.kind](axes, figure)
    plot = figure.plot
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label)
    if plot.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol="\u00a0%"))
    if plot.reference is not None:
        axes.axhline(plot.reference, color=MUTED, linewidth=0.9, linestyle=":")
        axes.annotate(
            plot.reference_label,
            (1, plot.reference),
            xycoords=("axes fraction", "data"),
            va="bottom",
            ha="right",
            fontsize=7.5,
            color=MUTED,
        )
    if named:
        handles = [Line2D([], [], **_look(line, plot.kind), label=legend_name(line.label)) for line in named]
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return made


def _look(line: Line, kind: str) -> dict[str, Any]:
    found = look(line.style)
    return found if kind == "lines" else {**found, "linestyle": "none"}


def _lines(axes: Axes, figure: AuditFigure) -> None:
    for line in figure.lines:
        low, high = numbers(line.low), numbers(line.high)
        axes.fill_between(line.x, low, high, color=line.style.light, alpha=0.1, linewidth=0)
        axes.plot(line.x, numbers(line.y), **look(line.style), linewidth=1.6, markevery=max(len(line.x) // 12, 1))


def _points(axes: Axes, figure: AuditFigure) -> None:
    for line in figure.lines:
        axes.plot(line.x, numbers(line.y), **_look(line, "scatter"))
    if figure.fit is not None:
        axes.plot(*figure.fit, color=MUTED, linewidth=1.2)


def _bars(axes: Axes, figure: AuditFigure) -> None:
    names = list(dict.fromkeys(str(x) for line in figure.lines for x in line.x))
    width = 0.8 / max(len(figure.lines), 1)
    for place, line in enumerate(figure.lines):
        at = [names.index(str(x)) - 0.4 + (place + 0.5) * width for x in line.x]
        y, low, high = numbers(line.y), numbers(line.low), numbers(line.high)
        error = None if np.isnan(low).all() else np.nan_to_num(np.stack([y - low, high - y]))
        axes.bar(at, y, width * 0.9, color=line.style.light, yerr=error, error_kw={"linewidth": 1})
    short = [shortened(name, 18) for name in names]
    axes.set_xticks(range(len(names)), short, rotation=35, ha="right", fontsize=8)


def _heatmap(figure: AuditFigure) -> Sheet:
    names = room(list(figure.rows))
    wide, high = max(0.55 * len(figure.columns), 1.5), max(0.32 * len(figure.rows), 1.0)
    made = sheet(figure.title, max(names + wide + 0.3, 4.5), high + 1.5)
    axes = made.axes(names, 1.35, wide, high)
    values = np.array([numbers(row) for row in figure.values])
    top = figure.largest
    parted = figure.scale != "sequential"
    lowest = -top if parted else min(0.0, float(np.nanmin(values, initial=0.0)))
    axes.imshow(values, cmap=SCALES[figure.scale], aspect="auto", vmin=lowest, vmax=top)
    axes.grid(False)
    short = [shortened(name, 18) for name in figure.columns]
    axes.set_xticks(range(len(figure.columns)), short, rotation=35, ha="right", fontsize=8)
    axes.set_yticks(range(len(figure.rows)), [shortened(row) for row in figure.rows], fontsize=8)
    for i, row in enumerate(figure.values):
        for j, value in enumerate(row):
            if value is not None:
                sign = "+" if figure.plot.changes else ""
                words = f"{100 * value:{sign}.1f}" if figure.plot.percent else f"{value:{sign}.2f}"
                light = abs(value) > 0.6 * top
                axes.text(j, i, words, ha="center", va="center", fontsize=7.5, color="white" if light else "black")
    return made
