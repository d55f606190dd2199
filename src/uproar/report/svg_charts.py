"""Charts as small inline SVG: what a page shows without scripts and on paper, before interaction is laid on top.

Colours are left to the page's style sheet (`--light`, `--dark`), so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from uproar.report.audit_figures import AuditFigure, Line
from uproar.report.figures import Curves, Pair, Retraining, Series
from uproar.report.formatting import number, percent, shortened
from uproar.report.style import DASH_ARRAYS, MARKER_PATHS, Style

Range = tuple[float, float]
Numbers = Sequence[float | None]
MOST_MARKERS = 12
"""Of one line: more would hide it."""
LETTER = 6.3
"""Width of a letter of the labels, about, in units of the drawing."""


@dataclass(frozen=True)
class Frame:
    """The place of a chart's axes inside the drawing, and the ranges they show."""

    width: float
    height: float
    x_range: Range
    y_range: Range
    left: float = 56
    right: float = 10
    top: float = 10
    bottom: float = 46

    def x(self, value: float) -> float:
        share = (value - self.x_range[0]) / ((self.x_range[1] - self.x_range[0]) or 1.0)
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        share = min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)


def curve_chart(figure: Curves) -> Markup:
    """Lines with bands over fractions, the reference on top."""
    frame = Frame(480, 320, figure.x_range or _ends(figure.series), figure.y_range)
    parts = _y_axis(frame, figure.y_label, not figure.plain) + _x_axis(frame, figure.x_label, True)
    if figure.chance is not None:
        parts += _level(frame, figure.chance, figure.chance_label)
    ordered = sorted(figure.series, key=lambda s: s.is_reference)
    parts += [_band(frame, s.x, s.low, s.high, s.style) for s in ordered]
    parts += [_line(frame, s, s.style, s.label) for s in ordered]
    return _drawing(frame, figure.title, parts)


def pair_chart(figure: Retraining, pair: Pair) -> Markup:
    """One small plot: solid with retraining, dotted without."""
    series = (pair.retrained, pair.asked)
    frame = Frame(200, 140, _ends(series), figure.y_range, left=38, right=6, top=6, bottom=22)
    parts = _y_axis(frame, "", True, most=3) + _x_axis(frame, "", True, most=3)
    looks = (("dot", "circle-open"), ("solid", "circle"))
    for s, look in zip((pair.asked, pair.retrained), looks, strict=True):
        style = Style(pair.style.light, pair.style.dark, *look)
        parts += [_band(frame, s.x, s.low, s.high, style), _line(frame, s, style, s.label, 0.7)]
    return _drawing(frame, pair.label, parts)


