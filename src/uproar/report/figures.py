"""The vocabulary of figures: plain descriptions of what is drawn, in which order, with which words.

A `Figure` has one plot or several small ones of a kind:

    Chart      curves, points (a scatter plot) or bars over a common axis
    Forest     one row per name: a value with its interval
    HeatMap    coloured numbers in rows and columns
    Pictures   images in rows and columns, with a value above each

`drawing` draws each of them once, for the page and for papers. Values are as they were measured (shares of one, not
percent); NaN stands for what is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from uproar.statistics.design import BASELINE

Limits = tuple[float, float]


# styles


@dataclass(frozen=True)
class Style:
    """How a series is drawn: its colour, and dash and marker as Matplotlib names them."""

    colour: str
    dash: Any = "-"
    marker: str = "o"
    hollow: bool = False


REFERENCE = Style("#16191d", "--", hollow=True)
MUTED = Style("#5b6470")
CHOSEN = Style("#00896a")

# Okabe and Ito's hues, darkened or lightened for contrast, and a violet: distinguishable with any of the usual colour
# deficiencies. Yellow is left out, since no dark enough yellow is one. The last three are for studies with many
# estimators; markers distinguish them where hues do not.
ON_DARK = {
    "#0072b2": "#4db2ec",
    "#d55e00": "#ff8a3d",
    "#00896a": "#2fcfa5",
    "#b8458c": "#ee8cc6",
    "#b98200": "#f2b632",
    "#3da0d6": "#9bdcff",
    "#6a4fbf": "#b3a1ff",
    "#8a4b1f": "#d9a06a",
    "#b3202f": "#ff8088",
    "#5d6b00": "#c0d04a",
}
"""What each hue becomes on a dark page."""
HUES = tuple(ON_DARK)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", ":", "-.", (0, (8, 2.5)))


def styles(estimators: Iterable[str]) -> dict[str, Style]:
    """A style by estimator, in the order of the study; random is the dark dashed reference.

    Ten hues come once before any comes again, and then with another dash. The marker changes with every estimator, so
    that even those of one hue differ in two ways.

    >>> by_name = styles(["random", "grad", "ig"])
    >>> by_name["random"].dash, by_name["grad"].dash, by_name["grad"].colour != by_name["ig"].colour
    ('--', '-', True)
    """
    by_name: dict[str, Style] = {}
    for name in dict.fromkeys(estimators):
        if name == BASELINE:
            by_name[name] = REFERENCE
            continue
        index = len(by_name) - (BASELINE in by_name)
        rounds = index // (len(HUES) * len(DASHES))
        dash, marker = DASHES[index // len(HUES) % len(DASHES)], MARKERS[(index + rounds) % len(MARKERS)]
        by_name[name] = Style(HUES[index % len(HUES)], dash, marker)
    return by_name


# plots


@dataclass(frozen=True)
class Series:
    """The points of one name: y over x, with the ends of 95 % intervals where there are any."""

    label: str
    style: Style
    x: Sequence[Any]
    """Numbers; names for bars."""
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    names: tuple[str, ...] = ()
    """Of single points, where they have some."""
    reference: bool = False
    """Whether the others are compared with it, so that it is drawn heaviest and on top."""


@dataclass(frozen=True)
class Chart:
    """Curves with bands, points, or bars."""

    title: str
    """Above a small plot; empty where the figure's title says it."""
    series: tuple[Series, ...]
    x_label: str
    y_label: str
    y_range: Limits | None = None
    x_range: Limits | None = None
    """Where x does not simply grow to the right, or has room around it."""
    kind: Literal["lines", "points", "bars"] = "lines"
    percent: tuple[bool, bool] = (True, True)
    """Which axes, across and upright, hold shares shown in percent."""
    level: float | None = None
    """Where a thin line is drawn across, e.g. chance."""
    level_label: str = ""
    fit: tuple[tuple[float, float], tuple[float, float]] | None = None
    """Two points of the line through all, x then y."""
    named: bool = False
    """Whether the names of points stand above them."""


