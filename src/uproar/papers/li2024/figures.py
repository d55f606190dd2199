"""Figures of Li et al. 2024: soundness and completeness, what metrics see of values, cues, marked images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from uproar.audits.values import ALL, DISTANCES
from uproar.errors import NotApplicable
from uproar.metrics.soundness import TENTHS
from uproar.papers.claims import if_applicable
from uproar.papers.li2024.synthetic import LEVELS, READ_AT, trials
from uproar.papers.measures import kind_of_marks
from uproar.report.figures import HUES, Chart, Figure, PictureRow, Pictures, Series, Style, Tile, styles
from uproar.report.formatting import LEVEL, NOTHING, clean, known
from uproar.report.paper_figures import (
    BRACKETS,
    ComparisonTable,
    FigureSource,
    PaperFigure,
    metric_chart,
    plain,
    trace_chart,
)
from uproar.results.claim_outcome import sample_text
from uproar.statistics.intervals import Interval

# Figures 3, 7, 8, 9, 12 and 15: curves

BENCHMARKS: dict[str, tuple[str, dict[str, str], str]] = {
    "soundness": ("soundness", {}, "soundness ↑"),
    "completeness": ("completeness", {}, "completeness ↑"),
    "road": ("road", {"fill": "linear"}, "ROAD, most first ↓"),
    "road lerf": ("road_lerf", {}, "ROAD, least first ↑"),
    "deletion": ("road", {"fill": "mean"}, "deletion ↓"),
}
"""Metrics with their options, and the titles of their curves; deletion by accuracy is ROAD with the mean colour."""
_READING = (
    "Soundness: of the attribution shown so far, the share that raised accuracy, over the accuracy reached. "
    "Completeness: accuracy lost when all pixels above a threshold go. Arrows show the better direction. "
    f"Dashed: a random map. Bands: {LEVEL} interval over images."
)


def curves(source: FigureSource, name: str, kinds: Sequence[str], names: Mapping[str, str]) -> PaperFigure:
    """Some maps under some of the benchmarks, a plot per benchmark; `names` are the maps' in the paper."""
    charts = {kind: if_applicable(partial(_chart, source, kind, names), None) for kind in kinds}
    drawn = {kind: chart for kind, chart in charts.items() if chart is not None}
    if not drawn:
        raise NotApplicable(f"the study has not two of its maps under {' or '.join(kinds)}")
    figure = Figure(tuple(drawn.values()), 3 if len(drawn) > 4 else 2)
    return PaperFigure(name, _READING, figure, _numbers(source, drawn, names))


def _chart(source: FigureSource, kind: str, names: Mapping[str, str]) -> Chart:
    metric, options, title = BENCHMARKS[kind]
    draw = trace_chart if kind == "soundness" else metric_chart
    return draw(source, source.evidence.metric(metric, **options), title, names)


def _values(source: FigureSource, kind: str, names: Mapping[str, str]) -> dict[str, float]:
    """The metric's numbers by the paper's names; those the study has."""
    metric, options, _ = BENCHMARKS.get(kind, (kind, {}, ""))
    metric = source.evidence.metric(metric, **options)
    scores = source.view.metric_scores
    rows = pd.DataFrame(columns=["metric", "method", "value"]) if scores is None else scores.table
    values = dict(rows[rows["metric"] == metric][["method", "value"]].to_numpy())
    here = {names[name]: values.get(source.label(name)) for name in source.evidence.available(names)}
    return {label: float(value) for label, value in here.items() if value is not None and known(value)}


def _numbers(source: FigureSource, kinds: Iterable[str], names: Mapping[str, str]) -> ComparisonTable:
    rows = []
    for kind in kinds:
        values = _values(source, kind, names)
        rows.append((kind, *(f"{values[label]:.3f}" if label in values else NOTHING for label in names.values())))
    note = "Soundness at the level of the metric, the others as areas; the paper prints no numbers for its curves."
    return ComparisonTable(("here", *names.values()), tuple(rows), note)


