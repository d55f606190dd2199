"""Figures for the script of the page, which draws them (templates/charts.js)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from uproar.report.document import Chapter
from uproar.report.figures import Chart, Figure, HeatMap


def script_data(chapters: Iterable[Chapter]) -> dict[str, Any]:
    """What the script draws, by the name of the figure; the lines of a group have one legend."""
    data: dict[str, Any] = {}
    for chapter in chapters:
        for figure in (*chapter.curves, *chapter.retraining):
            data[chapter.name(figure)] = _figure(figure, chapter.id)
        for figure in (figure for part in chapter.audits for figure in part.figures):
            data[chapter.name(figure)] = _figure(figure, "audits")
        if chapter.metrics is not None:
            for figure in chapter.metrics.curves.values():
                data[chapter.metric_name(figure)] = _figure(figure, chapter.anchor("metrics"))
    return data


def _figure(figure: Figure, group: str) -> dict[str, Any]:
    plots = [_plot(plot) for plot in figure.plots if isinstance(plot, Chart | HeatMap)]
    return {"group": group, "legend": not figure.shared_legend, "plots": plots}


def _plot(plot: Chart | HeatMap) -> dict[str, Any]:
    if isinstance(plot, HeatMap):
        return {**asdict(plot), "kind": "heatmap", "limits": plot.limits}
    return asdict(plot)
