"""Several small plots on one sheet, drawn with Matplotlib."""

from __future__ import annotations

from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from uproar.report.figures import Series
from uproar.report.formatting import shortened
from uproar.report.print_layout import INK, MUTED, Sheet, legend_name, look, numbers, room, sheet
from uproar.report.small_multiples import Cells, Cloud, Multiples, Window

WIDE, HIGH = 2.65, 2.25
"""Of a small plot with its words, in inches."""
ALONE = (4.4, 3.0)
"""Of a plot that has no other beside it."""
LEFT, BELOW, ABOVE = 0.62, 0.5, 0.28
"""Room for the words around a small plot."""
CELL, ROW = 0.62, 0.27
"""Width and height of a coloured number."""
HEAD = 11
"""Letters in a line above a column."""


def draw_multiples(figure: Multiples) -> Sheet:
    """The small plots row by row, one legend below them all."""
    if isinstance(figure.windows[0], Cells):
        return _tables(figure.title, [w for w in figure.windows if isinstance(w, Cells)])
    columns = min(figure.columns, len(figure.windows))
    wide, high = (WIDE, HIGH) if columns > 1 else ALONE
    rows = -(-len(figure.windows) // columns)
    entries = _entries(figure)
    across = max(1, int((columns * wide - 0.2) / (room(list(entries), 2.2) + 0.45)))
    foot = 0.12 + 0.2 * -(-len(entries) // across)
    made = sheet(figure.title, columns * wide + 0.15, rows * high + foot)
    for place, window in enumerate(figure.windows):
        row, column = divmod(place, columns)
        bottom = foot + (rows - 1 - row) * high + BELOW
        axes = made.axes(column * wide + LEFT, bottom, wide - LEFT - 0.1, high - BELOW - ABOVE - 0.05)
        if isinstance(window, Cloud):
            _cloud(axes, window)
        elif isinstance(window, Window):
            _window(axes, window)
        axes.set_title("\n".join(wrap(window.title, 38)[:2]), fontsize=9, loc="left")
        axes.tick_params(labelsize=7.5)
        axes.xaxis.label.set_fontsize(8)
        axes.yaxis.label.set_fontsize(8)
    handles = [Line2D([], [], **style, label=legend_name(label)) for label, style in entries.items()]
    if handles:
        made.figure.legend(
            handles=handles, loc="lower center", ncols=across, fontsize=8, handlelength=2.6, borderaxespad=0.2
        )
    return made


def _entries(figure: Multiples) -> dict[str, dict]:
    """What the legend names, once each, in the order of the plots."""
    found: dict[str, dict] = {}
    for window in figure.windows:
        if isinstance(window, Window):
            found |= {s.label: look(s.style) for s in window.series if s.label not in found}
        elif isinstance(window, Cloud):
            dots = {d.label: {**look(d.style), "linestyle": "none"} for d in window.dots}
            found |= {label: style for label, style in dots.items() if label not in found}
    return found


def _window(axes: Axes, window: Window) -> None:
    for series in window.series:
        _line(axes, series, window.y_range)
        if window.path and series.mean[0] is not None:
            axes.plot(
                series.x[0],
                series.mean[0],
                marker="o",
                markersize=9,
                markerfacecolor="none",
                color=series.style.light,
                linestyle="none",
            )
    if window.level is not None:
        axes.axhline(window.level, color=MUTED, linewidth=0.9, linestyle=":")
    axes.set(xlabel=window.x_label, ylabel=window.y_label, ylim=window.y_range)
    if window.x_range is not None:
        axes.set_xlim(*window.x_range)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    for axis, share in zip((axes.xaxis, axes.yaxis), window.percent, strict=True):
        if share:
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol="\u00a0%"))


def _line(axes: Axes, series: Series, within: tuple[float, float]) -> None:
    low, high = (np.clip(numbers(side), *within) for side in (series.low, series.high))
    axes.fill_between(series.x, low, high, color=series.style.light, alpha=0.12, linewidth=0)
    strong = series.is_reference
    axes.plot(
        series.x,
        numbers(series.mean),
        **{**look(series.style), "markersize": 3.6},
        linewidth=1.9 if strong else 1.4,
        zorder=5 if strong else 3,
        markevery=max(len(series.x) // 8, 1),
    )


def _cloud(axes: Axes, cloud: Cloud) -> None:
    for dot in cloud.dots:
        if dot.low is not None and dot.high is not None:
            axes.plot([dot.x, dot.x], [dot.low, dot.high], color=dot.style.light, linewidth=0.9)
        axes.plot(dot.x, dot.y, **{**look(dot.style), "linestyle": "none", "markersize": 5})
    if cloud.fit is not None:
        axes.plot(*cloud.fit, color=MUTED, linewidth=1.1, zorder=1)
    axes.set(xlabel=cloud.x_label, ylabel=cloud.y_label)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol="\u00a0%"))
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _tables(title: str, tables: list[Cells]) -> Sheet:
    """Coloured tables side by side, all on one scale of colours; the names of equal rows stand once."""
    names = room(list(dict.fromkeys(name for t in tables for name in t.rows)))
    same = all(t.rows == tables[0].rows for t in tables)
    head = 0.13 * max(len(wrap(c, HEAD)) for t in tables for c in t.columns) + 0.35
    lefts, width = [], 0.1
    for place, one in enumerate(tables):
        width += names if place == 0 or not same else 0.15
        lefts.append(width)
        width += CELL * len(one.columns) + 0.1
    tall = ROW * max(len(t.rows) for t in tables)
    made = sheet(title, max(width, 5.0), tall + head + 0.1)
    values = [v for t in tables for row in t.values for v in row if v is not None]
    top = max([abs(v) for v in values], default=1.0) or 1.0
    for place, (one, left) in enumerate(zip(tables, lefts, strict=True)):
        high = ROW * len(one.rows)
        axes = made.axes(left, 0.1 + tall - high, CELL * len(one.columns), high)
        _cells(axes, one, top, named=place == 0 or not same)
        made.text(left, 0.1 + tall + head - 0.18, one.title, fontsize=9, fontweight="bold")
    return made


def _cells(axes: Axes, table: Cells, top: float, named: bool) -> None:
    shown = np.array([numbers(row) for row in table.values], dtype=float)
    colours = "RdBu_r" if table.good == "low" else "RdBu"
    axes.imshow(np.ma.masked_invalid(shown), cmap=colours, vmin=-1.35 * top, vmax=1.35 * top, aspect="auto")
    axes.grid(False)
    for (i, j), value in np.ndenumerate(shown):
        light = np.isfinite(value) and abs(value) > 0.85 * top
        axes.text(j, i, table.words[i][j], ha="center", va="center", fontsize=7.8, color="white" if light else INK)
    heads = ["\n".join(wrap(c, HEAD)) for c in table.columns]
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(heads)), heads, fontsize=7.5, color=INK)
    labels = [shortened(row) for row in table.rows] if named else [""] * len(table.rows)
    axes.set_yticks(range(len(labels)), labels, fontsize=8.2, color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(len(heads) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", axis="both", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
