"""Figures and tables of papers, drawn from a study's results in the paper's layout, beside its numbers.

They are data in each `paper.toml`, which names a function of the paper's `figures.py`, or of this module. A function
raises `NotApplicable` where the study lacks what the figure is of; the reason is shown in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pandas as pd

from uproar.errors import BadInput, NotApplicable, one_line
from uproar.metrics.registry import metrics, read_metric
from uproar.metrics.retraining import RETRAININGS
from uproar.papers import title_of
from uproar.papers.evidence import ClaimEvidence, without_options
from uproar.papers.exhibits import Exhibit, exhibits
from uproar.report.drawing import draw, map_colours, scaled_map
from uproar.report.figures import Chart, Figure, PictureRow, Pictures, Series, Style, Tile, limits_of, styles
from uproar.report.formatting import LEVEL, NOTHING, clean, known, percent, slug
from uproar.report.study_figures import audit_figure, curve_series, estimator_styles, mean_at, metric_curves, series_of
from uproar.results.study import Results, StudyView
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, mean_interval

SHOWN = 4
"""Images that a figure of maps shows."""


@dataclass(frozen=True)
class ComparisonTable:
    """Numbers of a paper and of this study, side by side, as they are printed."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class PaperFigure:
    """What a paper shows, from the numbers of a study."""

    name: str
    """Of its file: lower case, no spaces."""
    reading: str
    """How to read it."""
    figure: Figure | None = None
    table: ComparisonTable | None = None
    title: str = ""
    """What it shows: the caption in `paper.toml`."""
    paper: str = ""
    location: str = ""
    """Where the paper has it."""


@dataclass(frozen=True)
class FigureSource:
    """One task and model of a study, in the words of claims and in those of the report."""

    evidence: ClaimEvidence
    view: StudyView
    styles: Mapping[str, Style]
    """By estimator, as elsewhere in the report."""
    curves: Mapping[str, Figure]
    """Of the metrics."""

    @classmethod
    def of(cls, view: StudyView, by_name: Mapping[str, Style]) -> FigureSource:
        """That of one view of a study's results."""
        scores = view.metric_scores
        curves = {} if scores is None else metric_curves(scores, by_name)
        evidence = ClaimEvidence(view.results, view.task, view.model)
        return cls(evidence, view, by_name, curves)

    def label(self, wanted: str, metric: str | None = None) -> str:
        """The name under which the report has an estimator, whatever its options."""
        return str(self.evidence.estimator(wanted, metric))

    def series(self, metric: str, label: str) -> Series:
        """One estimator's line under one metric."""
        return series_of(self.view, metric, label, self.styles)

    def accuracy(self, metric: str, label: str, fraction: float) -> float:
        """Mean accuracy over the replicates; NaN where there is none."""
        return mean_at(self.view, metric, label, fraction)

    def audit_figure(self, audit: str, plot: str) -> Figure:
        """A plot of one of the study's audits, with the report's styles."""
        for candidate in self.evidence.finding(audit).plots:
            if candidate.name == plot:
                return audit_figure(candidate, audit, self.styles)
        raise NotApplicable(f"the audit {audit} has no plot {plot!r} here")

    def style(self, label: str) -> Style:
        """The style an estimator has elsewhere in the report."""
        return self.styles.get(label) or styles([label])[label]


def drawn_by(shown: Exhibit, *source: FigureSource) -> PaperFigure:
    """A figure or table, drawn by the function that its entry names; one that needs no study is drawn without any."""
    functions = {**globals(), **vars(import_module(f"uproar.papers.{shown.paper}.figures"))}
    drawing: PaperFigure = functions[shown.draw](*source, **shown.options)
    return replace(drawing, title=shown.caption.rstrip("."), location=shown.place)


