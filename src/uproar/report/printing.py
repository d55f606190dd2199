"""Figures drawn with Matplotlib: files for papers and slides, and what the page shows without scripts."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from uproar.report.canvas import (
    DASHES,
    INK,
    MUTED,
    PAPER,
    SETTINGS,
    Canvas,
    array_of,
    canvas,
    in_percent,
    label_width,
    legend_entry,
    line_style,
)
from uproar.report.figures import Chart, Figure, Forest, ForestRow, HeatMap, Pictures, Series
from uproar.report.formatting import shortened
from uproar.report.printing_pictures import draw_pictures
from uproar.report.style import REFERENCE

SCALES: dict[str, str | Colormap] = {
    "sequential": "Blues",
    "diverging": "RdBu_r",
    "reversed": "RdBu",
    "changes": LinearSegmentedColormap.from_list("changes", ["#d1008f", "#ffffff", "#00a5b8"]),
}
"""Colours of heat maps; those of changes are the ones of Song et al., Figure 4: magenta below zero, cyan above."""
LEFT, BELOW, ABOVE = 0.62, 0.5, 0.28
"""Space for the words around a small chart, in inches."""
CELL, ROW = 0.62, 0.3
"""Width and height of a cell of a heat map."""
FOREST_WIDE, FOREST_COLUMNS = 2.1, 4
"""Width of a small forest, and how many stand side by side."""


@dataclass(frozen=True)
class Drawing:
    """A figure as files by name, and as a part of the page; the latter only where an SVG was asked for."""

    files: dict[str, bytes]
    inline: str = ""
    canvas: Canvas | None = None
    """What it was drawn on, where a PDF was asked for: a page of a document with all figures."""


def draw(figure: Figure, name: str = "", kinds: Sequence[str] = ("svg", "png")) -> Drawing:
    """The figure as files of some kinds (svg, png, pdf) under a name, its own if none is given."""
    drawers: dict[type, Callable[[Figure], Canvas]] = {
        Chart: _charts,
        Forest: _forests,
        HeatMap: _heat_maps,
        Pictures: draw_pictures,
    }
    name = name or figure.name
    with mpl.rc_context(cast(Any, SETTINGS)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in another script
        made = drawers[type(figure.plots[0])](figure)
        files = {f"{name}.{kind}": made.file(kind) for kind in kinds}
        svg = files.get(f"{name}.svg")
        inline = made.inline(svg, name, not figure.shared_legend) if svg else ""
        return Drawing(files, inline, made if "pdf" in kinds else None)


def pdf_pages(drawings: Iterable[Drawing]) -> bytes:
    """One PDF with a page per figure, its title on top."""
    content = io.BytesIO()
    with mpl.rc_context(cast(Any, SETTINGS)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        with PdfPages(content, metadata={"CreationDate": None}) as pages:
            for page in (drawing.canvas for drawing in drawings if drawing.canvas is not None):
                page.figure.texts[0].set_visible(True)
                pages.savefig(page.figure, bbox_inches="tight", pad_inches=0.3)
    return content.getvalue()


# charts


def _charts(figure: Figure) -> Canvas:
    if len(figure.plots) == 1 and figure.columns != 1:
        return _large_chart(figure, figure.charts[0])
    columns = min(figure.columns, len(figure.plots))
    dense = columns > 3  # too small for axes with names of their own
    wide, high = (4.4, 3.0) if columns == 1 else (1.75, 1.55) if dense else (2.65, 2.25)
    below = 0.3 if dense else BELOW
    rows = -(-len(figure.plots) // columns)
    entries = _legend_entries(figure.charts)
    across = max(1, int((columns * wide - 0.2) / (label_width(list(entries), 2.2) + 0.45)))
    foot = 0.12 + 0.2 * (-(-len(entries) // across) + dense)
    made = canvas(figure.title, columns * wide + 0.15, rows * high + foot)
    for place, chart in enumerate(figure.charts):
        row, column = divmod(place, columns)
        bottom = foot + (rows - 1 - row) * high + below
        axes = made.axes(column * wide + LEFT, bottom, wide - LEFT - 0.1, high - below - ABOVE - 0.05)
        _chart(axes, chart, small=True)
        title = wrap(chart.title, 18 if dense else 38)[:2]
        axes.set_title("\n".join(title), fontsize=8 if dense else 9, loc="left")
        axes.tick_params(labelsize=7 if dense else 7.5)
        if dense:
            axes.xaxis.set_major_locator(MaxNLocator(2))
        else:
            axes.set_xlabel(chart.x_label, fontsize=8)
            axes.set_ylabel(chart.y_label, fontsize=8)
    if dense:
        made.text(made.width / 2, foot - 0.12, figure.charts[0].x_label, ha="center", fontsize=9)
        made.text(0.08, foot + rows * high / 2, figure.charts[0].y_label, rotation=90, va="center", fontsize=9)
    handles = [legend_entry(label, style) for label, style in entries.items()]
    if handles:
        made.figure.legend(
            handles=handles, loc="lower center", ncols=across, fontsize=8, handlelength=2.6, borderaxespad=0.2
        )
    return made


def _large_chart(figure: Figure, chart: Chart) -> Canvas:
    entries = _legend_entries([chart])
    body = max(3.6, 0.6 + 0.2 * len(entries))
    names = label_width(list(entries)) + 0.5
    made = canvas(figure.title, 5.4 + names, body)
    made.legend_width = names
    foot = 1.1 if chart.kind == "bars" else 0.5  # slanted names need room
    axes = made.axes(0.8, foot, 4.55, body - foot - 0.1)
    _chart(axes, chart, small=False)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if entries:
        handles = [legend_entry(label, style) for label, style in entries.items()]
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, handlelength=3)
    return made


def _legend_entries(charts: Sequence[Chart]) -> dict[str, dict[str, Any]]:
    """What the legend names, once each, in the order of the plots."""
    entries: dict[str, dict[str, Any]] = {}
    for chart in charts:
        for series in chart.series:
            if series.label:
                entries.setdefault(series.label, line_style(series.style, chart.kind == "lines"))
    return entries


def _chart(axes: Axes, chart: Chart, small: bool) -> None:
    {"lines": _lines, "points": _points, "bars": _bars}[chart.kind](axes, chart, small)
    if chart.level is not None:
        axes.axhline(chart.level, color=MUTED, linewidth=0.9, linestyle=":")
        if not small:
            where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "bottom", "ha": "right"}
            axes.annotate(chart.level_label, (1, chart.level), **where, fontsize=7.5, color=MUTED)
    if chart.y_range is not None:
        axes.set_ylim(*chart.y_range)
    if chart.x_range is not None:
        axes.set_xlim(*chart.x_range)
    if small and chart.kind != "bars":
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_locator(MaxNLocator(5))
    for axis, share in zip((axes.xaxis, axes.yaxis), chart.percent, strict=True):
        if share:
            in_percent(axis)


def _lines(axes: Axes, chart: Chart, small: bool) -> None:
    for series in chart.series:
        _line(axes, series, chart.y_range or (-np.inf, np.inf), small)
        if chart.path and series.y[0] is not None:
            ring: dict[str, Any] = {"markersize": 9, "markerfacecolor": "none", "linestyle": "none"}
            axes.plot(series.x[0], series.y[0], marker="o", color=series.style.light, **ring)


def _line(axes: Axes, series: Series, within: tuple[float, float], small: bool) -> None:
    """A line with its band; the reference is the heaviest and lies on top."""
    low, high = (np.clip(array_of(side), *within) for side in (series.low, series.high))
    axes.fill_between(series.x, low, high, color=series.style.light, alpha=0.1, linewidth=0)
    axes.plot(
        series.x,
        array_of(series.y),
        **{**line_style(series.style), "markersize": 3.6 if small else 4.5},
        linewidth=(1.4 if small else 1.6) + 0.5 * series.reference,
        zorder=5 if series.reference else 3,
        markevery=max(len(series.x) // (8 if small else 12), 1),
    )


def _points(axes: Axes, chart: Chart, small: bool) -> None:
    for series in chart.series:
        if any(low is not None for low in series.low):
            axes.vlines(series.x, array_of(series.low), array_of(series.high), color=series.style.light, linewidth=0.9)
        axes.plot(series.x, array_of(series.y), **line_style(series.style, joined=False))
    if chart.fit is not None:
        axes.plot(*chart.fit, color=MUTED, linewidth=1.2, zorder=1)


def _bars(axes: Axes, chart: Chart, small: bool) -> None:
    names = list(dict.fromkeys(str(x) for series in chart.series for x in series.x))
    width = 0.8 / max(len(chart.series), 1)
    for place, series in enumerate(chart.series):
        at = [names.index(str(x)) - 0.4 + (place + 0.5) * width for x in series.x]
        y, low, high = (array_of(side) for side in (series.y, series.low, series.high))
        error = None if np.isnan(low).all() else np.nan_to_num(np.stack([y - low, high - y]))
        axes.bar(at, y, width * 0.9, color=series.style.light, yerr=error, error_kw={"linewidth": 1, "ecolor": INK})
    short = [shortened(name, 18) for name in names]
    axes.set_xticks(range(len(names)), short, rotation=35, ha="right", fontsize=8)


# forests


def _forests(figure: Figure) -> Canvas:
    names = list(dict.fromkeys(row.label for forest in figure.forests for row in forest.rows))
    if len(figure.plots) == 1:
        return _large_forest(figure, figure.forests[0], names)
    columns = min(FOREST_COLUMNS, len(figure.plots))
    rows = -(-len(figure.plots) // columns)
    left, high = label_width(names), 0.22 * max(len(names), 2)
    step, width = high + 0.75, max(left + columns * FOREST_WIDE + 0.1, 6.0)
    reading = wrap(figure.reading, int(14 * width))
    foot = 0.5 + 0.15 * len(reading)
    made = canvas(figure.title, width, rows * step + foot - 0.3)
    for place, forest in enumerate(figure.forests):
        row, column = divmod(place, columns)
        bottom = foot + (rows - 1 - row) * step
        axes = made.axes(left + column * FOREST_WIDE, bottom, FOREST_WIDE - 0.25, high)
        _forest(axes, forest, names, named=column == 0)
        axes.set_title(forest.title, loc="left", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.grid(True, axis="x")
        axes.tick_params(axis="x", labelsize=7)
    made.text(0.1, 0.1, "\n".join(reading), fontsize=8, va="bottom")
    return made


def _large_forest(figure: Figure, forest: Forest, names: list[str]) -> Canvas:
    left = label_width(names)
    body = 0.7 + 0.27 * max(len(forest.rows), 2)
    made = canvas(figure.title, left + 6.1, body)
    axes = made.axes(left, 0.55, 4.6, body - 0.6)
    _forest(axes, forest, names, named=True)
    axes.set_xlabel(forest.x_label)
    return made


def _forest(axes: Axes, forest: Forest, names: list[str], named: bool) -> None:
    axes.grid(False)
    if forest.zero:
        axes.axvspan(0, forest.limits[1], color=REFERENCE.light, alpha=0.04, linewidth=0)
        axes.axvline(0, color=REFERENCE.light, linestyle=DASHES["dash"], linewidth=1.4)
    for row in forest.rows:
        if row.value is not None:
            draw_row = {"intervals": _interval, "bars": _bar, "boxes": _box}[forest.kind]
            draw_row(axes, names.index(row.label), row.value, row)
        if forest.kind != "boxes":
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
            axes.annotate(row.words, (1.02, names.index(row.label)), fontsize=8, va="center", **place)
    axes.set(xlim=forest.limits, ylim=(len(names) - 0.45, -0.55))
    axes.set_yticks(range(len(names)), [shortened(name) if named else "" for name in names], color=INK)
    axes.tick_params(axis="y", length=0)


def _interval(axes: Axes, at: int, value: float, row: ForestRow) -> None:
    """An interval with its point: filled where the verdict is decided, hollow where it is not."""
    colour = row.style.light
    if row.low is not None and row.high is not None:
        axes.plot([row.low, row.high], [at, at], color=colour, linewidth=1.8)
    marker: dict[str, Any] = {"marker": "x" if row.mark == "cross" else "o", "markersize": 6, "markeredgewidth": 1.6}
    axes.plot(value, at, color=colour, markerfacecolor=colour if row.mark == "filled" else PAPER, **marker)


def _bar(axes: Axes, at: int, value: float, row: ForestRow) -> None:
    axes.barh(at, value, height=0.58, color=row.style.light)


def _box(axes: Axes, at: int, value: float, row: ForestRow) -> None:
    """Whiskers, box and median from the quantiles; the mean as a dot."""
    colour, pale = row.style.light, mpl.colors.to_rgba(row.style.light, 0.2)
    low, first, middle, third, high = row.quantiles or (value,) * 5
    axes.plot([low, high], [at, at], color=colour, linewidth=1)
    axes.barh(at, third - first, left=first, height=0.6, color=pale, edgecolor=colour)
    axes.plot([middle, middle], [at - 0.3, at + 0.3], color=colour, linewidth=2)
    axes.plot(value, at, marker="o", markersize=3.5, color=INK)


# heat maps


def _heat_maps(figure: Figure) -> Canvas:
    """Coloured numbers side by side, all on one scale of colours; the names of equal rows stand once."""
    maps = [plot for plot in figure.plots if isinstance(plot, HeatMap)]
    names = label_width(list(dict.fromkeys(name for one in maps for name in one.rows)))
    same = all(one.rows == maps[0].rows for one in maps)
    slanted = len(maps) == 1
    head = 0.1 if slanted else 0.13 * max(len(wrap(c, 11)) for one in maps for c in one.columns) + 0.35
    foot = 1.15 if slanted else 0.1
    lefts, width = [], 0.1
    for place, one in enumerate(maps):
        width += names if place == 0 or not same else 0.15
        lefts.append(width)
        width += max(CELL * len(one.columns), 1.5) + 0.1
    tall = ROW * max(len(one.rows) for one in maps)
    made = canvas(figure.title, max(width, 5.0), tall + head + foot)
    ends = [end for one in maps for end in one.limits]
    for place, (one, left) in enumerate(zip(maps, lefts, strict=True)):
        high = ROW * len(one.rows)
        axes = made.axes(left, foot + tall - high, max(CELL * len(one.columns), 1.5), high)
        _heat_map(axes, one, (min(ends), max(ends)), named=place == 0 or not same, slanted=slanted)
        made.text(left, foot + tall + head - 0.18, one.title, fontsize=9, fontweight="bold")
    return made


def _heat_map(axes: Axes, plot: HeatMap, limits: tuple[float, float], named: bool, slanted: bool) -> None:
    values = np.array([array_of(row) for row in plot.values])
    axes.imshow(
        np.ma.masked_invalid(values), cmap=SCALES[plot.scale], vmin=limits[0], vmax=limits[1], aspect="auto", alpha=0.85
    )
    axes.grid(False)
    for (i, j), value in np.ndenumerate(values):
        strong, known = abs(value) > 0.6 * limits[1], np.isfinite(value)
        colour = "white" if strong else "black" if known else INK  # what has no colour stands on the page itself
        axes.text(j, i, plot.words[i][j], ha="center", va="center", fontsize=7.5, color=colour)
    if slanted:
        short = [shortened(name, 18) for name in plot.columns]
        axes.set_xticks(range(len(short)), short, rotation=35, ha="right", fontsize=8, color=INK)
    else:
        axes.xaxis.tick_top()
        heads = ["\n".join(wrap(column, 11)) for column in plot.columns]
        axes.set_xticks(range(len(heads)), heads, fontsize=7.5, color=INK)
    axes.set_xlabel(plot.x_label)
    labels = [shortened(row) if named else "" for row in plot.rows]
    axes.set_yticks(range(len(labels)), labels, fontsize=8, color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(len(plot.columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", axis="both", color=PAPER, linewidth=1.5)
    axes.tick_params(which="minor", length=0)