# Table 1

PUBLISHED_DISTANCES = {
    "completeness": "0.503 ± 0.112",
    "soundness": "0.183 ± 0.046",
    "deletion": "0.019 ± 0.011",
    "road": "0.014 ± 0.009",
}


def distances(source: FigureSource) -> PaperFigure:
    """How far apart the curves of changed maps are, by metric."""
    rows = []
    for metric, published in PUBLISHED_DISTANCES.items():
        row = source.evidence.row("values", DISTANCES, metric=metric, changes=ALL)
        interval = Interval(float(row["distance"]), float(row["low"]), float(row["high"]), int(row["n"]))
        seen = sample_text(interval.n, "images", float(row["replicates"]))
        rows.append((metric, published, plain(interval, 3), seen))
    figure = source.audit_figure("values", "values-distance")
    heads = ("smallest Hausdorff distance", "published (ImageNet, VGG-16)", "here", "n")
    note = f"{BRACKETS} The paper does not say what its ± is."
    return PaperFigure("distances", figure.reading, figure, ComparisonTable(heads, tuple(rows), note))


# Figure 6

MAPS = {"truth": "Ground Truth", "removed": "Remove", "introduced": "Introduce"}
TRIALS = 1000


def synthetic(count: int = TRIALS, samples: int = 1000) -> PaperFigure:
    """Maps whose errors are known, on features whose sum is the class: needs neither data nor a network."""
    sound, lost = trials(count, samples)
    thresholds = [1 - ratio for ratio in TENTHS]
    charts = (
        Chart("(a) soundness ↑", _lines(sound, LEVELS), "accuracy", "soundness", (0.0, 1.05), percent=(False, False)),
        Chart(
            *("(b) completeness ↑", _lines(lost, thresholds), "attribution threshold", "accuracy difference"),
            percent=(False, False),
        ),
    )
    half = TENTHS.index(0.5)
    here = {name: (np.nanmean(sound[name][:, READ_AT]), lost[name][:, half].mean()) for name in MAPS}
    rows = [(MAPS[name], f"{a:.3f}", f"{b:.3f}") for name, (a, b) in here.items()]
    reading = f"{count} trials of {samples} samples with 200 normal features. Bands: a standard deviation over trials."
    heads = ("here", "soundness at accuracy 0.9", "accuracy lost at threshold 0.5")
    note = "The paper prints no numbers; its sentence about completeness says the reverse of its definitions."
    return PaperFigure("synthetic", reading, Figure(charts, 2), ComparisonTable(heads, tuple(rows), note))


def _lines(values: Mapping[str, np.ndarray], x: Sequence[float]) -> tuple[Series, ...]:
    """Mean and standard deviation over trials, a line per map."""
    by_name, lines = styles(MAPS), []
    for name, table in values.items():
        reached = np.isfinite(table).mean(0) > 0.5
        mean, sd = np.nanmean(table[:, reached], 0), np.nanstd(table[:, reached], 0)
        across = tuple(np.array(x)[reached].tolist())
        lines.append(Series(MAPS[name], by_name[name], across, mean, mean - sd, mean + sd))
    return tuple(lines)


# Figures 1 and 10

CUES = {
    ("retrained", "centre"): "0.60",
    ("retrained", "centre and cue of the label"): "0.88",
    ("original", "centre"): "0.24",
    ("original", "centre and cue of the label"): "0.29",
}


def cues(source: FigureSource) -> PaperFigure:
    """Accuracy of the retrained and of the original network, with and without a cue of the class in the hole."""
    figure = source.audit_figure("spurious", "spurious")
    holes = _bars_of(source, "spurious").set_index(["network", "removed"])
    rows = tuple(
        (f"{network}, {removed} removed", published, _spread(holes.loc[network, removed]))
        for (network, removed), published in CUES.items()
    )
    return PaperFigure("cues", figure.reading, figure, _cue_table(source, rows))


