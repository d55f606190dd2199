"""The figures of a score report as plain data: values with intervals, curves, and values per image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from uproar.report.figures import Curves, Series, some
from uproar.report.formatting import LEVEL, clean, slug
from uproar.report.score_board import Board, Cell, Mark
from uproar.report.score_findings import metric_title, score
from uproar.report.score_metrics import Metric, axes_of
from uproar.report.style import Style
from uproar.results.scores import Line
from uproar.statistics.design import BASELINE


@dataclass(frozen=True)
class Overview:
    """Every method's value under every metric; one small plot per metric."""

    name: str
    title: str
    methods: tuple[tuple[str, Style], ...]
    columns: tuple[tuple[Metric, tuple[float, float], tuple[tuple[Cell | None, Mark], ...]], ...]
    """A metric, the limits of its axis, and what each method has."""


@dataclass(frozen=True)
class Box:
    """The values of one method over the images: 5, 25, 50, 75 and 95 percent of them lie below."""

    label: str
    style: Style
    n: int
    nan: int
    marks: tuple[float, float, float, float, float] | None
    mean: float | None


@dataclass(frozen=True)
class Spread:
    """One metric's values per image; `shares` where an image is only right or wrong, so that the mean says all."""

    metric: Metric
    title: str
    limits: tuple[float, float]
    shares: bool
    boxes: tuple[Box, ...]
    remark: str


@dataclass(frozen=True)
class Spreads:
    """Small multiples of values per image."""

    name: str
    title: str
    spreads: tuple[Spread, ...]


def overview_figure(board: Board) -> Overview | None:
    """All values; None where there are none."""
    columns = []
    for metric in board.metrics:
        row = [board.cells.get((m, metric.name)) for m in board.methods]
        ends = [v for c in row if c is not None for v in (c.value, c.low, c.high)]
        marks = [board.mark(m, metric) for m in board.methods]
        columns.append((metric, limits(ends), tuple(zip(row, marks, strict=True))))
    if not any(board.scored(metric) for metric in board.metrics):
        return None
    title = f"Values with {LEVEL} intervals over {board.basis}"
    return Overview("values", title, tuple(board.looks.items()), tuple(columns))


def curve_figures(board: Board) -> dict[str, Curves]:
    """The mean curves with bands, by metric, of those that have any."""
    names = stems(m.name for m in board.metrics)
    found = {}
    for metric in board.metrics:
        if metric.name in board.curves:
            series = _series(board, *board.curves[metric.name])
            if series:
                found[metric.name] = _curves(board, metric, series, names[metric.name])
    return found


def _curves(board: Board, metric: Metric, series: tuple[Series, ...], stem: str) -> Curves:
    axes = axes_of(metric)
    ends = [v for s in series for side in (s.mean, s.low, s.high) for v in side]
    good = f"The {'higher' if metric.higher else 'lower'} the line, the better."
    first = "" if axes.reversed else f"{good} "
    dashed = " Dashed: random maps." if any(s.is_reference for s in series) else ""
    level = axes.level if axes.level is not None and np.isfinite(axes.level) else None
    reading = f"{first}Mean over {board.basis}; bands: {LEVEL} interval of the mean.{dashed} {axes.remark}"
    return Curves(
        f"{stem}-curves",
        metric_title(board, metric),
        reading.strip(),
        metric.name,
        axes.x,
        axes.y,
        limits([*ends, level]),
        series,
        level,
        "level",
        True,
        (1.0, 0.0) if axes.reversed else None,
    )


def _series(board: Board, fractions: np.ndarray, lines: Mapping[str, Line]) -> tuple[Series, ...]:
    """One line per method with any point."""
    x = tuple(round(float(t), 6) for t in fractions)
    found = []
    for method in board.methods:
        if method in lines:
            line = lines[method]
            ends = (
                tuple(some(v) for v in np.round(points, 5))
                for points in (line.mean, line.mean - line.half, line.mean + line.half)
            )
            found.append(Series(method, board.looks[method], x, *ends, tuple(line.n.tolist())))  # type: ignore[call-arg, arg-type]
    return tuple(found)


def spreads_figure(board: Board) -> Spreads | None:
    """The values per image of every metric that has any."""
    spreads = [_spread(board, metric) for metric in board.metrics]
    there = tuple(s for s in spreads if any(box.marks for box in s.boxes))
    if not there:
        return None
    return Spreads("per-image", "How the values of single images scatter", there)


def _spread(board: Board, metric: Metric) -> Spread:
    values = board.values.get(metric.name, {})
    boxes = tuple(_box(board, m, values[m]) for m in board.methods if m in values)
    seen = np.concatenate([v[np.isfinite(v)] for v in values.values()]) if values else np.zeros(0)
    shares = bool(len(seen)) and bool(np.isin(seen, (0.0, 1.0)).all())
    ends = [v for box in boxes for v in (*(box.marks or ()), box.mean)]
    remark = (
        "The number of the data set is not the mean of these, but a statistic of all images together."
        if metric.whole
        else ""
    )
    title = _spread_title(metric, boxes, shares)
    return Spread(metric, title, (0.0, 1.0) if shares else limits(ends), shares, boxes, remark)


def _spread_title(metric: Metric, boxes: tuple[Box, ...], shares: bool) -> str:
    real = [box for box in boxes if box.marks and box.mean is not None]
    if shares or not real:
        return "share of images with 1" if shares else "no value"
    real = [box for box in real if box.label != BASELINE] or real
    widest = max(real, key=lambda box: box.marks[3] - box.marks[1] if box.marks else 0.0)
    low, high = (score(widest.marks[k]) if widest.marks else "" for k in (1, 3))
    return f"half of the images of {widest.label} lie between {low} and {high}"


def _box(board: Board, method: str, values: np.ndarray) -> Box:
    real = values[np.isfinite(values)]
    if not len(real):
        return Box(method, board.looks[method], len(values), len(values), None, None)
    a, b, c, d, e = (float(v) for v in np.quantile(real, (0.05, 0.25, 0.5, 0.75, 0.95)))
    missing = len(values) - len(real)
    return Box(method, board.looks[method], len(values), missing, (a, b, c, d, e), float(real.mean()))


def limits(values: Iterable[float | None]) -> tuple[float, float]:
    """Limits that hold all values with a little room; 0 and 1 where there are none.

    >>> limits([0.0, None, 1.0]), limits([])
    ((-0.04, 1.04), (0.0, 1.0))
    """
    real = [v for v in values if v is not None and np.isfinite(v)]
    if not real:
        return 0.0, 1.0
    low, high = min(real), max(real)
    room = 0.04 * (high - low) or 0.05 * abs(high) or 0.05
    return low - room, high + room


def stems(names: Iterable[str]) -> dict[str, str]:
    """A piece of a file name for each name, no two the same in any spelling.

    >>> stems(["road", "a<", "A>"])
    {'road': 'road', 'a<': 'a', 'A>': 'A-2'}
    """
    found: dict[str, str] = {}
    for name in names:
        stem, place = slug([clean(name)]), 2
        taken = {other.lower() for other in found.values()}
        while stem.lower() in taken:
            stem, place = f"{slug([clean(name)])}-{place}", place + 1
        found[name] = stem
    return found
