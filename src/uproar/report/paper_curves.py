"""Curves of metrics as small plots, under the names that a paper uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from uproar.claims.names import without_options
from uproar.errors import NotApplicable
from uproar.metrics.registry import metrics, read_metric
from uproar.report.figures import Chart, Series, limits_of, numbers
from uproar.report.formatting import clean
from uproar.report.paper_figures import FigureSource
from uproar.statistics.design import BASELINE


def metric_chart(source: FigureSource, metric: str, title: str, names: Mapping[str, str]) -> Chart:
    """The mean curves of some estimators under a metric, and random's; `names` are theirs in the paper."""
    figure = source.curves.get(clean(metric))
    if figure is None:
        raise NotApplicable(f"{metric} has no curve yet")
    return _chart(replace(figure.charts[0], title=title, level=None), names)


def trace_chart(source: FigureSource, metric: str, title: str, names: Mapping[str, str]) -> Chart:
    """The same for a statistic of the data set over its levels."""
    scores = source.evidence.results.metric_scores.get((source.evidence.task, source.evidence.model))
    curves = None if scores is None else scores.traces.get(metric)
    if curves is None:
        raise NotApplicable(f"{metric} has no curve over levels")
    facts = metrics[read_metric(metric).name].facts
    series = []
    for method, line in curves.lines.items():
        ends = (line.mean, line.mean - line.half, line.mean + line.half)
        within = (np.clip(side, facts["low"], facts["high"]) for side in ends)
        mean, low, high = (numbers(np.round(side, 5)) for side in within)
        x = tuple(float(level) for level in curves.fractions)
        label = clean(method)
        n = tuple(line.n.tolist())
        series.append(Series(label, source.style(label), x, mean, low, high, n, reference=label == BASELINE))
    return _chart(Chart(title, tuple(series), facts["trace"].x, facts["trace"].y, (0, 1), percent=(True, False)), names)


def _chart(chart: Chart, names: Mapping[str, str]) -> Chart:
    there = {without_options(s.label): s for s in chart.series}
    wanted = {BASELINE: BASELINE, **names}
    lines = tuple(replace(there[name], label=label) for name, label in wanted.items() if name in there)
    if len(lines) < 2:
        raise NotApplicable("the study has fewer than two of its estimators")
    means = [v for s in lines for v in s.y]
    low, high = limits_of(means)
    room = 0.25 * (high - low)
    sides = [v for s in lines for side in (s.low, s.high) for v in side if v is not None]
    ends = [v for v in sides if low - room <= v <= high + room]
    return replace(chart, series=lines, y_range=limits_of([*means, *ends]))
