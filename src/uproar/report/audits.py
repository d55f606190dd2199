"""Plots of audits as figures of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from uproar.report.figures import (
    Chart,
    Figure,
    HeatMap,
    Series,
    Style,
    least_squares,
    limits_of,
    number_or_none,
    numbers,
    styles,
)
from uproar.report.formatting import clean
from uproar.results.finding import Plot


def audit_figure(plot: Plot, audit: str, known_styles: Mapping[str, Style]) -> Figure:
    """A plot with the report's styles; estimators keep the style they have elsewhere."""
    name = f"audit-{audit}-{plot.name}"
    one = _heat_map(plot) if plot.kind == "heatmap" else _chart(plot, known_styles)
    return Figure((one,), 3, name, plot.title, plot.reading)


def _chart(plot: Plot, known_styles: Mapping[str, Style]) -> Chart:
    data = plot.data
    label_of = pd.Series("", index=data.index) if plot.series is None else data[plot.series].map(clean)
    labels = list(dict.fromkeys(label_of))
    by_label = {**styles(labels), **known_styles}
    series = tuple(_series(plot, data[label_of == label], label, by_label[label]) for label in labels)
    values = [v for s in series for side in (s.y, s.low, s.high) for v in side]
    bars = plot.kind == "bars"
    return Chart(
        "",
        series,
        plot.x_label,
        plot.y_label,
        limits_of([*values, plot.reference, *([0.0] if bars else [])]),
        kind={"lines": "lines", "scatter": "points", "bars": "bars"}[plot.kind],  # type: ignore[arg-type]
        percent=(False, plot.percent),
        level=plot.reference,
        level_label=plot.reference_label,
        fit=least_squares(data[plot.x], data[plot.y]) if plot.line else None,
    )


def _series(plot: Plot, rows: pd.DataFrame, label: str, style: Style) -> Series:
    names = rows["name"].map(clean) if "name" in rows else rows[plot.x].map(_text)
    y, low, high = (
        (None,) * len(rows) if column is None else numbers(rows[column]) for column in (plot.y, plot.low, plot.high)
    )
    x = tuple(clean(v) if isinstance(v, str) else float(v) for v in rows[plot.x])
    return Series(label, style, x, y, low, high, names=tuple(names))


def _heat_map(plot: Plot) -> HeatMap:
    assert plot.value is not None, "a heat map needs value="
    columns, rows = (tuple(dict.fromkeys(plot.data[axis].map(_text))) for axis in (plot.x, plot.y))
    cells = {
        (_text(y), _text(x)): number_or_none(v) for y, x, v in plot.data[[plot.y, plot.x, plot.value]].to_numpy(object)
    }
    values = tuple(tuple(cells.get((row, column)) for column in columns) for row in rows)
    texts = tuple(tuple(_cell_text(value, plot) for value in row) for row in values)
    scale = "changes" if plot.changes else "diverging" if plot.diverging else "sequential"
    return HeatMap("", columns, rows, values, texts, scale)  # type: ignore[arg-type]


def _cell_text(value: float | None, plot: Plot) -> str:
    if value is None:
        return ""
    sign = "+" if plot.changes else ""
    text = f"{100 * value:{sign}.1f}" if plot.percent else f"{value:{sign}.2f}"
    return text.replace("-", "−")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else clean(value)
