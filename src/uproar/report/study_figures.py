"""The figures of studies and scores: verdicts, curves, retraining, audits, and pictures for papers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.registry import Axis
from uproar.metrics.retraining import RETRAININGS
from uproar.registry import Entry
from uproar.report.figures import (
    Chart,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Limits,
    Series,
    Style,
    least_squares,
    limits_of,
    share_limits,
    styles,
)
from uproar.report.formatting import LEVEL, clean, known, slug
from uproar.results.finding import Plot
from uproar.results.scores import Curves, Scores
from uproar.results.study import Results, StudyView
from uproar.statistics.design import BASELINE

Styles = Mapping[str, Style]


def estimator_styles(results: Results) -> dict[str, Style]:
    """One style per estimator for all figures of a study."""
    names = (name for table in (results.cells, results.scores) for name in table["estimator"])
    return styles(name for name in names if name not in results.further_rankings)


def x_label(view: StudyView, metric: str) -> str:
    """What the fraction of a metric means."""
    return f"share of pixels {RETRAININGS[metric].fraction_means}"


def best_first(view: StudyView, metric: str) -> list[str]:
    """The estimators that have a curve under a metric: random, then by its verdicts, then as the study has them."""
    estimators = list(dict.fromkeys(view.intervals[metric]["estimator"]))
    ranked = list(view.verdicts[metric]["estimator"]) if metric in view.verdicts else []
    return [name for name in dict.fromkeys([BASELINE, *ranked, *estimators]) if name in estimators]


def mean_at(view: StudyView, metric: str, estimator: str, fraction: float) -> float:
    """Mean accuracy over the replicates; NaN where there is none."""
    frame = view.intervals.get(metric)
    if frame is None:
        return float("nan")
    rows = frame[(frame["estimator"] == estimator) & ((frame["fraction"] - fraction).abs() < 1e-9)]
    return float(rows["mean"].iloc[0]) if len(rows) else float("nan")


def series_of(view: StudyView, metric: str, estimator: str, by_name: Styles) -> Series:
    """One estimator's line under one metric."""
    frame = view.intervals[metric]
    rows = frame[frame["estimator"] == estimator].sort_values("fraction")
    x, mean, low, high = (rows[column].tolist() for column in ("fraction", "mean", "low", "high"))
    return Series(estimator, by_name[estimator], x, mean, low, high, reference=estimator == BASELINE)


def _limits(view: StudyView, series: Sequence[Series], chance: float | None) -> Limits:
    """Where an axis of scores ends: R² may lie below zero."""
    if view.score_name == "R²":
        return limits_of(value for curve in series for value in curve.y)
    return share_limits(series, chance)


def _stem(view: StudyView, metric: str) -> str:
    return RETRAININGS[metric].label.lower().replace(" ", "-")


def curve_figures(view: StudyView, by_name: Styles) -> list[Figure]:
    """The curves of every retrained metric; of the others where nothing was retrained."""
    metrics = RETRAININGS
    chosen = [p for p in view.intervals if metrics[p].retrains] or list(view.intervals)
    figures = []
    for name in chosen:
        series = tuple(series_of(view, name, e, by_name) for e in best_first(view, name))
        words = f"test {view.score_name}{' after retraining' if metrics[name].retrains else ''}"
        limits, chance = _limits(view, series, view.chance), view.chance
        chart = Chart("", series, x_label(view, name), words, limits, level=chance, level_label="chance")
        better = "The higher" if metrics[name].higher_is_better else "The lower"
        reading = f"{better} the line, the better. " if metrics[name].judges else ""
        reading += f"Dashed: random ranking. Bands: {LEVEL} CI of the mean."
        title = f"{metrics[name].label}: {x_label(view, name)}"
        figures.append(Figure((chart,), 3, f"{_stem(view, name)}-curves", title, reading))
    return figures


def verdict_figure(view: StudyView, by_name: Styles) -> Figure:
    """Every estimator's advantage over random, in points: a forest for each metric that retrains, or would."""
    forests = []
    for name, frame in view.verdicts.items():
        rows = []
        for row in frame.to_dict("records"):
            value, low, high = (100 * row[column] for column in ("advantage", "low", "high"))
            rows.append(ForestRow(row["estimator"], by_name[row["estimator"]], value, low, high, row["side"] != 0))
        most = max([*(abs(row.value) for row in rows if known(row.value)), 0.5])
        widest = max([*(abs(end) for row in rows for end in (row.low, row.high) if known(end)), most])
        limit = 1.08 * min(widest, 3 * most)
        label = RETRAININGS[name].label
        forests.append(Forest(tuple(rows), (-limit, limit), "← worse    better →", label, zero=True))
    reading = (
        f"{view.score_name.capitalize()} points gained over a random ranking, mean over the fractions, {LEVEL} CI. "
        "Filled: significant; baselines are not tested."
    )
    return Figure(tuple(forests), 4, "verdicts", "Every method against a random ranking", reading)


def audit_figure(plot: Plot, audit: str, known_styles: Mapping[str, Style]) -> Figure:
    """A plot with the report's styles; estimators keep the style they have elsewhere."""
    name = f"audit-{audit}-{plot.name}"
    panel = _audit_heat_map(plot) if plot.kind == "heatmap" else _audit_chart(plot, known_styles)
    return Figure((panel,), 3, name, plot.title, plot.reading)


