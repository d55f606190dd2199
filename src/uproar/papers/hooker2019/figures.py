"""Figures of Hooker et al. 2019: ROAR and KAR of single estimates and of their ensembles, retraining, the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from uproar.errors import NotApplicable
from uproar.metrics.retraining import RETRAININGS
from uproar.report.figures import HUES, Chart, Figure, Series, Style, share_limits
from uproar.report.formatting import LEVEL
from uproar.report.paper_figures import FigureSource, PaperFigure, changed_images
from uproar.statistics.design import BASELINE

ROAR, KAR, UNTRAINED = "roar", "kar", "roar:no-retrain"
NAMES = {"grad": "Grad", "guided_backprop": "GB", "ig": "IG"}
VARIANTS = {"single": "{}", "SG": "sg({})", "SQ": "sq({})", "SG-SQ": "sg_sq({})", "VAR": "var({})"}
"""What is done to a single estimate, as the paper calls it; VAR is from its NeurIPS version."""


def name_of(base: str, variant: str) -> str:
    """An estimate in the paper's words.

    >>> name_of("ig", "SG-SQ"), name_of("grad", "single")
    ('SG-SQ-IG', 'Grad')
    """
    return NAMES[base] if variant == "single" else f"{variant}-{NAMES[base]}"


def _estimates(source: FigureSource, metric: str, variants: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    """Base, variant and the report's name, by the paper's name, of the estimates that have a curve."""
    drawn = set(source.view.intervals[metric]["estimator"]) if metric in source.view.intervals else set()
    estimates = {}
    for variant in variants:
        for base in NAMES:
            for wanted in source.evidence.available([VARIANTS[variant].format(base)], metric):
                if (label := source.label(wanted, metric)) in drawn:
                    estimates[name_of(base, variant)] = (base, variant, label)
    return estimates


# curves

READINGS = {
    ROAR: "ROAR removes pixels most important first: lower is better.",
    KAR: "KAR keeps only those: higher is better.",
    UNTRAINED: "Dotted: the original network, which never saw such images.",
}


def curves(source: FigureSource, name: str, panels: Sequence[Mapping[str, Any]]) -> PaperFigure:
    """Accuracy over the share of pixels, a plot per panel, all lines of a panel on one axis.

    A panel has a `title`, its `metrics` and the `variants` of the three single estimates. The colour is that of the
    single estimate, the marker that of the variant.
    """
    charts = [chart for panel in panels if (chart := _panel(source, **panel)) is not None]
    if not charts:
        raise NotApplicable("the study has no ROAR of these forms of gradient, guided backprop or integrated gradients")
    limits = share_limits([line for chart in charts for line in chart.series], source.view.chance)
    alike = tuple(replace(chart, y_range=limits) for chart in charts)  # one upright axis, so that plots can be compared
    shown = [READINGS[p] for p in dict.fromkeys(p for panel in panels for p in panel["metrics"])]
    reading = f"{' '.join(shown)} Dashed: random. Fine line: chance. Bands: {LEVEL} interval over replicates."
    return PaperFigure(name, reading, Figure(alike, 2))


def _panel(
    source: FigureSource, title: str, metrics: Sequence[str], variants: Sequence[str], needs: Sequence[str] = ()
) -> Chart | None:
    """The lines of the first metric are solid and in the legend, those of a second one dotted.

    There is no plot without an estimate of the variants that it `needs`.
    """
    lines: list[Series] = []
    if needs and not _estimates(source, metrics[0], needs):
        return None
    for metric in metrics:
        first = metric == metrics[0]
        estimates = _estimates(source, metric, variants)
        if not estimates:
            continue
        random = source.series(metric, BASELINE)
        lines.append(random if first else replace(random, label="", style=replace(random.style, dash=":")))
        for label, (base, variant, estimator) in estimates.items():
            style = Style(HUES[list(NAMES).index(base)], "-" if first else ":", MARKERS[variant], variant == "single")
            lines.append(replace(source.series(metric, estimator), label=label if first else "", style=style))
    if len(lines) < 2:
        return None
    across = " or ".join(dict.fromkeys(RETRAININGS[p].fraction_means for p in metrics))
    chance = source.view.chance
    return Chart(title, tuple(lines), f"share of pixels {across}", "test accuracy", (0.0, 1.0), level=chance)


MARKERS = {"single": "o", "SG": "^", "SQ": "D", "SG-SQ": "s", "VAR": "v"}


# retraining


def retraining(source: FigureSource) -> PaperFigure:
    """Single estimates with and without retraining, on one axis."""
    chart = _panel(source, "", (ROAR, UNTRAINED), ["single"])
    if chart is None or not all(_estimates(source, metric, ["single"]) for metric in (ROAR, UNTRAINED)):
        raise NotApplicable("the study has not ROAR both with and without retraining; add metric 'roar:no-retrain'")
    reading = (
        f"Solid: networks trained on changed images. {READINGS[UNTRAINED]} Bands: {LEVEL} interval over replicates."
    )
    limits = share_limits(chart.series, source.view.chance)
    return PaperFigure("retraining", reading, Figure((replace(chart, y_range=limits),), 1))


# pictures


def pictures(
    source: FigureSource, name: str, metric: str, estimators: Sequence[str], across: str = "fractions"
) -> PaperFigure:
    """One image as a metric leaves it, the accuracy reached on such images above each.

    With `across = "estimators"` an estimator is a column and a fraction a row, else the other way round.
    """
    printed = {form.format(base): name_of(base, variant) for base in NAMES for variant, form in VARIANTS.items()}
    names = {source.label(n, metric): printed.get(n, n) for n in source.evidence.available(estimators, metric)}
    figure = changed_images(source, metric, names, across)
    return PaperFigure(name, figure.reading, figure)