def figures_of_papers(
    source: FigureSource, papers: Sequence[str]
) -> tuple[list[PaperFigure], dict[tuple[str, str], list[str]]]:
    """The figures of some papers as far as the study can draw them; where a paper has the others, by it and the reason.

    Figures of a paper that differ in their data alone are one here.
    """
    drawn: dict[str, PaperFigure] = {}
    undrawn: dict[tuple[str, str], list[str]] = {}
    for shown in (exhibit for key in papers for exhibit in exhibits(key) if exhibit.draw and exhibit.study):
        paper, location = title_of(shown.paper), shown.place
        try:
            drawing = drawn_by(shown, source)
        except NotApplicable as error:
            undrawn.setdefault((paper, clean(one_line(error))), []).append(location)
            continue
        name, title = f"paper-{shown.paper}-{drawing.name}", drawing.title
        if name in drawn:
            title, location = drawn[name].title, f"{drawn[name].location}, {location}"
        named = f"{title} ({paper}, {location})"
        figure = drawing.figure and replace(drawing.figure, name=name, title=named, reading=drawing.reading)
        drawn[name] = replace(drawing, name=name, title=title, figure=figure, paper=paper, location=location)
    return list(drawn.values()), undrawn


def exhibit_files(results: Results | None, shown: Exhibit) -> dict[str, bytes]:
    """The files of one figure or table of a paper, drawn from a study; its tasks and networks side by side.

    One that needs no study is drawn without results.
    """
    drawings: list[tuple[str, PaperFigure]] = []
    reason = ""
    if results is None:
        drawings.append(("", drawn_by(shown)))
    else:
        by_name = estimator_styles(results)
        for index, view in enumerate(results.views):
            where = shown.panels[index] if shown.panels else view.task
            try:
                drawings.append((where, drawn_by(shown, FigureSource.of(view, by_name))))
            except NotApplicable as error:
                reason = reason or one_line(error)
    if not drawings:
        raise BadInput(f"{title_of(shown.paper)}, {shown.place}, cannot be drawn from this study: {reason}.")
    heading = f"{title_of(shown.paper)}, {shown.place}."
    files = {f"{shown.file}.md": f"{heading}\n\n{shown.caption}\n\n{drawings[0][1].reading}\n".encode()}
    sheets = [(where, drawing.figure) for where, drawing in drawings if drawing.figure is not None]
    charts = [
        replace(plot, title=f"{where}: {plot.title}" if len(sheets) > 1 else plot.title)
        for where, figure in sheets
        for plot in figure.plots
        if not isinstance(plot, Pictures)
    ]
    together = [Figure(tuple(charts), max(sheets[0][1].columns, min(len(sheets), 3)))] if charts else []
    together += [Figure((plot,)) for _, figure in sheets for plot in figure.plots if isinstance(plot, Pictures)]
    for number, figure in enumerate(together, 1):
        stem = shown.file if len(together) == 1 else f"{shown.file}-{number}"
        files |= {f"{stem}.{kind}": draw(figure, kind) for kind in ("png", "svg")}
    for where, drawing in drawings:
        if drawing.table is not None:
            stem = shown.file if len(drawings) == 1 else f"{shown.file}-{slug([where])}"
            frame = pd.DataFrame(list(drawing.table.rows), columns=list(drawing.table.heads))
            files[f"{stem}.csv"] = frame.to_csv(index=False).encode()
    return files


# maps


def maps_figure(source: FigureSource, name: str, names: Mapping[str, str]) -> PaperFigure:
    """A figure of images and their maps."""
    reading = "Rows: test images; columns: their maps. Red counts for the class, blue against it."
    return PaperFigure(name, reading, Figure((map_pictures(source, names),), 1))


def map_pictures(source: FigureSource, names: Mapping[str, str]) -> Pictures:
    """Images in rows, with their maps by some estimators in columns; `names` are theirs in the paper."""
    exact = {name for picture in source.view.pictures for name in picture.maps}
    labels = {
        wanted if wanted in exact else source.label(wanted): label
        for wanted, label in names.items()
        if wanted in exact or source.evidence.available([wanted])
    }
    rows = [
        PictureRow(
            clean(picture.title),
            tuple(Tile(map_colours(scaled_map(picture.maps[name]))) for name in labels),
            picture.image,
        )
        for picture in source.view.pictures[:SHOWN]
        if set(labels) <= set(picture.maps)
    ]
    if not rows or not labels:
        raise NotApplicable("the study has no maps of its estimators")
    return Pictures(tuple(labels.values()), tuple(rows))


