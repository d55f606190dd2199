"""Figure data drawn with Matplotlib: SVG and PNG files for papers and slides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from uproar.report.audit_draw import draw_audit
from uproar.report.audit_figures import AuditFigure
from uproar.report.costs import Costs, Ties
from uproar.report.draw_multiples import draw_multiples
from uproar.report.draw_pictures import draw_gallery, draw_panel
from uproar.report.figures import Curves, Forest, ForestRow, Pair, Retraining, Series
from uproar.report.formatting import number, percent, points, shortened
from uproar.report.pictures import Gallery, Panel
from uproar.report.print_layout import (
    DASHES,
    INK,
    LINE,
    MUTED,
    SETTINGS,
    Sheet,
    in_percent,
    legend_name,
    look,
    numbers,
    room,
    sheet,
)
from uproar.report.small_multiples import Multiples
from uproar.report.style import REFERENCE, Style

Drawable = Curves | Retraining | Forest | Costs | Ties | Panel | Gallery | AuditFigure | Multiples


def drawn(figure: Drawable, kinds: Sequence[str] = ("svg", "png")) -> dict[str, bytes]:
    """The figure as files: `<name>.svg` and `<name>.png`, or of other kinds (pdf)."""
    drawers: dict[type, Callable[..., Sheet]] = {
        Curves: _curves,
        Retraining: _retraining,
        Forest: _forest,
        Costs: _costs,
        Ties: _ties,
        Panel: draw_panel,
        Gallery: draw_gallery,
        AuditFigure: draw_audit,
        Multiples: draw_multiples,
    }
    with mpl.rc_context(cast(Any, SETTINGS)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in another script
        made = drawers[type(figure)](figure)
        return {f"{figure.name}.{kind}": made.file(kind) for kind in kinds}


def _curves(figure: Curves) -> Sheet:
    names = room([s.label for s in figure.series]) + 0.5
    body = max(3.6, 0.6 + 0.2 * len(figure.series))
    made = sheet(figure.title, 5.4 + names, body)
    axes = made.axes(0.75, 0.5, 4.6, body - 0.6)
    for series in figure.series:
        _line(axes, series, series.style, figure.y_range)
    if figure.chance is not None:
        axes.axhline(figure.chance, color=MUTED, linewidth=0.9, linestyle=":")
        axes.annotate(
            figure.chance_label,
            (1, figure.chance),
            xycoords=("axes fraction", "data"),
            va="bottom",
            ha="right",
            fontsize=7.5,
            color=MUTED,
        )
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label)
    in_percent(axes, figure.y_range, figure.plain)
    if figure.x_range is not None:
        axes.set_xlim(*figure.x_range)
    handles = [Line2D([], [], **look(s.style), label=legend_name(s.label)) for s in figure.series]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, handlelength=3)
    return made


def _line(axes: Axes, series: Series, style: Style, within: tuple[float, float], **options: Any) -> None:
    """A line with its band; the reference is the heaviest and lies on top."""
    low, high = (np.clip(numbers(side), *within) for side in (series.low, series.high))
    axes.fill_between(series.x, low, high, color=style.light, alpha=0.1, linewidth=0, **options)
    strong = series.is_reference
    axes.plot(
        series.x,
        numbers(series.mean),
        **look(style),
        linewidth=2.2 if strong else 1.6,
        zorder=5 if strong else 3,
        markevery=max(len(series.x) // 12, 1),
        **options,
    )


def _retraining(figure: Retraining) -> Sheet:
    columns = min(5, max(len(figure.pairs), 2))
    rows = -(-max(len(figure.pairs), 1) // columns)
    wide, high = 1.62, 1.55
    body = rows * high + 0.75
    made = sheet(figure.title, 0.75 + columns * wide, body)
    paper = made.paper(0.0, 0.0, made.width, body)
    for place, pair in enumerate(figure.pairs):
        row, column = divmod(place, columns)
        corner = (0.7 + column * wide, (row + 1) * high - 0.05)
        edges = (column == 0, place + columns >= len(figure.pairs))
        _window(paper, figure, pair, corner, (wide - 0.2, high - 0.4), edges)
    made.text(0.7 + columns * wide / 2, 0.38, figure.x_label, ha="center", fontsize=9)
    made.text(0.12, 0.7 + rows * high / 2, figure.y_label, rotation=90, va="center", fontsize=9)
    handles = [Line2D([], [], **look(style), label=words) for words, style in _two(REFERENCE).items()]
    made.figure.legend(handles=handles, loc="lower center", ncols=2, fontsize=8)
    return made


def _window(
    paper: Axes,
    figure: Retraining,
    pair: Pair,
    corner: tuple[float, float],
    size: tuple[float, float],
    edges: tuple[bool, bool],
) -> None:
    """One of many small plots on one sheet: a scale of its own, numbers only at the sheet's edges."""
    (left, bottom), (low, high) = corner, figure.y_range
    inches = Affine2D().translate(0, -low).scale(size[0], -size[1] / (high - low)).translate(left, bottom)
    scaled = inches + paper.transData
    small: dict[str, Any] = {"fontsize": 7, "color": MUTED, "transform": scaled}
    for y in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high):
        if low <= y <= high:
            paper.plot([0, 1], [y, y], color=LINE, linewidth=0.7, transform=scaled, zorder=1)
            if edges[0]:
                paper.text(-0.05, y, percent(y, 0), ha="right", va="center", **small)
    paper.plot([0, 0, 1], [high, low, low], color=MUTED, linewidth=0.8, transform=scaled, zorder=2)
    if edges[1]:
        for x in (0.0, 0.4, 0.8):
            paper.text(x, low - 0.05 * (high - low), percent(x, 0), ha="center", va="top", **small)
    both = zip((pair.retrained, pair.asked), _two(pair.style).values(), strict=True)
    for series, style in both:
        _line(paper, series, style, figure.y_range, transform=scaled)
    title = paper.text(0.5, high, shortened(pair.label, 20), ha="center", va="bottom", fontsize=8.5)
    title.set_transform(scaled)