@dataclass(frozen=True)
class ForestRow:
    """One name with its value and the interval around it."""

    label: str
    style: Style
    value: float
    low: float = math.nan
    high: float = math.nan
    filled: bool = True
    """Whether the point is filled: of a difference that is significant."""


@dataclass(frozen=True)
class Forest:
    """Rows over a common axis, in the order in which they are read."""

    rows: tuple[ForestRow, ...]
    limits: Limits
    x_label: str = ""
    title: str = ""
    zero: bool = False
    """Whether zero parts worse from better."""
    band: Limits | None = None
    """Where the baselines lie, in grey."""


@dataclass(frozen=True)
class HeatMap:
    """Numbers in rows and columns; `words` are what is printed in the cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[Sequence[float], ...]
    words: tuple[tuple[str, ...], ...]
    scale: Literal["sequential", "diverging", "reversed", "changes"] = "diverging"
    """Colours: from white to blue; blue below zero and red above; the reverse; magenta below zero and cyan above."""

    @property
    def limits(self) -> Limits:
        """Where the colours end."""
        finite = [v for row in self.values for v in row if math.isfinite(v)]
        top = max(map(abs, finite), default=1.0) or 1.0
        return (min(0.0, *finite) if finite else 0.0) if self.scale == "sequential" else -top, top


@dataclass(frozen=True)
class Tile:
    """One image with what stands above it; `best` if no other of its kind does better."""

    pixels: np.ndarray | None
    """Bytes, (h, w) or (h, w, 3); None where there is none."""
    words: str = ""
    best: bool = False


@dataclass(frozen=True)
class PictureRow:
    """A row of images: of an estimator, or of an image with its maps."""

    label: str
    tiles: tuple[Tile, ...]
    image: np.ndarray
    """Itself, unchanged: stands first."""


@dataclass(frozen=True)
class Pictures:
    """Images in rows and columns."""

    heads: tuple[str, ...]
    """Of the columns, without the first, which holds the image itself."""
    rows: tuple[PictureRow, ...]
    below: str = ""
    """What stands below all."""


Plot = Chart | Forest | HeatMap | Pictures


@dataclass(frozen=True)
class Figure:
    """One plot, or several small ones of one kind, `columns` of them side by side."""

    plots: tuple[Plot, ...]
    columns: int = 3
    name: str = ""
    """Of its file: lower case, no spaces."""
    title: str = ""
    """What it shows."""
    reading: str = ""
    """How to read it."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(plot for plot in self.plots if isinstance(plot, Chart))

    @property
    def series(self) -> tuple[Series, ...]:
        """Of all charts."""
        return tuple(series for chart in self.charts for series in chart.series)


# numbers of plots


def limits_of(values: Iterable[float | None]) -> Limits:
    """Limits that hold all values with a margin; 0 and 1 where there are none.

    >>> limits_of([0.0, None, math.nan, 1.0]), limits_of([])
    ((-0.04, 1.04), (0.0, 1.0))
    """
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, high + margin


def share_limits(series: Iterable[Series], level: float | None) -> Limits:
    """Limits for shares that hold all means, and the intervals as far as they do not squeeze the means."""
    lines = list(series)
    means, lows, highs = (
        [v for s in lines for v in getattr(s, side) if math.isfinite(v)] for side in ("y", "low", "high")
    )
    if not means:
        return 0.0, 1.0
    low, high = min([*means, *([level] if level else [])]), max(means)
    margin = max(high - low, 0.02)
    low = max(min([low, *lows]), low - 0.25 * margin)
    high = min(max([high, *highs]), high + 0.15 * margin)
    return max(low - 0.03 * margin, 0.0), min(high + 0.03 * margin, 1.0 + 0.03 * margin)


def least_squares(x: Iterable[Any], y: Iterable[Any]) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Two points of the line through points, x then y; None where all have the same x."""
    a, b = np.array(list(zip(x, y, strict=True)), dtype=float).reshape(-1, 2).T
    a, b = a[np.isfinite(b)], b[np.isfinite(b)]
    if len(set(a.tolist())) < 2:
        return None
    slope, start = np.polyfit(a, b, 1)
    low, high = float(a.min()), float(a.max())
    return (low, high), (float(start + slope * low), float(start + slope * high))