def changed_images(source: FigureSource, metric: str, names: Mapping[str, str], across: str = "fractions") -> Figure:
    """One image as a metric changes it, a row per estimator and a column per fraction; `names` are the paper's.

    Above each image stands the accuracy of networks trained on such images. With `across = "estimators"` an estimator
    is a column and a fraction a row.
    """
    changed: dict[tuple[str, float], Any] = {}
    for picture in source.view.pictures:
        changed = {(e, t): pixels for (p, e, t), pixels in picture.changed.items() if p == metric}
        if changed:
            break
    shown = [name for name in names if any(name == estimator for estimator, _ in changed)]
    if len(shown) < 2:
        raise NotApplicable(f"the study has no pictures of {metric} by two of its estimators")
    declared, fractions, columns = RETRAININGS[metric], sorted({t for _, t in changed}), []
    for t in fractions:
        means = {name: source.accuracy(metric, name, t) for name in shown}
        best = (max if declared.higher_is_better else min)(filter(known, means.values()), default=None)
        columns.append([Tile(changed.get((name, t)), percent(mean), mean == best) for name, mean in means.items()])
    heads, labels = [f"{percent(t, 0)} {declared.fraction_means}" for t in fractions], [names[name] for name in shown]
    rows = list(zip(*columns, strict=True))
    if across == "estimators":
        heads, labels, rows = labels, heads, [tuple(column) for column in columns]
    pictures = (PictureRow(label, tiles, picture.image) for label, tiles in zip(labels, rows, strict=True))
    reading = (
        f"Above each image: test {source.view.score_name} on images changed this way, mean over replicates. "
        f"{'Higher' if declared.higher_is_better else 'Lower'} is better; the best estimator is bold."
    )
    return Figure((Pictures(tuple(heads), tuple(pictures), clean(picture.caption)),), reading=reading)


# curves of metrics


def metric_chart(source: FigureSource, metric: str, title: str, names: Mapping[str, str]) -> Chart:
    """The mean curves of some estimators under a metric, and random's; `names` are theirs in the paper."""
    figure = source.curves.get(metric)
    if figure is None:
        raise NotApplicable(f"{metric} has no curve yet")
    return _named_chart(replace(figure.charts[0], title=title, level=None), names)


def trace_chart(source: FigureSource, metric: str, title: str, names: Mapping[str, str]) -> Chart:
    """The same for a statistic of the data set over its levels."""
    scores = source.view.metric_scores
    curves = None if scores is None else scores.traces.get(metric)
    if curves is None:
        raise NotApplicable(f"{metric} has no curve over levels")
    trace = metrics[read_metric(metric).name].facts["trace"]
    chart = Chart(title, curve_series(curves, source.styles, metric), trace.x, trace.y, (0, 1), percent=(True, False))
    return _named_chart(chart, names)


def _named_chart(chart: Chart, names: Mapping[str, str]) -> Chart:
    curves = {without_options(s.label): s for s in chart.series}
    wanted = {name: label for choices, label in names.items() for name in choices.split("|")}
    shown = {BASELINE: BASELINE, **wanted}
    lines = tuple(replace(curves[name], label=label) for name, label in shown.items() if name in curves)
    if len(lines) < 2:
        raise NotApplicable("the study has fewer than two of its estimators")
    means = [v for s in lines for v in s.y]
    low, high = limits_of(means)
    room = 0.25 * (high - low)
    sides = [v for s in lines for side in (s.low, s.high) for v in side if known(v)]
    ends = [v for v in sides if low - room <= v <= high + room]
    return replace(chart, series=lines, y_range=limits_of([*means, *ends]))


# words


def share(interval: Interval) -> str:
    """A share with its interval, in percent.

    >>> share(Interval(0.5, 0.4, 0.61, 3)).replace("\u00a0", " ")
    '50.0 % (40.0 to 61.0)'
    """
    return _with_interval(interval, percent(interval.value), "{:.1f}", 100)


def plain(interval: Interval, digits: int = 2) -> str:
    """A number as it is, with its interval."""
    form = f"{{:.{digits}f}}"
    return _with_interval(interval, form.format(interval.value), form)


def _with_interval(interval: Interval, value: str, form: str, scale: float = 1) -> str:
    if not known(interval.value):
        return NOTHING
    if known(interval.low) and known(interval.high):
        ends = (form.format(scale * end) for end in (interval.low, interval.high))
        value = f"{value} ({' to '.join(ends)})"
    return value.replace("-", "−")


def over_replicates(values: pd.Series) -> Interval:
    """The mean of one number per replicate."""
    return mean_interval(values.to_numpy(dtype=float))


BRACKETS = f"In brackets the {LEVEL} interval."