def _audit_chart(plot: Plot, known_styles: Mapping[str, Style]) -> Chart:
    data = plot.data
    label_of = pd.Series("", index=data.index) if plot.series is None else data[plot.series].map(clean)
    labels = list(dict.fromkeys(label_of))
    by_label = {**styles(labels), **known_styles}
    series = tuple(_audit_series(plot, data[label_of == label], label, by_label[label]) for label in labels)
    values = [v for s in series for side in (s.y, s.low, s.high) for v in side]
    bars = plot.kind == "bars"
    return Chart(
        "",
        series,
        plot.x_label,
        plot.y_label,
        limits_of([*values, plot.reference, *([0.0] if bars else [])]),
        kind={"lines": "lines", "scatter": "points", "bars": "bars"}[plot.kind],  # type: ignore[arg-type]
        percent=(plot.x == "fraction", plot.percent),
        level=plot.reference,
        level_label=plot.reference_label,
        fit=least_squares(data[plot.x], data[plot.y]) if plot.line else None,
    )


def _audit_series(plot: Plot, rows: pd.DataFrame, label: str, style: Style) -> Series:
    names = rows["name"].map(clean) if "name" in rows else rows[plot.x].map(_text)
    y, low, high = (() if column is None else rows[column].tolist() for column in (plot.y, plot.low, plot.high))
    x = [clean(v) if isinstance(v, str) else float(v) for v in rows[plot.x]]
    return Series(label, style, x, y, low, high, names=tuple(names))


def _audit_heat_map(plot: Plot) -> HeatMap:
    assert plot.value is not None, "a heat map needs value="
    columns, rows = (tuple(dict.fromkeys(plot.data[axis].map(_text))) for axis in (plot.x, plot.y))
    cells = {(_text(y), _text(x)): v for y, x, v in plot.data[[plot.y, plot.x, plot.value]].to_numpy(object)}
    values = tuple(tuple(cells.get((row, column), math.nan) for column in columns) for row in rows)
    texts = tuple(tuple(_cell_text(value, plot) for value in row) for row in values)
    scale = "changes" if plot.changes else "diverging" if plot.diverging else "sequential"
    return HeatMap("", columns, rows, values, texts, scale)  # type: ignore[arg-type]


def _cell_text(value: float, plot: Plot) -> str:
    if not known(value):
        return ""
    sign = "+" if plot.changes else ""
    text = f"{100 * value:{sign}.1f}" if plot.percent else f"{value:{sign}.2f}"
    return text.replace("-", "−")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else clean(value)


# metrics without retraining


def entry_of(metric: str) -> Entry | None:
    """What is declared under a metric's name; None for one that is not known here."""
    try:
        return metrics[parse(metric).name]
    except UproarError:
        return None


def metric_curves(scores: Scores, by_name: Styles) -> dict[str, Figure]:
    """The mean curves with bands, by metric, of those that have any."""
    figures: dict[str, Figure] = {}
    directions = dict(zip(scores.table["metric"], scores.table["higher_is_better"], strict=True))
    for metric, higher in directions.items():
        series = curve_series(scores.curves[metric], by_name, metric) if metric in scores.curves else ()
        if not series:
            continue
        entry = entry_of(metric)
        axis = entry.facts.get("axis") if entry is not None else None
        x, y, remark, falls, level = "fraction", "value", "", False, None
        if isinstance(axis, Axis) and entry is not None:
            options = entry.bind(**dict(parse(metric).options))
            by = str(options.get("by", "probability"))
            words = {"by": by, "score": by if by == "accuracy" else f"{by} of the target"}
            x, y, remark = (text.format(**words) for text in (axis.x, axis.y, axis.remark))
            falls, level = axis.falls, options.get(axis.level)
        level = level if isinstance(level, float) else None  # several levels are not one line
        ends = limits_of([level, *(v for s in series for side in (s.y, s.low, s.high) for v in side)])
        across = (1.0, 0.0) if falls else None
        chart = Chart("", series, x, y, ends, across, percent=(True, False), level=level, level_label="level")
        better = "" if falls else f"The {'higher' if higher else 'lower'} the line, the better. "
        reading = f"{better}Bands: {LEVEL} CI. {remark}".strip()
        stem = slug([metric]).lower()
        alike = sum(slug([other]).lower() == stem for other in figures)  # no two files of one name
        name = f"{stem}-{alike + 1}-curves" if alike else f"{stem}-curves"
        figures[metric] = Figure((chart,), 3, name, f"{metric} {'↑' if higher else '↓'}", reading)
    return figures


def curve_series(curves: Curves, by_name: Styles, metric: str) -> tuple[Series, ...]:
    """One line per method with any point; its band ends where the metric does, if all lines lie within."""
    x, series = tuple(round(float(t), 6) for t in curves.fractions), []
    entry, lines = entry_of(metric), {m: line for m, line in curves.lines.items() if np.isfinite(line.mean).any()}
    low, high = (-np.inf, np.inf) if entry is None else (entry.facts["low"], entry.facts["high"])
    if any(np.nanmin(line.mean) < low or np.nanmax(line.mean) > high for line in lines.values()):
        low, high = -np.inf, np.inf
    for method, line in lines.items():
        style = by_name.get(method) or styles([method])[method]
        below, above = (np.clip(line.mean + side * line.half, low, high).tolist() for side in (-1, 1))
        series.append(Series(method, style, x, line.mean.tolist(), below, above, reference=method == BASELINE))
    return tuple(series)
