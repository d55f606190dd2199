"""Figures of Hooker et al. 2019: ROAR and KAR of single estimates and of their ensembles, retraining, the pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd

from uproar.errors import NotApplicable
from uproar.papers.claims import if_applicable, read_shared
from uproar.report.figures import Chart, Figure, Pictures, share_limits, styles
from uproar.report.formatting import LEVEL, percent, points
from uproar.report.paper_figures import (
    BRACKETS,
    ComparisonTable,
    Draw,
    FigureSource,
    PaperFigure,
    gap,
    over_replicates,
    paper_figure,
    share,
)
from uproar.report.study_figures import retraining_figures, with_best, x_label
from uproar.statistics.design import BASELINE
from uproar.wording import series

PAPER = "hooker2019"
ROAR, KAR, UNTRAINED, CONTROLLED = "roar", "kar", "roar:no-retrain", "decoupled"
RANDOM = f"bernoulli|{BASELINE}"
"""Coin flips, as in the paper, or a random ranking."""
SINGLE = read_shared(__file__)["single"]
NAMES = {"grad": "Grad", "guided_backprop": "GB", "ig": "IG"}
VARIANTS = {"single": "{}", "SG": "sg({})", "SQ": "sq({})", "SG-SQ": "sg_sq({})", "VAR": "var({})"}
"""What is done to a single estimate, as the paper calls it; VAR is from its NeurIPS version."""
ENSEMBLES = ("SG", "SG-SQ", "VAR")
"""Those that are made of several noisy estimates; squaring alone is none."""


TITLES = {ROAR: "ROAR", CONTROLLED: "decoupled", KAR: "KAR"}


def name_of(base: str, variant: str) -> str:
    """An estimate in the paper's words.

    >>> name_of("ig", "SG-SQ"), name_of("grad", "single")
    ('SG-SQ-IG', 'Grad')
    """
    return NAMES[base] if variant == "single" else f"{variant}-{NAMES[base]}"


def _variants(source: FigureSource, base: str, protocol: str) -> dict[str, str]:
    """Those that have a curve, by variant; the report's names."""
    there = set(source.view.intervals[protocol]["estimator"]) if protocol in source.view.intervals else ()
    labels = {}
    for variant, form in VARIANTS.items():
        for wanted in source.evidence.available([form.format(base)], protocol):
            if (label := source.label(wanted, protocol)) in there:
                labels[variant] = label
    return labels


def _chart(source: FigureSource, base: str, protocol: str) -> Chart | None:
    names = _variants(source, base, protocol)
    if not names:
        return None
    by_name = styles([BASELINE, *VARIANTS])  # the same in all plots
    curves = {variant: source.series(protocol, names.get(variant, BASELINE)) for variant in (BASELINE, *names)}
    series = [replace(curve, label=variant, style=by_name[variant]) for variant, curve in curves.items()]
    also = " and ensembles" if len(names) > 1 else ""
    return Chart(
        f"{TITLES[protocol]}: {NAMES[base]}{also}",
        tuple(series),
        x_label(source.view, protocol),
        "test accuracy",
        (0.0, 1.0),
        level=source.view.chance,
    )


def _deepest(source: FigureSource) -> float:
    """The fraction at which estimators differ most under ROAR in the paper, or the nearest that the study has."""
    fractions = [float(t) for t in source.evidence.accuracy(ROAR, BASELINE).columns if t > 1e-9]
    if not fractions:
        raise NotApplicable("no fraction of roar is finished for random")
    return min(fractions, key=lambda t: abs(t - 0.9))


def _reached(source: FigureSource, t: float) -> dict[str, float]:
    """Mean accuracy under ROAR at one fraction, by the paper's names."""
    labels = {"random": BASELINE}
    for base in SINGLE:
        labels |= {name_of(base, variant): label for variant, label in _variants(source, base, ROAR).items()}
    return {name: source.accuracy(ROAR, label, t) for name, label in labels.items()}


