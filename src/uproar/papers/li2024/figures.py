"""Figures of Li et al. 2024: soundness and completeness, what metrics see of values, cues, marked images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from uproar.audits.synthetic import KNOWN_ANSWER
from uproar.audits.values import ALL, DISTANCES
from uproar.errors import NotApplicable
from uproar.papers.claims import if_applicable
from uproar.papers.evidence import ClaimEvidence
from uproar.papers.measures import kind_of_marks, part
from uproar.report.figures import Chart, Figure
from uproar.report.formatting import LEVEL, NOTHING, known, percent
from uproar.report.paper_figures import (
    BRACKETS,
    ComparisonTable,
    FigureSource,
    PaperFigure,
    metric_chart,
    paper_figure,
    plain,
    trace_chart,
)
from uproar.results.claim_outcome import Measure, sample_text
from uproar.statistics.intervals import Interval
from uproar.wording import series

PAPER = "li2024"
RECT, POOLING = "rect(ig)", "pooling(ig)"
ENSEMBLES = {"ig": "IG", "sg(ig)": "IG-SG", "sg_sq(ig)": "IG-SQ", "var(ig)": "IG-Var"}
METHODS = {
    "grad_cam": "GradCAM",
    "extremal_perturbation": "ExPerturb",
    "deep_shap": "DeepSHAP",
    "deep_lift": "DeepSHAP (one baseline)",
    "ig": "IG",
    "iba": "IBA",
    "input_iba": "InputIBA",
}
"""With the one baseline 0, as in the paper, DeepSHAP is DeepLIFT."""
BENCHMARKS: dict[str, tuple[str, dict[str, str], str]] = {
    "soundness": ("soundness", {}, "soundness ↑"),
    "completeness": ("completeness", {}, "completeness ↑"),
    "road": ("road", {"fill": "linear"}, "ROAD, most first ↓"),
    "road lerf": ("road_lerf", {}, "ROAD, least first ↑"),
    "deletion (accuracy)": ("road", {"fill": "mean"}, "deletion ↓"),
}
"""Metrics with their options, and the titles of their curves; deletion by accuracy is ROAD with the mean colour."""
SOUND_AND_COMPLETE = ("soundness", "completeness")
MARKED = {"ig": "IG", "grad_cam": "GradCAM", "deep_shap": "DeepSHAP", RECT: "Rect", POOLING: "Pooling"}
_READING = (
    "Soundness: of the attribution shown so far, the share that raised accuracy, over the accuracy reached; "
    "completeness: accuracy lost when all pixels above a threshold go; for both, higher is better. "
)


def _charts(source: FigureSource, names: Mapping[str, str], kinds: Sequence[str]) -> dict[str, Chart]:
    """The curves of some estimators by benchmark; those that the study has."""

    def chart(kind: str) -> Chart:
        metric, options, title = BENCHMARKS[kind]
        draw = trace_chart if kind == "soundness" else metric_chart
        return draw(source, source.evidence.metric(metric, **options), title, names)

    charts = {kind: if_applicable(partial(chart, kind), None) for kind in kinds}
    return {kind: one for kind, one in charts.items() if one is not None}


def _value(evidence: ClaimEvidence, metric: str, name: str) -> float:
    """A metric's number for an estimator, whatever its options; NaN where there is none."""
    scores = evidence.results.metric_scores.get((evidence.task, evidence.model))
    if scores is None or not evidence.available([name]):
        return float("nan")
    rows = scores.table[(scores.table["metric"] == metric) & (scores.table["method"] == evidence.estimator(name))]
    return float(rows["value"].iloc[0]) if len(rows) else float("nan")


def _best(source: FigureSource, kind: str, names: Mapping[str, str]) -> str:
    metric = source.evidence.metric(kind)
    values = {label: _value(source.evidence, metric, name) for name, label in names.items()}
    real = {label: v for label, v in values.items() if known(v)}
    if not real:
        return f"{kind} of none is known"
    top = max(real.values())
    best = [label for label, v in real.items() if top - v < 0.0005]
    return f"the highest value of {kind} is that of {series(best)} ({top:.3f})"


# Figures 8 and 15


@paper_figure(PAPER, "Figures 8 and 15")
def ensembles(source: FigureSource) -> PaperFigure:
    """IG and its ensembles under all benchmarks."""
    charts = _charts(source, ENSEMBLES, list(BENCHMARKS))
    if "soundness" not in charts and "completeness" not in charts:
        raise NotApplicable("the study has not IG and its ensembles under soundness or completeness")
    parts = [_gain(source, kind) for kind in SOUND_AND_COMPLETE if kind in charts]
    title = f"Ensembles of IG: {series([part for part in parts if part])}"
    reading = f"{_READING}Arrows show the better direction. Dashed: a random map. Bands: {LEVEL} interval over images."
    return PaperFigure("ensembles", title, reading, Figure(tuple(charts.values()), 3))