def _two(style: Style) -> dict[str, Style]:
    """One colour in two looks: what is told apart here is the network, not the estimator."""
    return {
        "retrained network": Style(style.light, style.dark, "solid", "circle"),
        "original network": Style(style.light, style.dark, "dot", "circle-open"),
    }


def _forest(figure: Forest) -> Sheet:
    names = room([row.label for row in figure.rows])
    body = 0.7 + 0.27 * max(len(figure.rows), 2)
    made = sheet(figure.title, names + 6.1, body)
    axes = made.axes(names, 0.55, 4.6, body - 0.6)
    limit = 100 * figure.limit
    axes.grid(False)
    axes.axvspan(0, limit, color=REFERENCE.light, alpha=0.04, linewidth=0)
    axes.axvline(0, color=REFERENCE.light, linestyle=DASHES["dash"], linewidth=1.4)
    for place, row in enumerate(figure.rows):
        _forest_row(axes, place, row)
    axes.set(xlim=(-limit, limit), ylim=(len(figure.rows) - 0.4, -0.6))
    axes.set_yticks(range(len(figure.rows)), [shortened(row.label) for row in figure.rows], color=INK)
    axes.set_xlabel("← worse than random    advantage in accuracy points    better than random →")
    axes.tick_params(axis="y", length=0)
    return made


def _forest_row(axes: Axes, place: int, row: ForestRow) -> None:
    """An interval with its point: filled where the verdict is decided, hollow where it is not."""
    colour = row.style.light
    if row.low is not None and row.high is not None:
        axes.plot([100 * row.low, 100 * row.high], [place, place], color=colour, linewidth=1.8)
    if row.advantage is not None:
        inside = "white" if row.kind == "unclear" else colour
        axes.plot(
            100 * row.advantage,
            place,
            marker="o",
            markersize=6.5,
            color=colour,
            markerfacecolor=inside,
            markeredgewidth=1.6,
        )
    words = {"better": "better", "worse": "worse", "unclear": "cannot tell"}[row.kind]
    axes.annotate(
        f"{points(row.advantage)}  {words}",
        (1.02, place),
        fontsize=8,
        va="center",
        xycoords=("axes fraction", "data"),
        annotation_clip=False,
    )


def _costs(figure: Costs) -> Sheet:
    names = room([row.label for row in figure.rows])
    body = 0.6 + 0.25 * max(len(figure.rows), 2)
    made = sheet(figure.title, names + 5.6, body)
    columns = (("milliseconds", "milliseconds per image"), ("passes", "passes per image"))
    for place, (field, label) in enumerate(columns):
        axes = made.axes(names + 2.75 * place, 0.5, 2.6, body - 0.55)
        values = [getattr(row, field) for row in figure.rows]
        axes.barh(
            range(len(values)), [v or 0 for v in values], height=0.62, color=[row.style.light for row in figure.rows]
        )
        for i, value in enumerate(values):
            axes.annotate(f" {number(value)}", (value or 0, i), va="center", fontsize=8)
        axes.set(xlabel=label, ylim=(len(values) - 0.4, -0.6))
        axes.grid(False)
        axes.margins(x=0.18)
        labels = [] if place else [shortened(row.label) for row in figure.rows]
        axes.set_yticks(range(len(labels)), labels, color=INK)
        axes.tick_params(axis="y", length=0)
    return made


def _ties(figure: Ties) -> Sheet:
    names = room([name for name, _, _ in figure.rows])
    body = 0.6 + 0.27 * max(len(figure.rows), 2)
    wide = max(0.75 * len(figure.fractions), 2.5)
    made = sheet(figure.title, names + wide + 0.15, body)
    axes = made.axes(names, 0.5, wide, body - 0.55)
    shares = np.array([numbers(shares) for _, _, shares in figure.rows])
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", alpha=0.7)
    for (i, j), share in np.ndenumerate(shares):
        axes.text(j, i, percent(share), ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(figure.rows)), [shortened(name) for name, _, _ in figure.rows], color=INK)
    axes.set_xticks(range(len(figure.fractions)), [percent(t, 0) for t in figure.fractions])
    axes.set_xlabel("share of pixels above the cut")
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return made
