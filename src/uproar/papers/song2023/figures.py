"""Figures of Song, Cha and Seo: blocks and pixels, differences made by filters, accuracy over total variation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from uproar.errors import NotApplicable
from uproar.papers.evidence import without_options
from uproar.papers.measures import ROAR
from uproar.papers.song2023.measures import BLOCKS, RATES, Line, Of, variation_by_name, variation_lines
from uproar.report.figures import HUES, Chart, Figure, HeatMap, Series, Style, least_squares, share_limits, styles
from uproar.report.formatting import LEVEL, NOTHING, listed, percent, points
from uproar.report.paper_figures import (
    BRACKETS,
    ComparisonTable,
    FigureSource,
    PaperFigure,
    changed_images,
    map_pictures,
    over_replicates,
    share,
)
from uproar.report.study_figures import x_label
from uproar.statistics.design import BASELINE

ROAD, FILTERS = "road", ("max", "gaussian")
PUBLISHED = {
    "pixels": {0.1: 0.7556, 0.3: 0.7269, 0.5: 0.7099, 0.7: 0.6772, 0.9: 0.6195},
    "blocks": {0.1: 0.6586, 0.3: 0.4384, 0.5: 0.2815, 0.7: 0.1705, 0.9: 0.0533},
}
"""Table 1: CUB-200, ResNet-50."""


# Table 1


def blocks(source: FigureSource) -> PaperFigure:
    """Random blocks beside random pixels, as published and here."""
    block = next(iter(source.evidence.available(reversed(BLOCKS), ROAR)), BLOCKS[0])
    here = {name: source.evidence.accuracy(ROAR, name) for name in (BASELINE, block)}
    if ROAR not in source.view.intervals or not any(t > 0 and t in here[block] for t in here[BASELINE]):
        raise NotApplicable("no fraction of ROAR is finished for random pixels and random blocks")
    by_name = styles([BASELINE, block])
    ours = [source.series(ROAR, source.label(name, ROAR)) for name in here]
    theirs = [
        Series(name, by_name[name], tuple(curve), tuple(curve.values()), reference=name == BASELINE)
        for name, curve in zip(here, PUBLISHED.values(), strict=True)
    ]
    charts = tuple(
        Chart(title, tuple(lines), x_label(source.view, ROAR), "test accuracy", share_limits(lines, None))
        for title, lines in ((f"here: {source.view.task}", ours), ("published: CUB-200, ResNet-50", theirs))
    )
    rates = sorted({*PUBLISHED["pixels"], *(t for t in here[BASELINE] if t in here[block] and t > 0)})
    rows: list[tuple[str, ...]] = []
    for (what, curve), table in zip(PUBLISHED.items(), here.values(), strict=True):
        rows.append((f"{what}, published", *(f"{100 * curve[t]:.2f}" if t in curve else NOTHING for t in rates)))
        rows.append((f"{what}, here", *(share(over_replicates(table[t])) if t in table else NOTHING for t in rates)))
    reading = (
        "Both know nothing of the network; the shape of the hole alone differs. "
        f"Bands: {LEVEL} interval over replicates."
    )
    heads = ("accuracy after retraining", *(f"{percent(t, 0)} removed" for t in rates))
    return PaperFigure("blocks", reading, Figure(charts, 2), ComparisonTable(heads, tuple(rows), BRACKETS))


# Figures 4 and 5


def _filtered(names: Sequence[str]) -> list[str]:
    """Bare names that also have a filtered form, in the order of the study; Grad-CAM last."""
    filtered = [n for n in names if any(f"{how}({n})" in names for how in FILTERS)]
    return sorted(filtered, key=lambda n: "grad_cam" in n)


Reached = dict[tuple[str, float], float]
"""Mean accuracy by estimator, without options, and rate."""


def differences(source: FigureSource, under: str) -> PaperFigure:
    """What filters change under ROAR or ROAD, a table per rate: plain accuracy, and what each filter adds."""
    reached = _under_roar(source) if under == ROAR else _under_road(source)
    names, known = list(dict.fromkeys(n for n, _ in reached)), sorted({t for _, t in reached if t > 0})
    rates, rows = [t for t in known if t in RATES] or known[:3], _filtered(names)
    if not rows or not rates:
        raise NotApplicable(f"no estimator has a filtered form under {under.upper()}")
    tables = []
    for t in rates:
        gaps = [[reached.get((f"{how}({n})", t), math.nan) - reached[n, t] for how in FILTERS] for n in rows]
        values = tuple((math.nan, *row) for row in gaps)
        words = tuple((f"{100 * reached[n, t]:.1f}", *map(points, row)) for n, row in zip(rows, gaps, strict=True))
        tables.append(HeatMap(f"{percent(t, 0)} removed", ("plain", *FILTERS), tuple(rows), values, words, "changes"))
    reading = (
        "Accuracy in percent without a filter, and what a filter adds, in points. Magenta: less accuracy, which the "
        "benchmark counts as a better explanation; cyan: more."
    )
    return PaperFigure(f"{under}-differences", reading, Figure(tuple(tables)))


def _under_roar(source: FigureSource) -> Reached:
    names = dict.fromkeys(without_options(str(name)) for name in source.view.done["estimator"].unique())
    labels = {name: source.label(name, ROAR) for name in source.evidence.available(names, ROAR)}
    rates = source.evidence.accuracy(ROAR, BASELINE).columns
    return {(name, t): source.accuracy(ROAR, label, t) for name, label in labels.items() for t in rates}


def _under_road(source: FigureSource) -> Reached:
    curves = source.curves.get(source.evidence.metric(ROAD))
    if curves is None:
        raise NotApplicable("the study has no curves of road")
    return {
        (without_options(line.label), t): value
        for line in curves.series
        for t, value in zip(line.x, line.y, strict=True)
    }


# Figures 6 to 10


def trajectories(source: FigureSource, of: Of) -> PaperFigure:
    """Total variation and accuracy of an estimator plain, max-filtered and Gaussian-filtered, a plot per estimator.

    Every point is a rate: variation is that of the masks of the pixels removed at this rate, or that of the maps.
    """
    variation: dict[float, dict[str, float]] = {}
    for t in (float(t) for t in source.evidence.accuracy(ROAR, BASELINE).columns if t > 0):
        with contextlib.suppress(NotApplicable):
            variation[t] = variation_by_name(source.evidence, of, t)
    names = source.evidence.available(next(iter(variation.values()), {}), ROAR)
    charts = []
    for name in _filtered(names):
        reached: dict[str, list[tuple[float, float]]] = {}
        for kind, form in _forms(name).items():
            if form in names:
                label = source.label(form, ROAR)
                reached[kind] = [(variation[t][form], source.accuracy(ROAR, label, t)) for t in variation]
        lines = []
        for kind, path in reached.items():
            x, y = zip(*path, strict=True)
            lines.append(Series(kind, STYLES[kind], x, y, names=tuple(percent(t, 0) for t in variation)))
        axes, limits = (f"total variation of {of}", "test accuracy"), share_limits(lines, None)
        charts.append(Chart(source.label(name, ROAR), tuple(lines), *axes, limits, percent=(False, True), named=True))
    if not charts:
        raise NotApplicable(f"no estimator has the total variation of {of} plain and filtered, and ROAR")
    reading = (
        f"A plot per estimator, a line per filter, a point per rate: {listed([percent(t, 0) for t in variation])} "
        "removed, from top to bottom where accuracy falls. The paper saw filtered lines further left and lower."
    )
    return PaperFigure(f"trajectories-{of}", reading, Figure(tuple(charts), 3))


STYLES = {
    kind: Style(hue, marker=marker)
    for kind, hue, marker in zip(("plain", "max", "gaussian"), HUES, ("o", "D", "s"), strict=False)
}


def _forms(name: str) -> dict[str, str]:
    """An estimator plain and filtered, by filter.

    >>> _forms("grad")
    {'plain': 'grad', 'max': 'max(grad)', 'gaussian': 'gaussian(grad)'}
    """
    return {"plain": name, "max": f"max({name})", "gaussian": f"gaussian({name})"}


def scatter(source: FigureSource, squared: bool, of: Of, published: str) -> PaperFigure:
    """Accuracy over the total variation of maps or masks, a plot per rate."""
    kind = f"{of} of squared estimators" if squared else f"{of} of estimators that are not squared"
    lines = variation_lines(source.evidence, squared, of)
    if not lines:
        raise NotApplicable(f"no estimator has the total variation of {kind} and ROAR")
    apart = list(dict.fromkeys(n for line in lines.values() for n in line.excluded))
    reading = (
        "One point per unfiltered estimator, and the line of least squares. Left is smoother, down is better under "
        f"ROAR. R² published: {published}."
        f"{f' Not on the line, as they know no model: {listed(apart)}.' if apart else ''}"
    )
    charts = tuple(_cloud(source, t, line, of) for t, line in lines.items())
    name = f"variation-{of}-squared" if squared else f"variation-{of}"
    return PaperFigure(name, reading, Figure(charts, 3))


def _cloud(source: FigureSource, t: float, line: Line, of: Of) -> Chart:
    on = [n for n in line.x if n not in line.excluded]
    labels = {n: source.label(n, ROAR) for n in line.x}
    falls = ", falling" if line.r2.interval.value < 0 else ""
    return Chart(
        f"{percent(t, 0)} removed, R² = {abs(line.r2.interval.value):.2f}{falls}",
        tuple(Series(label, source.style(label), (line.x[n],), (line.y[n],)) for n, label in labels.items()),
        f"total variation of {of}",
        "test accuracy",
        kind="points",
        percent=(False, True),
        fit=least_squares([line.x[n] for n in on], [line.y[n] for n in on]),
    )


# Figures 2 and 3


def processed_maps(source: FigureSource) -> PaperFigure:
    """The map of the input gradient plain, max-filtered and Gaussian-filtered."""
    base = next(iter(source.evidence.available(("sq(grad)", "grad"))), "grad")
    plot = map_pictures(source, {form: kind for kind, form in _forms(base).items()})
    reading = "Rows: test images; columns: the image, its map, and the map after a filter. Red counts for the class."
    return PaperFigure("processed-maps", reading, Figure((plot,), 1))


def random_masks(source: FigureSource) -> PaperFigure:
    """One image without random pixels and without a random block of the same size, a rate a row."""
    block = next(iter(source.evidence.available(reversed(BLOCKS), ROAR)), "")
    if not block:
        raise NotApplicable("the study has no random blocks")
    names = {BASELINE: "PixelRandom", source.label(block, ROAR): "BlockRandom"}
    figure = changed_images(source, ROAR, names, "estimators")
    return PaperFigure("random-masks", figure.reading, figure)