@paper_figure(PAPER, "Figures 5 and 6")
def ensembles(source: FigureSource) -> PaperFigure:
    """ROAR above KAR, a plot per single estimate with its ensembles and random."""
    rows = [[w for base in NAMES if (w := _chart(source, base, protocol)) is not None] for protocol in TITLES]
    if not rows[0]:
        raise NotApplicable("the study has no ROAR of gradient, guided backprop or integrated gradients")
    charts = [chart for row in rows for chart in row]
    limits = share_limits([line for chart in charts for line in chart.series], source.view.chance)
    alike = tuple(replace(chart, y_range=limits) for chart in charts)  # one upright axis, so that plots can be compared
    reading = (
        "ROAR removes pixels most important first (lower is better), KAR keeps only those (higher is better). "
        "Decoupled ROAR, which the paper does not have, removes so that masks cannot give the class away. "
        f"Dashed: a random ranking. Dotted: chance. Bands: {LEVEL} interval over replicates."
    )
    return PaperFigure(
        "roar-kar", _curves_title(source), reading, Figure(alike, max(map(len, rows))), _published(source)
    )


def _curves_title(source: FigureSource) -> str:
    t = _deepest(source)
    reached = _reached(source, t)
    parts = [f"random {percent(reached.pop('random'))}"]
    for what, variants in (("best single estimate", ["single"]), ("best ensemble", ENSEMBLES)):
        names = [name_of(base, variant) for base in SINGLE for variant in variants]
        there = [n for n in names if n in reached]
        if there:
            best = min(there, key=lambda n: reached[n])
            parts.append(f"the {what} ({best}) {percent(reached[best])}")
    return f"Accuracy left with {percent(t, 0)} removed: {series(parts)}"


# published numbers


def _at(source: FigureSource, wanted: str, t: float, protocol: str = ROAR) -> pd.Series:
    return source.evidence.at(protocol, wanted, t)


def _accuracy(wanted: str, t: float) -> Callable[[FigureSource], str]:
    return lambda source: share(over_replicates(_at(source, wanted, t)))


def _difference(wanted: str, other: str, t: float = 0.9) -> Callable[[FigureSource], str]:
    return lambda source: gap(over_replicates(_at(source, wanted, t) - _at(source, other, t)))


def _range(protocol: str, t: float) -> Callable[[FigureSource], str]:
    """Between the highest and the lowest of the single estimates and their SG-SQ ensembles."""

    def measured(source: FigureSource) -> str:
        names = source.evidence.available([f.format(b) for b in SINGLE for f in ("{}", "sg_sq({})")], protocol)
        if len(names) < 2:
            raise NotApplicable("fewer than two estimators")
        table = pd.DataFrame({n: _at(source, n, t, protocol) for n in names})
        return gap(over_replicates(table.max(axis=1) - table.min(axis=1)))

    return measured


PUBLISHED: tuple[tuple[str, str, Callable[[FigureSource], str]], ...] = (
    ("nothing removed", "76.16 ± 0.15 %", _accuracy(BASELINE, 0.0)),
    ("random, 90 % removed", "63.71 ± 0.13 %", _accuracy(RANDOM, 0.9)),
    ("random, 99 % removed", "45.40 %", _accuracy(RANDOM, 0.99)),
    ("Grad, 90 % removed", "67.76 %", _accuracy("grad", 0.9)),
    ("IG, 90 % removed", "67.52 %", _accuracy("ig", 0.9)),
    ("SG-SQ-Grad, 90 % removed", "10.78 ± 7.85 %", _accuracy("sg_sq(grad)", 0.9)),
    ("SG-SQ-GB, 90 % removed", "17 ± 3.45 %", _accuracy("sg_sq(guided_backprop)", 0.9)),
    ("SG-Grad minus Grad, 90 % removed, points", "+2.52", _difference("sg(grad)", "grad")),
    ("SG-IG minus IG, 90 % removed, points", "+2.6", _difference("sg(ig)", "ig")),
    ("SG-GB minus GB, 90 % removed, points", "−4.13", _difference("sg(guided_backprop)", "guided_backprop")),
    ("SQ-Grad minus Grad, 90 % removed, points", "−5.45", _difference("sq(grad)", "grad")),
    ("SG-SQ-Grad minus Grad, 90 % removed, points", "−56.97", _difference("sg_sq(grad)", "grad")),
    ("SQ-GB minus GB, 90 % removed, points", "−8.43 ± 0.97", _difference("sq(guided_backprop)", "guided_backprop")),
    ("range of estimators under ROAR, 90 % removed, points", "59.6", _range(ROAR, 0.9)),
    ("range of estimators under KAR, 10 % kept, points", "7.08", _range(KAR, 0.1)),
)
"""What, as published (ImageNet, ResNet-50), and how it is computed here."""