def edge_cue(source: FigureSource) -> PaperFigure:
    """Accuracy on clean test images of networks trained clean, and with a cue at the edge."""
    figure, bars = source.audit_figure("spurious", "spurious-edge"), _bars_of(source, "spurious-edge")
    words = (("trained clean", "0.887"), ("trained with the cue", "0.322"))
    rows = tuple(
        (what, published, _spread(row)) for (_, row), (what, published) in zip(bars.iterrows(), words, strict=True)
    )
    return PaperFigure("edge-cue", figure.reading, figure, _cue_table(source, rows))


def _bars_of(source: FigureSource, name: str) -> pd.DataFrame:
    return next(plot.data for plot in source.evidence.finding("spurious").plots if plot.name == name)


def _spread(row: pd.Series) -> str:
    return f"{row['accuracy']:.3f} ({row['low']:.3f} to {row['high']:.3f})"


def _cue_table(source: FigureSource, rows: tuple[tuple[str, ...], ...]) -> ComparisonTable:
    heads = ("accuracy", "published (CIFAR-10)", f"here ({source.view.task})")
    return ComparisonTable(heads, rows, "In brackets the smallest and the largest of the replicates.")


def holes(source: FigureSource, name: str, fraction: float, names: Mapping[str, str]) -> PaperFigure:
    """Training images as strategies of removal leave them: images in rows, strategies in columns."""
    labels = {wanted: source.label(wanted) for wanted in names if source.evidence.available([wanted])}
    rows = []
    for picture in source.view.pictures:
        tiles = [picture.changed.get(("roar", label, fraction)) for label in labels.values()]
        if all(tile is not None for tile in tiles):
            rows.append(PictureRow(clean(picture.title), tuple(Tile(tile) for tile in tiles), picture.image))
    if not rows or not labels:
        raise NotApplicable("the study has no pictures of images without their centre, and with a cue of the label")
    plot = Pictures(tuple(names[wanted] for wanted in labels), tuple(rows))
    return PaperFigure(name, "Rows: test images of different classes.", Figure((plot,), 1))


# Figures 2 and 11

PUBLISHED_MARKS = {"number": {"Rect": "0.92", "Pooling": "0.31"}, "stripes": {"Rect": "0.60", "Pooling": "0.93"}}
"""By how images are marked. The text of the figure has only the sequence .92, .60, .31, .93; which bar is which is
inferred. Pooling is constant along a row, so on a number it cannot exceed the mark's share of the width (about .3);
Rect on stripes at .31 would lie below the share of white rows (.45).
"""


def marks(source: FigureSource, names: Mapping[str, str]) -> PaperFigure:
    """How much of a map lies on what was marked: bars."""
    kind = kind_of_marks(source.evidence)
    if kind not in PUBLISHED_MARKS:
        raise NotApplicable(f"it is about marked images, not {source.evidence.task}")
    here = _values(source, "attr_percent", names)
    if not {"Rect", "Pooling"} <= set(here):
        raise NotApplicable("the study has not both rect(ig) and pooling(ig)")
    published = PUBLISHED_MARKS[kind]
    rows = tuple((label, published.get(label, NOTHING), f"{value:.3f}") for label, value in here.items())
    reading = "Rect knows that a rectangle marks the class, Pooling that stripes do: each should win on its own images."
    bars = tuple(
        Series(label, Style(hue), (label,), (here[label],))
        for label, hue in zip(("Rect", "Pooling"), HUES, strict=False)
    )
    chart = Chart("Attr %", bars, "", "share on the mark", (0.0, 1.0), kind="bars", percent=(False, True))
    heads = ("share of attribution on the mark", "published (CIFAR-100)", f"here ({source.view.task})")
    note = "Which published number belongs to which bar is inferred; the text of the figure has only their sequence."
    return PaperFigure("marks", reading, Figure((chart,), 1), ComparisonTable(heads, rows, note))