def audit_chart(figure: AuditFigure) -> Markup:
    """An audit's plot of any kind."""
    kinds = {"heatmap": _heatmap, "bars": _bars, "lines": _audit_lines, "scatter": _audit_lines}
    return kinds[figure.plot.kind](figure)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends, with at most so many steps from one end to the other.

    >>> ticks(0.0, 1.0), ticks(0.52, 0.97), ticks(3.0, 3.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.6, 0.7, 0.8, 0.9], [3.0])
    """
    low, high = min(low, high), max(low, high)
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(k * power for k in (1, 2, 5, 10) if (high - low) / (k * power) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _y_axis(frame: Frame, name: str, share: bool, most: int = 5) -> list[Markup]:
    """Lines across with their numbers, and the name of the axis; `share` says that numbers are shown in percent."""
    parts = []
    for value in ticks(*frame.y_range, most):
        y = frame.y(value)
        parts.append(_segment("grid", frame.left, frame.width - frame.right, y, y))
        parts.append(_text(frame.left - 6, y + 4, _tick(value, share), "end"))
    middle = (frame.top + frame.height - frame.bottom) / 2
    return [*parts, _turned(13, middle, -90, name, "middle")] if name else parts


def _x_axis(frame: Frame, name: str, share: bool, most: int = 5) -> list[Markup]:
    base = frame.height - frame.bottom
    numbers = ticks(*frame.x_range, most)
    parts = [_text(frame.x(value), base + 16, _tick(value, share)) for value in numbers]
    middle = (frame.left + frame.width - frame.right) / 2
    return [*parts, _text(middle, base + 38, name, kind="axis-name")] if name else parts


def _level(frame: Frame, value: float, words: str) -> list[Markup]:
    y, end = frame.y(value), frame.width - frame.right
    return [_segment("level", frame.left, end, y, y), _text(end, y - 4, words, "end")]


def _band(frame: Frame, x: Sequence[float], low: Numbers, high: Numbers, style: Style) -> Markup:
    ends = zip(x, low, high, strict=True)
    there = [(t, a, b) for t, a, b in ends if a is not None and b is not None]
    if len(there) < 2:
        return Markup("")
    upper = [f"{frame.x(t)},{frame.y(b)}" for t, _, b in there]
    lower = [f"{frame.x(t)},{frame.y(a)}" for t, a, _ in reversed(there)]
    return _m('<polygon class="band"{} points="{}"/>', _colours(style), " ".join(upper + lower))


def _line(
    frame: Frame, series: Series | Line, style: Style, name: str, scale: float = 1.0, joined: bool = True
) -> Markup:
    """A line with its markers; gaps are left open."""
    values = series.mean if isinstance(series, Series) else series.y
    pairs = zip(series.x, values, strict=True)
    points = [(frame.x(t), frame.y(v)) for t, v in pairs if v is not None]
    step = max(len(points) // MOST_MARKERS, 1)
    marks = Markup("").join(_marker(x, y, style.marker, scale) for x, y in points[::step])
    path = " ".join(f"{x},{y}" for x, y in points) if joined and len(points) > 1 else ""
    dash = DASH_ARRAYS[style.dash]
    lines = _m('<polyline points="{}" stroke-dasharray="{}"/>', path, dash) if path else Markup("")
    return _m('<g class="series"{}><title>{}</title>{}{}</g>', _colours(style), name, lines, marks)


def _marker(x: float, y: float, marker: str, scale: float) -> Markup:
    hollow = Markup(' class="hollow"') if marker.endswith("open") else ""
    place = f"translate({x} {y})" + (f" scale({scale})" if scale != 1 else "")
    return _m('<path{} transform="{}" d="{}"/>', hollow, place, MARKER_PATHS[marker])


def _audit_lines(figure: AuditFigure) -> Markup:
    """Lines, or points with the line through them, and their names below."""
    plot, lines = figure.plot, figure.lines
    legend, below = _legend([line for line in lines if line.label], 480, 320)
    xs = [float(v) for line in lines for v in line.x]
    ys = [v for line in lines for part in (line.y, line.low, line.high) for v in part]
    frame = Frame(480, 320 + below, _around(xs), _around([*ys, plot.reference]), bottom=46 + below)
    parts = _y_axis(frame, plot.y_label, plot.percent) + _x_axis(frame, plot.x_label, False)
    if plot.reference is not None:
        parts += _level(frame, plot.reference, plot.reference_label)
    joined = plot.kind == "lines"
    parts += [_band(frame, line.x, line.low, line.high, line.style) for line in lines]
    parts += [_line(frame, line, line.style, line.label, joined=joined) for line in lines]
    if figure.fit is not None:
        (a, b), (c, d) = figure.fit
        parts.append(_segment("level", frame.x(a), frame.x(b), frame.y(c), frame.y(d)))
    return _drawing(frame, figure.title, [*parts, *legend])


def _bars(figure: AuditFigure) -> Markup:
    """Bars side by side, slanted names below them."""
    plot, lines = figure.plot, figure.lines
    names = list(dict.fromkeys(str(x) for line in lines for x in line.x))
    ys = [v for line in lines for part in (line.y, line.low, line.high) for v in part]
    foot = 24 + _slanted_room(names)
    legend, below = _legend([line for line in lines if line.label], 480, 274 + foot)
    across = (-0.5, max(len(names) - 0.5, 0.5))
    frame = Frame(480, 274 + foot + below, across, _around([*ys, 0.0]), bottom=foot + below)
    parts = _y_axis(frame, plot.y_label, plot.percent)
    width = 0.8 / max(len(lines), 1)
    for place, line in enumerate(lines):
        for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
            at = names.index(str(x)) - 0.4 + place * width
            parts += _bar(frame, (at, width), y, (low, high), line.style)
    base = frame.height - frame.bottom + 14
    parts += [_turned(frame.x(k), base, -35, shortened(n, 18)) for k, n in enumerate(names)]
    if plot.reference is not None:
        parts += _level(frame, plot.reference, plot.reference_label)
    return _drawing(frame, figure.title, [*parts, *legend])


def _bar(
    frame: Frame, place: tuple[float, float], y: float | None, ends: tuple[float | None, float | None], style: Style
) -> list[Markup]:
    if y is None:
        return []
    at, width = place
    left, right = frame.x(at + 0.05 * width), frame.x(at + 0.95 * width)
    top, zero = frame.y(max(y, 0.0)), frame.y(min(y, 0.0))
    size = (round(right - left, 1), round(zero - top, 1))
    shape = '<rect class="fill"{} x="{}" y="{}" width="{}" height="{}"/>'
    parts = [_m(shape, _colours(style), left, top, *size)]
    low, high = ends
    if low is not None and high is not None:
        middle = round((left + right) / 2, 1)
        parts.append(_segment("error", middle, middle, frame.y(low), frame.y(high)))
    return parts


def _heatmap(figure: AuditFigure) -> Markup:
    """Coloured cells with their numbers; the colour's strength is the share of the largest size."""
    longest = max((len(shortened(row, 22)) for row in figure.rows), default=0)
    left, cell, row_high = 10 + LETTER * longest, 46.0, 24.0
    foot = 16 + _slanted_room(figure.columns)
    width, height = left + cell * len(figure.columns) + 10, row_high * len(figure.rows) + foot + 8
    parts = []
    for i, (row, values) in enumerate(zip(figure.rows, figure.values, strict=True)):
        y = 4 + i * row_high
        parts.append(_text(left - 6, y + 16, shortened(row, 22), "end"))
        for j, value in enumerate(values):
            parts += _heat_cell(figure, value, (left + j * cell, y), (cell - 2, row_high - 2))
    for j, column in enumerate(figure.columns):
        parts.append(_turned(left + (j + 0.5) * cell, height - foot + 12, -35, shortened(column, 18)))
    return _drawing(Frame(width, height, (0, 1), (0, 1)), figure.title, parts)


