"""Several small plots in one figure, as plain data: lines, points with a line through them, coloured numbers."""

from __future__ import annotations

from dataclasses import dataclass

from uproar.report.figures import Series
from uproar.report.style import Style


@dataclass(frozen=True)
class Window:
    """Lines. `percent` says which axes, across and upright, hold shares shown in percent."""

    title: str
    series: tuple[Series, ...]
    x_label: str
    y_label: str
    y_range: tuple[float, float]
    x_range: tuple[float, float] | None = None
    level: float | None = None
    """Where a thin line is drawn across, e.g. chance."""
    percent: tuple[bool, bool] = (True, True)
    path: bool = False
    """Whether lines are ways from one point to another, whose beginning has a ring."""


@dataclass(frozen=True)
class Dot:
    """One point of a cloud, with its name and the ends of its interval."""

    label: str
    style: Style
    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Cloud:
    """Points, and two ends of the line through them."""

    title: str
    dots: tuple[Dot, ...]
    x_label: str
    y_label: str
    fit: tuple[tuple[float, float], tuple[float, float]] | None = None


@dataclass(frozen=True)
class Cells:
    """Numbers in rows and columns; their colours part at zero. `words` are what is printed, None where nothing is."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    words: tuple[tuple[str, ...], ...]
    good: str = "low"
    """Which end is blue, the better one."""


@dataclass(frozen=True)
class Multiples:
    """Small plots of one kind, `columns` in a row; lines of one name look the same in all of them."""

    name: str
    title: str
    windows: tuple[Window | Cloud | Cells, ...]
    columns: int = 3
