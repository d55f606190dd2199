"""Every figure drawn once with Matplotlib: SVG for the page, PDF for papers, PNG for sheets of maps.

What the page's script needs is written into the SVG: `data-series` on whatever belongs to one name, `data-legend` on
its entry of the legend, and a `<title>` on every point whose value can be read.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure as Sheet
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from uproar.report.figures import ON_DARK, REFERENCE, Chart, Figure, Forest, ForestRow, HeatMap, Pictures, Series, Style
from uproar.report.formatting import clean, known, percent, score, shortened

INK, MUTED, LINE, PAPER = "#16191d", "#5b6470", "#dfe3e8", "#fefefe"
DARK = {**ON_DARK, INK: "#f4f6f8", MUTED: "#b5bec9", LINE: "#2b323a", PAPER: "#171b20"}
"""What a colour of a figure becomes on a dark page."""
SCALES: dict[str, str | Colormap] = {
    "sequential": "Blues",
    "diverging": "RdBu_r",
    "reversed": "RdBu",
    "changes": LinearSegmentedColormap.from_list("changes", ["#d1008f", "#ffffff", "#00a5b8"]),
}
"""Colours of heat maps; those of changes are the ones of Song et al., Figure 4: magenta below zero, cyan above."""
SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "uproar",
    "pdf.fonttype": 42,
}
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
CELL, ROW = 0.62, 0.3
"""Width and height of a cell of a heat map, in inches."""
SIDE, GAP = 0.8, 0.08
"""A tile of pictures and the space beside it, in inches."""
FINEST, LARGEST = 96, 112
"""Pixels along a tile: at least so many, by enlarging small images; at most so many, by shrinking large ones."""


def draw(figure: Figure, kind: str = "svg", title: str = "") -> bytes:
    """The figure as an SVG, PDF or PNG file, the same bytes every time; `title` stands above it."""
    drawers = {Chart: _charts, Forest: _forests, HeatMap: _heat_maps, Pictures: _pictures}
    with _settings():
        sheet = drawers[type(figure.plots[0])](figure)
        if title:
            width = sheet.get_size_inches()[0]
            sheet.suptitle("\n".join(wrap(title, max(20, int(12 * width)))), fontsize=10, x=0.01, ha="left")
        content = io.BytesIO()
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        sheet.savefig(content, format=kind, dpi=150, facecolor=PAPER, metadata=dates)
    return _marked(content.getvalue()) if kind == "svg" else content.getvalue()


@contextmanager
def _settings() -> Iterator[None]:
    """How all figures look; names in a script that the font lacks are no reason to warn."""
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _sheet(width: float, height: float) -> Sheet:
    return Sheet(figsize=(width, height), layout="constrained")


# what the page's script needs


def _mark(**marks: Any) -> str:
    """Marks of an artist, which become the id of its group in the SVG."""
    return json.dumps(marks)


def _marked(svg: bytes) -> bytes:
    """The SVG with marks as attributes, and without ids that nothing refers to, metadata and style."""
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
        name = parent.attrib.pop("id", "")
        if name.startswith("{"):
            marks = json.loads(name)
            tips = iter(marks.pop("tips", ()))
            parent.attrib |= {f"data-{key}": value for key, value in marks.items()}
            for point, tip in zip(parent.iter(f"{{{SVG}}}use"), tips, strict=False):
                ET.SubElement(point, f"{{{SVG}}}title").text = tip
        elif re.fullmatch("[mp][0-9a-f]{10}|C.*|image[0-9a-f]+", name):
            parent.set("id", name)
        for key in ("d", "x", "y"):
            if key in parent.attrib:
                parent.set(key, re.sub(r"(\.\d\d)\d+", r"\1", parent.attrib[key]))
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return bytes(ET.tostring(root, encoding="utf-8"))


def inline(svg: bytes, key: str, label: str) -> Markup:
    """An SVG file as a part of the page: its ids begin with `key`, its colours follow the page."""
    text = svg.decode().partition("?>")[2].strip() if svg.startswith(b"<?xml") else svg.decode()
    head, _, rest = text.partition(">")
    width = float(re.search(r' width="([\d.]+)pt"', head)[1]) * 96 / 72  # type: ignore[index]
    head = re.sub(r' (width|height)="[\d.]+pt"', "", head)
    described = Markup(' class="drawn" role="img" aria-label="{}" style="--width:{}px"').format(
        clean(label), int(width)
    )
    rest = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{key}-", rest)
    coloured = re.sub("|".join(DARK), lambda colour: f"var(--on{colour[0][1:]},{colour[0]})", rest)
    return Markup(f"{head}{described}>{coloured}")


def dark_colours() -> str:
    """The style rule that turns figures of the page to a dark ground."""
    return "".join(f"--on{light[1:]}:{dark};" for light, dark in DARK.items())


# charts


def _charts(figure: Figure) -> Sheet:
    """One large chart with its legend at the right, or small ones with one legend below."""
    charts, single = figure.charts, len(figure.plots) == 1
    columns = min(figure.columns, len(charts))
    rows, wide, high = -(-len(charts) // columns), *((6.6, 3.4) if single else (2.9, 2.3))
    entries = {
        # a legend leaves out a name that begins with an underscore
        s.label: Line2D([], [], **_line_style(s.style, c.kind == "lines"), label=f"\u200a{shortened(s.label)}")
        for c in charts
        for s in c.series
        if s.label
    }
    across = max(1, int(columns * wide / (0.5 + 0.075 * max(map(len, map(shortened, entries)), default=0))))
    below = 0 if single else 0.1 + 0.17 * -(-len(entries) // across)
    sheet = _sheet(columns * wide, rows * high + below)
    places = sheet.subplots(rows, columns, squeeze=False).ravel()
    for axes, chart in zip(places, charts, strict=False):
        _chart(axes, chart, small=not single)
        axes.set_title("\n".join(wrap(chart.title, 38)[:2]), fontsize=9, loc="left")
        axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    for axes in places[len(charts) :]:
        axes.set_axis_off()
    if entries:
        layout: dict[str, Any] = {"loc": f"outside {'right' if single else 'lower'} center", "fontsize": 8}
        legend = sheet.legend(handles=[*entries.values()], ncols=1 if single else across, **layout)
        for label, handle, text in zip(entries, legend.legend_handles, legend.get_texts(), strict=True):
            text.set_gid(_mark(legend=clean(label)))
            if handle is not None:
                handle.set_gid(_mark(legend=clean(label)))
    return sheet


def _line_style(style: Style, joined: bool = True) -> dict[str, Any]:
    """A style in Matplotlib's words; points of a scatter plot are not joined."""
    return {
        "color": style.colour,
        "linestyle": style.dash if joined else "none",
        "marker": style.marker,
        "markersize": 4.5,
        "markerfacecolor": PAPER if style.hollow else style.colour,
    }