def _heat_cell(
    figure: AuditFigure, value: float | None, corner: tuple[float, float], size: tuple[float, float]
) -> list[Markup]:
    if value is None:
        return []
    strength = round(min(abs(value) / figure.largest, 1.0), 2)
    kind = f"{figure.scale} {'below' if value < 0 else 'above'}"
    sign = "+" if figure.scale == "changes" else ""
    words = f"{100 * value:{sign}.1f}" if figure.plot.percent else f"{value:{sign}.2f}"
    x, y = (round(v, 1) for v in corner)
    shape = '<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill-opacity="{}"/>'
    middle = (x + size[0] / 2, y + size[1] / 2 + 4)
    return [_m(shape, kind, x, y, *size, strength), _text(*middle, words.replace("-", "−"), kind="cell")]


def _slanted_room(names: Iterable[str]) -> float:
    """How far down slanted names reach."""
    return 0.6 * LETTER * max((len(shortened(name, 18)) for name in names), default=0)


def _legend(lines: Sequence[Line], width: float, top: float) -> tuple[list[Markup], float]:
    """Names of lines with their looks, in rows below a drawing; and the height they take."""
    parts: list[Markup] = []
    x, y = 10.0, top + 14
    for line in lines:
        name = shortened(line.label, 30)
        room = 40 + LETTER * len(name)
        if x + room > width and x > 10:
            x, y = 10.0, y + 18
        stroke = _m('<line x2="26" stroke-dasharray="{}"/>', DASH_ARRAYS[line.style.dash])
        mark = _marker(13, 0, line.style.marker, 1.0)
        group = '<g class="series"{} transform="translate({} {})">{}{}</g>'
        parts.append(_m(group, _colours(line.style), x, y - 4, stroke, mark))
        parts.append(_text(x + 32, y, name, "start"))
        x += room
    return parts, (y - top + 8 if lines else 0.0)


def _drawing(frame: Frame, title: str, parts: Iterable[Markup]) -> Markup:
    form = '<svg class="static" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    return _m(form, round(frame.width), round(frame.height), title, Markup("").join(parts))


def _segment(kind: str, x1: float, x2: float, y1: float, y2: float) -> Markup:
    return _m('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>', kind, x1, x2, y1, y2)


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> Markup:
    about = _m(' class="{}"', kind) if kind else ""
    place = (round(x, 1), round(y, 1))
    return _m('<text{} x="{}" y="{}" text-anchor="{}">{}</text>', about, *place, anchor, words)


def _turned(x: float, y: float, angle: int, words: str, anchor: str = "end") -> Markup:
    place = f"translate({round(x, 1)} {round(y, 1)}) rotate({angle})"
    return _m('<text transform="{}" text-anchor="{}">{}</text>', place, anchor, words)


def _colours(style: Style) -> Markup:
    return _m(' style="--light:{};--dark:{}"', style.light, style.dark)


def _tick(value: float, share: bool) -> str:
    return percent(value, 0) if share else number(value).replace("-", "−")


def _ends(series: Iterable[Series]) -> Range:
    xs = [t for s in series for t in s.x]
    return (min(xs), max(xs)) if xs else (0.0, 1.0)


def _around(values: Iterable[float | None]) -> Range:
    """A range that holds all values with a little room."""
    real = [v for v in values if v is not None and math.isfinite(v)]
    low, high = (min(real), max(real)) if real else (0.0, 1.0)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return low - room, high + room


def _m(form: str, *values: Any) -> Markup:
    """A piece of SVG with escaped values."""
    return Markup(form.format(*(escape(value) for value in values)))
