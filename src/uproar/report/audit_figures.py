"""An audit's plots as what the page's script draws: series with looks, cells of a heat map, numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from uproar.report.formatting import clean
from uproar.report.style import Style, styles
from uproar.results.finding import Plot


@dataclass(frozen=True)
class Line:
    """One series of a plot; `names` tell its points apart."""

    label: str
    style: Style
    x: tuple[Any, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class AuditFigure:
    """A plot ready to be drawn, on paper or on a page."""

    name: str
    plot: Plot
    lines: tuple[Line, ...] = ()
    fit: tuple[tuple[float, float], tuple[float, float]] | None = None
    """Two points of the least-squares line through all."""
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()

    @property
    def title(self) -> str:
        return self.plot.title

    @property
    def reading(self) -> str:
        return self.plot.reading

    @property
    def scale(self) -> str:
        """Which colours a heat map has."""
        return "changes" if self.plot.changes else "diverging" if self.plot.diverging else "sequential"

    @property
    def largest(self) -> float:
        """The largest size in a heat map: where its colours end."""
        sizes = [abs(v) for row in self.values for v in row if v is not None]
        return max(sizes, default=1.0) or 1.0


def audit_figure(plot: Plot, audit: str, looks: Mapping[str, Style]) -> AuditFigure:
    """A plot with the report's looks; estimators keep the look they have elsewhere."""
    name = f"audit-{audit}-{plot.name}"
    if plot.kind == "heatmap":
        return _heatmap(plot, name)
    data = plot.data
    labels = [""] if plot.series is None else list(dict.fromkeys(data[plot.series].map(clean)))
    own = styles(labels)
    lines = []
    for label in labels:
        part = data if plot.series is None else data[data[plot.series].map(clean) == label]
        words = part["name"].map(clean) if "name" in part else part[plot.x].map(_word)
        lines.append(
            Line(
                label,
                looks.get(label, own[label]),
                tuple(_plain(v) for v in part[plot.x]),
                _numbers(part, plot.y),
                _numbers(part, plot.low),
                _numbers(part, plot.high),
                tuple(words),
            )
        )
    return AuditFigure(name, plot, tuple(lines), _fit(plot) if plot.line else None)


def plot_view(figure: AuditFigure) -> dict[str, Any]:
    """What the page's script needs to draw it."""
    plot = figure.plot
    return {
        "audit": plot.kind,
        "x_label": plot.x_label,
        "y_label": plot.y_label,
        "percent": plot.percent,
        "reference": plot.reference,
        "reference_label": plot.reference_label,
        "series": [asdict(line) for line in figure.lines],
        "fit": figure.fit,
        "columns": figure.columns,
        "rows": figure.rows,
        "values": figure.values,
        "scale": figure.scale,
        "largest": figure.largest,
        "group": "audits",
    }


def _heatmap(plot: Plot, name: str) -> AuditFigure:
    assert plot.value is not None, "a heat map needs value="
    data = plot.data
    columns = tuple(dict.fromkeys(data[plot.x].map(_word)))
    rows = tuple(dict.fromkeys(data[plot.y].map(_word)))
    cells: dict[tuple[str, str], float | None] = {
        (_word(y), _word(x)): _number(v) for y, x, v in zip(data[plot.y], data[plot.x], data[plot.value], strict=True)
    }
    values = tuple(tuple(cells.get((row, column)) for column in columns) for row in rows)
    return AuditFigure(name, plot, columns=columns, rows=rows, values=values)


def _fit(plot: Plot) -> tuple[tuple[float, float], tuple[float, float]] | None:
    pairs = plot.data[[plot.x, plot.y]].astype(float).dropna()
    if pairs[plot.x].nunique() < 2:
        return None
    slope, start = np.polyfit(pairs[plot.x], pairs[plot.y], 1)
    ends = (float(pairs[plot.x].min()), float(pairs[plot.x].max()))
    return ends, (float(start + slope * ends[0]), float(start + slope * ends[1]))


def _numbers(frame: pd.DataFrame, column: str | None) -> tuple[float | None, ...]:
    if column is None:
        return (None,) * len(frame)
    return tuple(_number(v) for v in frame[column])


def _number(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    return clean(value) if isinstance(value, str) else float(value)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else clean(value)