def _chart(axes: Axes, chart: Chart, small: bool) -> None:
    {"lines": _lines, "points": _points, "bars": _bars}[chart.kind](axes, chart)
    low, high = chart.y_range or (-np.inf, np.inf)
    if chart.level is not None and low <= chart.level <= high:
        axes.axhline(chart.level, color=MUTED, linewidth=0.9, linestyle=":")
        if not small:
            where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "bottom", "ha": "right"}
            axes.annotate(chart.level_label, (1, chart.level), **where, fontsize=7.5, color=MUTED)
    if chart.y_range is not None:
        axes.set_ylim(low, high)
    if chart.x_range is not None:
        axes.set_xlim(*chart.x_range)
    if chart.kind != "bars":
        axes.xaxis.set_major_locator(MaxNLocator(4 if small else 6))
    for axis, share in zip((axes.xaxis, axes.yaxis), chart.percent, strict=True):
        if share:
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol="\u00a0%"))
    if small:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(labelsize=7.5)


def _ends(series: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values of a series with the lower and upper ends of their intervals, NaN where there are none."""
    nothing = [np.nan] * len(series.y)
    y, low, high = (np.asarray(v if len(v) else nothing, dtype=float) for v in (series.y, series.low, series.high))
    return y, low, high


def _tips(series: Series, chart: Chart, shown: Sequence[int]) -> list[str]:
    """What is read at some points of a series."""
    across, upright = chart.percent
    ends, words = _ends(series), percent if upright else score
    tips = []
    for i in shown:
        x, (value, low, high) = series.x[i], (float(side[i]) for side in ends)
        where = series.names[i] if series.names else percent(x, 0) if across and isinstance(x, float) else str(x)
        interval = f" [{words(low)}, {words(high)}]" if known(low) and known(high) else ""
        tips.append(clean(f"{series.label} at {where}: {words(value)}{interval}"))
    return tips


def _lines(axes: Axes, chart: Chart) -> None:
    """Lines with bands; the reference is the heaviest and lies on top."""
    within = chart.y_range or (-np.inf, np.inf)
    for series in chart.series:
        y, low, high = _ends(series)
        style, mark, above = _line_style(series.style), _mark(series=clean(series.label)), 5 if series.reference else 3
        bands = {"color": series.style.colour, "alpha": 0.1, "linewidth": 0, "gid": mark}
        axes.fill_between(series.x, np.clip(low, *within), np.clip(high, *within), **bands)  # type: ignore[arg-type]
        width = 1.5 + 0.5 * series.reference
        axes.plot(series.x, y, **{**style, "marker": "none"}, linewidth=width, zorder=above, gid=mark)
        shown = [i for i in np.flatnonzero(np.isfinite(y)).tolist() if i % max(len(y) // 12, 1) == 0]
        points = _mark(series=clean(series.label), tips=_tips(series, chart, shown))
        x = [series.x[i] for i in shown]
        axes.plot(x, y[shown], **{**style, "linestyle": "none"}, zorder=above, gid=points)
        for i in shown if chart.named else ():
            at: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "fontsize": 6}
            axes.annotate(series.names[i], (series.x[i], y[i]), color=series.style.colour, **at)


def _points(axes: Axes, chart: Chart) -> None:
    for series in chart.series:
        mark, (y, low, high) = _mark(series=clean(series.label)), _ends(series)
        if np.isfinite(low).any():
            axes.vlines(series.x, low, high, color=series.style.colour, linewidth=0.9, gid=mark)
        shown = np.flatnonzero(np.isfinite(y)).tolist()
        points = _mark(series=clean(series.label), tips=_tips(series, chart, shown))
        axes.plot([series.x[i] for i in shown], y[shown], **_line_style(series.style, joined=False), gid=points)
    if chart.fit is not None:
        axes.plot(*chart.fit, color=MUTED, linewidth=1.2, zorder=1)


def _bars(axes: Axes, chart: Chart) -> None:
    names = list(dict.fromkeys(str(x) for series in chart.series for x in series.x))
    width = 0.8 / max(len(chart.series), 1)
    for index, series in enumerate(chart.series):
        at = [names.index(str(x)) - 0.4 + (index + 0.5) * width for x in series.x]
        y, low, high = _ends(series)
        error = None if np.isnan(low).all() else np.nan_to_num(np.stack([y - low, high - y]))
        bars = axes.bar(at, y, width * 0.9, color=series.style.colour, yerr=error, error_kw={"linewidth": 1})
        for bar in bars:
            bar.set_gid(_mark(series=clean(series.label)))
    axes.set_xticks(range(len(names)), [shortened(name, 18) for name in names], rotation=35, ha="right", fontsize=8)


# forests


def _forests(figure: Figure) -> Sheet:
    """Rows of values: one large forest, or small ones side by side with the names once in each row of them."""
    forests = [plot for plot in figure.plots if isinstance(plot, Forest)]
    names = list(dict.fromkeys(row.label for forest in forests for row in forest.rows))
    columns, single = min(4, len(forests)), len(forests) == 1
    lines = -(-len(forests) // columns)
    names_wide = 0.075 * max((len(shortened(name)) for name in names), default=0)
    body = (0.27 if single else 0.22) * max(len(names), 2)
    sheet = _sheet(names_wide + (5.0 if single else 2.0 * columns), lines * (body + (0.7 if single else 0.85)))
    places = sheet.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for axes, forest in zip(places, forests, strict=False):
        _forest(axes, forest, names)
        axes.set_title(forest.title, loc="left", fontsize=9)
        label = forest.x_label if single else "\n".join(wrap(forest.x_label, 26))
        axes.set_xlabel(label, fontsize=9 if single else 7.5)
        if not single:
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.grid(True, axis="x")
            axes.tick_params(axis="x", labelsize=7)
    for axes in places[len(forests) :]:
        axes.set_axis_off()
    return sheet


def _forest(axes: Axes, forest: Forest, names: list[str]) -> None:
    axes.grid(False)
    if forest.band is not None:
        axes.axvspan(*forest.band, color=MUTED, alpha=0.13, linewidth=2)
    if forest.zero:
        axes.axvline(0, color=REFERENCE.colour, linestyle="--", linewidth=1.2)
    for row in forest.rows:
        if known(row.value):
            _interval(axes, names.index(row.label), row)
    axes.set(xlim=forest.limits, ylim=(len(names) - 0.45, -0.55))
    axes.set_yticks(range(len(names)), [shortened(name) for name in names], color=INK)
    if forest.band is not None:
        colours = {row.label: row.style.colour for row in forest.rows}
        for text, name in zip(axes.get_yticklabels(), names, strict=False):
            text.set_color(colours.get(name, INK))
    axes.tick_params(axis="y", length=0)


def _interval(axes: Axes, at: int, row: ForestRow) -> None:
    """An interval with its point: filled where the difference is significant, hollow where it is not."""
    colour, text = row.style.colour, f"{row.label}: {score(row.value)}"
    if known(row.low) and known(row.high):
        axes.plot([row.low, row.high], [at, at], color=colour, linewidth=1.8)
        text += f" [{score(row.low)}, {score(row.high)}]"
    marker: dict[str, Any] = {"marker": "o", "markersize": 6, "markeredgewidth": 1.6, "linestyle": "none"}
    face = colour if row.filled else PAPER
    axes.plot(row.value, at, color=colour, markerfacecolor=face, **marker, gid=_mark(tips=[clean(text)]))


# heat maps


def _heat_maps(figure: Figure) -> Sheet:
    """Coloured numbers side by side, all on one scale of colours; the names of equal rows stand once."""
    maps = [plot for plot in figure.plots if isinstance(plot, HeatMap)]
    same = all(heat_map.rows == maps[0].rows for heat_map in maps)
    widths = [max(CELL * len(heat_map.columns), 1.5) for heat_map in maps]
    label = 0.075 * max(len(shortened(name)) for heat_map in maps for name in heat_map.rows)
    tall = ROW * max(len(heat_map.rows) for heat_map in maps)
    sheet = _sheet(sum(widths) + label * (1 if same else len(maps)) + 0.3, tall + 1.2)
    places = sheet.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
    ends = [end for heat_map in maps for end in heat_map.limits]
    for index, (axes, heat_map) in enumerate(zip(places, maps, strict=True)):
        _heat_map(axes, heat_map, (min(ends), max(ends)), named=index == 0 or not same, slanted=len(maps) == 1)
        axes.set_title(heat_map.title, loc="left", fontweight="bold")
    return sheet


def _heat_map(axes: Axes, plot: HeatMap, limits: tuple[float, float], named: bool, slanted: bool) -> None:
    values = np.array(plot.values, dtype=float)
    shown = np.ma.masked_invalid(values)
    axes.imshow(shown, cmap=SCALES[plot.scale], vmin=limits[0], vmax=limits[1], aspect="auto", alpha=0.85)
    axes.grid(False)
    for (i, j), value in np.ndenumerate(values):
        strong = abs(value) > 0.6 * limits[1]
        colour = "white" if strong else "black" if known(value) else INK  # what has no colour stands on the page itself
        axes.text(j, i, plot.words[i][j], ha="center", va="center", fontsize=7.5, color=colour)
    heads = [shortened(name, 18) if slanted else "\n".join(wrap(clean(name), 11)) for name in plot.columns]
    turned: dict[str, Any] = {"rotation": 35, "ha": "right"} if slanted else {}
    axes.set_xticks(range(len(heads)), heads, fontsize=8, color=INK, **turned)
    axes.set_yticks(
        range(len(plot.rows)), [shortened(row) if named else "" for row in plot.rows], fontsize=8, color=INK
    )
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(len(heads) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(plot.rows) + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", axis="both", color=PAPER, linewidth=1.5)
    axes.tick_params(which="both", length=0)


# pictures


def _pictures(figure: Figure) -> Sheet:
    """Names at the left, heads on top, the image itself in the first column, what is said of a tile above it."""
    (plot,) = (plot for plot in figure.plots if isinstance(plot, Pictures))
    heads = [
        [line for paragraph in head.split("\n") for line in wrap(shortened(paragraph), 16)]
        for head in ("image", *plot.heads)
    ]
    above = 0.2 if any(tile.words for row in plot.rows for tile in row.tiles) else 0.0
    pitch, step = SIDE + GAP, SIDE + GAP + above
    wide, tall = pitch * len(heads), step * len(plot.rows)
    label = min(0.075 * max(len(row.label) for row in plot.rows) + 0.2, 1.8)
    sheet = _sheet(max(label + wide, 3.0), tall + 0.13 * max(map(len, heads)) + 0.6)
    axes = sheet.subplots()
    axes.set(xlim=(0, wide), ylim=(tall, -0.05))
    axes.set_axis_off()
    for column, lines in enumerate(heads):
        position = (column * pitch + SIDE / 2, -0.05)
        axes.text(*position, "\n".join(lines), ha="center", va="bottom", fontsize=7, linespacing=1.0)
    _mosaic(axes, [[row.image, *(tile.pixels for tile in row.tiles)] for row in plot.rows], above, step)
    for row, picture in enumerate(plot.rows):
        y = row * step + above
        lines = wrap(shortened(picture.label, 60), 22)
        axes.text(-0.08, y + SIDE / 2, "\n".join(lines), ha="right", va="center", fontsize=8)
        for column, tile in enumerate(picture.tiles, 1):
            x, weight = column * pitch + SIDE / 2, "bold" if tile.best else "normal"
            axes.text(x, y - 0.03, tile.words, ha="center", va="bottom", fontsize=7.5, fontweight=weight)
    sheet.supxlabel(shortened(plot.below, 100), fontsize=8.5)
    return sheet


def _mosaic(axes: Axes, grid: Sequence[Sequence[np.ndarray | None]], top: float, step: float) -> None:
    """All tiles as one image: a figure with one image is drawn many times faster than with sixty."""
    largest = max((max(t.shape[:2]) for tiles in grid for t in tiles if t is not None), default=1)
    density = min(largest * -(-FINEST // largest), max(LARGEST, FINEST)) / SIDE
    size = (round(len(grid) * step * density), round(len(grid[0]) * (SIDE + GAP) * density), 4)
    pixels = np.zeros(size, dtype=np.uint8)
    for row, tiles in enumerate(grid):
        for column, tile in enumerate(tiles):
            if tile is not None:
                scaled = _scaled(as_colours(tile), round(SIDE * density))
                y, x = round(row * step * density), round(column * (SIDE + GAP) * density)
                pixels[y : y + len(scaled), x : x + scaled.shape[1]] = np.dstack(
                    [scaled, np.full(scaled.shape[:2], 255)]
                )
    right, bottom = size[1] / density, top + size[0] / density
    axes.imshow(pixels, extent=(0, right, bottom, top), interpolation="none", aspect="auto", clip_on=False)


def _scaled(tile: np.ndarray, side: int) -> np.ndarray:
    """A tile whose longer side has so many pixels, the nearest each, in a thin grey frame."""
    height, width = tile.shape[:2]
    scale = side / max(height, width)
    rows = np.minimum((np.arange(round(height * scale)) / scale).astype(int), height - 1)
    columns = np.minimum((np.arange(round(width * scale)) / scale).astype(int), width - 1)
    scaled = np.array(tile[rows][:, columns])
    scaled[[0, -1]] = 200
    scaled[:, [0, -1]] = 200
    return scaled


# pixels


def map_layer(values: np.ndarray) -> np.ndarray:
    """A map in [-1, 1] as (h, w, 4) bytes to lie over its image: the larger a value, the less of the image is seen.

    Red to yellow above zero, blue below, grey for NaN.
    """
    size = np.clip(np.abs(np.nan_to_num(np.asarray(values, dtype=float))), 0, 1)[..., None]
    warm = np.array([225, 30, 45]) + size * np.array([30, 200, 60])
    cold = np.array([40, 90, 230]) + size * np.array([90, 120, 25])
    colours = np.where(np.asarray(values)[..., None] < 0, cold, warm)
    layer = np.concatenate([colours, 255 * size**0.8], axis=-1).round().astype(np.uint8)
    layer[~np.isfinite(values)] = 128
    return layer


def map_colours(values: np.ndarray) -> np.ndarray:
    """A map in [-1, 1] as (h, w, 3) bytes: blue below zero, white at zero, red above, grey for NaN."""
    values = np.asarray(values, dtype=float)
    colours = np.array(mpl.colormaps["RdBu_r"]((np.clip(np.nan_to_num(values), -1, 1) + 1) / 2, bytes=True))[..., :3]
    colours[~np.isfinite(values)] = 128
    return colours


def overlaid(values: np.ndarray, image: np.ndarray) -> np.ndarray:
    """A map in [-1, 1] over its picture (bytes) in pale grey, which shows where the map is near zero."""
    strength = np.sqrt(np.clip(np.abs(np.nan_to_num(values)), 0, 1))[..., None]
    grey = 0.6 * as_colours(image).mean(2, keepdims=True) + 0.4 * 255
    return np.asarray(np.round(strength * map_colours(0.8 * np.sign(values)) + (1 - strength) * grey), dtype=np.uint8)


def scaled_map(values: np.ndarray) -> np.ndarray:
    """A map divided by its own largest size."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return np.asarray(values / largest if largest > 0 else values)


def as_colours(pixels: np.ndarray) -> np.ndarray:
    """Bytes as (h, w, 3), whatever the image was."""
    pixels = np.asarray(pixels, dtype=np.uint8)
    return np.repeat(pixels[:, :, None], 3, 2) if pixels.ndim == 2 else pixels


def as_bytes(image: np.ndarray) -> np.ndarray:
    """An image (c, h, w) in [0, 1] as bytes: (h, w, 3) for three channels, else (h, w)."""
    pixels = np.clip(np.nan_to_num(np.asarray(image, dtype=float)), 0, 1)
    shown = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels.mean(0)
    return np.asarray(np.round(255 * shown), dtype=np.uint8)