def _gain(source: FigureSource, kind: str) -> str:
    """How many ensembles have surely more of something than IG, and surely less, by the intervals of the claims."""
    metric, names = source.evidence.metric(kind), [name for name in ENSEMBLES if name != "ig"]
    parts = [part(source.evidence.gap, metric, name, "ig") for name in names]
    sides = [one.interval.side for one in parts if isinstance(one, Measure)]
    if not sides:
        return ""
    return f"{sides.count(1)} of {len(sides)} have surely more {kind} than IG, {sides.count(-1)} surely less"


# Figure 9


@paper_figure(PAPER, "Figure 9")
def methods(source: FigureSource) -> PaperFigure:
    """Soundness and completeness of different methods."""
    charts = _charts(source, METHODS, SOUND_AND_COMPLETE)
    if not charts:
        raise NotApplicable("the study has not two of its methods under soundness or completeness")
    title = series([_best(source, kind, METHODS) for kind in charts])
    title = title[0].upper() + title[1:]
    reading = f"{_READING}Dashed: a random map. Bands: {LEVEL} interval over images."
    return PaperFigure("methods", title, reading, Figure(tuple(charts.values()), 2), _numbers(source))


def _numbers(source: FigureSource) -> ComparisonTable:
    names = {n: label for n, label in (ENSEMBLES | METHODS).items() if source.evidence.available([n])}
    rows = []
    for label, (kind, options, _) in BENCHMARKS.items():
        metric = if_applicable(partial(source.evidence.metric, kind, **options), "")
        values = [_value(source.evidence, metric, n) for n in names]
        rows += [(label, *(f"{v:.3f}" if known(v) else NOTHING for v in values))] if metric else []
    note = "Soundness at the level of the metric, the others as areas; the paper prints no numbers for these figures."
    return ComparisonTable(("here", *names.values()), tuple(rows), note)


# Table 1

PUBLISHED_DISTANCES = {
    "completeness": "0.503 ± 0.112",
    "soundness": "0.183 ± 0.046",
    "deletion": "0.019 ± 0.011",
    "road": "0.014 ± 0.009",
}


@paper_figure(PAPER, "Table 1")
def distances(source: FigureSource) -> PaperFigure:
    """How far apart the curves of changed maps are, by metric."""
    rows, here = [], {}
    for metric, published in PUBLISHED_DISTANCES.items():
        row = source.evidence.row("values", DISTANCES, metric=metric, changes=ALL)
        interval = Interval(float(row["distance"]), float(row["low"]), float(row["high"]), int(row["n"]))
        here[metric] = interval
        seen = sample_text(interval.n, "images", float(row["replicates"]))
        rows.append((metric, published, plain(interval, 3), seen))
    least = min(here[metric].low for metric in SOUND_AND_COMPLETE)
    most = max(here[metric].high for metric in ("deletion", "road"))
    title = (
        f"Curves of maps with changed values surely lie {least:.3f} or more apart under completeness and soundness, "
        f"and {most:.3f} or less under deletion and ROAD"
    )
    figure = source.audit_figure("values", "values-distance")
    heads = ("smallest Hausdorff distance", "published (ImageNet, VGG-16)", "here", "n")
    return PaperFigure(
        "distances",
        title,
        figure.reading,
        figure,
        ComparisonTable(heads, tuple(rows), f"{BRACKETS} The paper does not say what its ± is."),
    )


# Figure 6


@paper_figure(PAPER, "Figure 6")
def synthetic(source: FigureSource) -> PaperFigure:
    """Maps whose errors are known."""
    maps, kinds = ("truth", "removed", "introduced"), ("completeness", "soundness")
    rows, means = [], dict[tuple[str, str], float]()
    for kind in kinds:
        row = [source.evidence.row("values", KNOWN_ANSWER, map=name, metric=kind) for name in maps]
        means |= {(kind, n): float(r["mean"]) for n, r in zip(maps, row, strict=True)}
        rows.append((kind, *(f"{r['mean']:.3f} ± {r['sd']:.3f}" for r in row), str(int(row[0]["trials"]))))
    title = (
        "Where the answer is known, removing attribution takes completeness from "
        f"{means['completeness', 'truth']:.2f} to {means['completeness', 'removed']:.2f}, introducing it takes "
        f"soundness from {means['soundness', 'truth']:.2f} to {means['soundness', 'introduced']:.2f}"
    )
    reading = (
        "Linear model of 200 normal features: the true map, half of its attribution removed, as much introduced "
        "elsewhere."
    )
    heads = ("mean ± standard deviation", "true map", "removed", "introduced", "trials")
    note = "The paper prints no numbers; its sentence about completeness says the reverse of its figure."
    return PaperFigure("synthetic", title, reading, table=ComparisonTable(heads, tuple(rows), note))


# Figures 1 and 10