def _published(source: FigureSource) -> ComparisonTable:
    data = f"{source.view.task}, {source.view.model}"
    return ComparisonTable(
        ("test accuracy after retraining", "published (ImageNet, ResNet-50)", f"here ({data})"),
        tuple(
            (what, published, if_applicable(partial(here, source), "not tested")) for what, published, here in PUBLISHED
        ),
        f"{BRACKETS} The paper does not say what its ± is. VAR is not in this version of it.",
    )


# retraining


@paper_figure(PAPER, "Figure 4")
def retraining(source: FigureSource) -> PaperFigure:
    """Single estimates with and without retraining."""
    figures = {figure.subject: figure for figure in retraining_figures(source.view, source.styles)}
    names = [source.label(n, UNTRAINED) for n in source.evidence.available((BASELINE, *NAMES), UNTRAINED)]
    charts = tuple(c for n in names for c in figures[ROAR].charts if c.title == n) if ROAR in figures else ()
    if not any(chart.title != BASELINE for chart in charts):
        raise NotApplicable("the study has not ROAR both with and without retraining; add protocol 'roar:no-retrain'")
    t = _deepest(source)
    reached = source.accuracy
    gaps = [reached(ROAR, chart.title, t) - reached(UNTRAINED, chart.title, t) for chart in charts]
    title = (
        f"With {percent(t, 0)} removed, retraining brings back {points(min(gaps), signed=False)} to "
        f"{points(max(gaps), signed=False)} accuracy points"
    )
    return PaperFigure("retraining", title, figures[ROAR].reading, replace(figures[ROAR], plots=charts))


# pictures

ROWS = (BASELINE, *(form.format(base) for base in NAMES for form in ("{}", "sg_sq({})")))
"""In the paper's order, with random on top."""


def _pictures(protocol: str) -> Draw:
    """One image as a protocol leaves it, the accuracy reached on such images above each."""

    def draw(source: FigureSource) -> PaperFigure:
        figure = next((figure for figure in source.pictures if figure.subject == protocol), None)
        if figure is None:
            raise NotApplicable(f"the study has no pictures of {protocol}")
        (plot,) = (plot for plot in figure.plots if isinstance(plot, Pictures))
        names = [source.label(n, protocol) for n in source.evidence.available(ROWS, protocol)]
        rows = {row.label: row for row in plot.rows}
        kept = tuple(rows[n] for n in names if n in rows)
        if len(kept) < 2:
            raise NotApplicable("fewer than two of its estimators have pictures")
        shown = replace(plot, rows=with_best(kept, higher=source.evidence.results.protocols[protocol].higher_is_better))
        drawn = replace(figure, plots=(shown,))
        return PaperFigure(f"{protocol}-pictures", _pictures_title(shown), figure.reading, drawn)

    return draw


def _pictures_title(plot: Pictures) -> str:
    """Where the accuracies of the rows differ most, and between which of them."""
    best = (0.0, "What the networks saw")
    for column, head in enumerate(plot.heads):
        reached = {row.label: row.tiles[column].value for row in plot.rows}
        known = {name: value for name, value in reached.items() if value is not None}
        if len(known) > 1:
            low, high = (f(known, key=lambda name: known[name]) for f in (min, max))
            text = (
                f"With {head}, networks reach {percent(known[low])} where {low} chooses the pixels "
                f"and {percent(known[high])} where {high} does"
            )
            best = max(best, (known[high] - known[low], text))
    return best[1]


paper_figure(PAPER, "Figures 2 and 8")(_pictures(ROAR))
paper_figure(PAPER, "Figure 7")(_pictures(KAR))