CUES = (
    ("retrained, centre removed", "retrained", "centre", "0.60"),
    ("retrained, centre and a cue of the class removed", "retrained", "centre and cue of the label", "0.88"),
    ("original, centre removed", "original", "centre", "0.24"),
    ("original, centre and a cue of the class removed", "original", "centre and cue of the label", "0.29"),
)


@paper_figure(PAPER, "Figures 1 and 10")
def cues(source: FigureSource) -> PaperFigure:
    """Accuracy with and without a cue of the class in the hole."""
    plots = {plot.name: plot.data for plot in source.evidence.finding("spurious").plots}
    holes, edge = plots["spurious"], plots["spurious-edge"]
    rows, here = [], {}
    for what, network, removed, published in CUES:
        own = holes[(holes["network"] == network) & (holes["removed"] == removed)].iloc[0]
        here[network, removed] = float(own["accuracy"])
        rows.append((what, published, _bar(own)))
    for (_, own), (what, published) in zip(
        edge.iterrows(),
        (("clean test images, trained clean", "0.887"), ("clean test images, trained with the cue", "0.322")),
        strict=True,
    ):
        rows.append((what, published, _bar(own)))
    gains = [here[n, "centre and cue of the label"] - here[n, "centre"] for n in ("retrained", "original")]
    title = (
        f"A hole that gives the class away is worth {100 * gains[0]:+.0f} accuracy points to a retrained network and "
        f"{100 * gains[1]:+.0f} to the original one; published: +28 and +5"
    ).replace("-", "−")
    figure = source.audit_figure("spurious", "spurious")
    heads = ("accuracy", "published (CIFAR-10)", f"here ({source.view.task})")
    note = "In brackets the smallest and the largest of the replicates."
    return PaperFigure("cues", title, figure.reading, figure, ComparisonTable(heads, tuple(rows), note))


def _bar(row: pd.Series) -> str:
    return f"{row['accuracy']:.3f} ({row['low']:.3f} to {row['high']:.3f})"


# Figure 2

ATTRIBUTION = {"number": {"Rect": "0.92", "Pooling": "0.31"}, "stripes": {"Rect": "0.60", "Pooling": "0.93"}}
"""By how images are marked. The text of the figure has only the sequence .92, .60, .31, .93; which bar is which is
inferred. Pooling is constant along a row, so on a number it cannot exceed the mark's share of the width (about .3);
Rect on stripes at .31 would lie below the share of white rows (.45).
"""
INFERRED = "Which published number belongs to which bar is inferred; the text of the figure has only their sequence."


@paper_figure(PAPER, "Figure 2")
def marks(source: FigureSource) -> PaperFigure:
    """How much of a map lies on what was marked."""
    kind, metric = kind_of_marks(source.evidence), source.evidence.metric("attr_percent")
    if kind not in ATTRIBUTION:
        raise NotApplicable(f"it is about marked images, not {source.evidence.task}")
    here = {label: _value(source.evidence, metric, name) for name, label in MARKED.items()}
    published = ATTRIBUTION[kind]
    rows = tuple(
        (label, published.get(label, NOTHING), f"{value:.3f}") for label, value in here.items() if known(value)
    )
    if not known(here["Rect"]) or not known(here["Pooling"]):
        raise NotApplicable("the study has not both rect(ig) and pooling(ig)")
    first, second = sorted(("Rect", "Pooling"), key=lambda label: -here[label])
    title = (
        f"On images marked by {kind}, {first} puts {percent(here[first], 0)} of its attribution on the mark, {second} "
        f"{percent(here[second], 0)}"
    )
    reading = "Rect knows that a rectangle marks the class, Pooling that stripes do: each should win on its own images."
    heads = ("share of attribution on the mark", "published (CIFAR-100)", f"here ({source.view.task})")
    return PaperFigure("marks", title, reading, table=ComparisonTable(heads, rows, INFERRED))


# Figures 3 and 12


@paper_figure(PAPER, "Figures 3 and 12")
def road(source: FigureSource) -> PaperFigure:
    """ROAD of crafted and real maps."""
    evidence = source.evidence
    if not evidence.available([RECT]):
        raise NotApplicable("the study has no rect(ig)")
    kind = kind_of_marks(evidence)
    metric = evidence.metric("road")
    what = f"ROAD on images marked by {kind}" if kind else "ROAD on images without marks"
    chart = metric_chart(source, metric, "ROAD, most important first", MARKED)
    values = {label: _value(evidence, metric, name) for name, label in MARKED.items()}
    real = {label: v for label, v in values.items() if known(v)}
    order = sorted(real, key=lambda label: real[label])
    title = f"{what}, from the lowest value to the highest: {', '.join(order)}"
    reading = f"Accuracy while pixels go, most important first: lower is better. Bands: {LEVEL} interval over images."
    return PaperFigure("road", title, reading, Figure((chart,), 1))
