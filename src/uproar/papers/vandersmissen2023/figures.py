"""Figures of Vandersmissen and Oramas 2023: curves of insertion and deletion, and how far metrics agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from uproar.errors import NotApplicable
from uproar.extend import read_beside
from uproar.papers.claims import if_applicable, read_shared
from uproar.papers.evidence import ClaimEvidence, read_higher, without_options
from uproar.papers.measures import methods, metric_of, settings_of
from uproar.report.figures import Chart, Figure, HeatMap, number_or_none
from uproar.report.formatting import LEVEL, NOTHING, known, number
from uproar.report.paper_figures import ComparisonTable, Draw, FigureSource, PaperFigure, metric_chart, paper_figure

PAPER = "vandersmissen2023"
PUBLISHED = read_beside(__file__, "published.toml")
METHODS: dict[str, str] = PUBLISHED["methods"]
"""Our names of the methods, and the paper's."""
SHARED = read_shared(__file__)
SPARSE, COARSE = SHARED["sparse"], SHARED["coarse"]

Metric = Callable[[ClaimEvidence], str]
"""Finds the study's name of a metric."""
insertion, deletion, road, pointing_game, average_drop, binary_drop = (
    partial(metric_of, wanted=SHARED[name])
    for name in ("insertion", "deletion", "road", "pointing_game", "average_drop", "binary_drop")
)
CURVES: tuple[tuple[str, Metric, str], ...] = (("insertion", insertion, "higher"), ("deletion", deletion, "lower"))


def _areas(source: FigureSource, metric: str, names: Sequence[str]) -> dict[str, float]:
    """The mean over images by what an estimator is; those the study has."""
    names_here = {without_options(n): n for n in source.evidence.scored_by(metric)}
    sign = 1 if read_higher(metric) else -1
    return {n: sign * float(source.evidence.per_image(metric, names_here[n]).mean()) for n in names if n in names_here}


def _charts(source: FigureSource, names: Mapping[str, str]) -> tuple[Chart, ...]:
    """The curves of insertion and deletion."""
    return tuple(
        metric_chart(source, metric(source.evidence), f"{kind} ({better} is better)", names)
        for kind, metric, better in CURVES
    )


# Figure 2


@paper_figure(PAPER, "Figure 2")
def scores(source: FigureSource) -> PaperFigure:
    """Insertion and deletion curves, and the other metrics as a table."""
    charts = _charts(source, METHODS)
    parts = []
    for kind, metric, better in CURVES:
        areas = _areas(source, metric(source.evidence), list(METHODS))
        if not areas:
            raise NotApplicable(f"{metric(source.evidence)} has no value of its estimators yet")
        best = (min if better == "lower" else max)(areas, key=lambda n: areas[n])
        parts.append(f"the best value of {kind} is that of {METHODS[best]} ({areas[best]:.2f})")
    title = ", ".join(parts)
    reading = (
        f"Probability of the class while pixels come or go, most important first: mean over images, bands {LEVEL} "
        "interval. Dashed: a random map."
    )
    title = title[0].upper() + title[1:]
    return PaperFigure("curves", title, reading, Figure(charts, 2), _scores(source))


def _areas_of_kind(source: FigureSource, kind: str, names: Sequence[str]) -> dict[str, float]:
    """The same for the study's metric of a kind, in the setting of the claims where there are several."""
    chosen = {"average_drop": average_drop, "road": road}

    def areas() -> dict[str, float]:
        metric = chosen[kind](source.evidence) if kind in chosen else source.evidence.metric(kind)
        return _areas(source, metric, names)

    scale = 1 if kind == "road" else 100
    here = if_applicable(areas, dict[str, float]())
    return {name: scale * value for name, value in here.items()}


def _scores(source: FigureSource) -> ComparisonTable:
    there = {
        without_options(n) for m in source.evidence.values["metric"].unique() for n in source.evidence.scored_by(str(m))
    }
    rows = []
    for published in PUBLISHED["scores"]:
        what, areas = published["what"], _areas_of_kind(source, published["metric"], list(METHODS))
        rows.append((f"{what}, published", *(number(v, 4) for v in published["values"])))
        rows.append((f"{what}, here", *(number(areas[n], 3) if n in areas else NOTHING for n in METHODS)))
    missing = [label for name, label in METHODS.items() if name not in there]
    without = f" The study has no {', '.join(missing)}." if missing else ""
    data = f"{source.view.model} on {source.view.task}"
    note = f"Published: ResNet-50 on 5,000 ImageNet images; here: {data}.{without}"
    return ComparisonTable(("", *METHODS.values()), tuple(rows), note)


# Table 2

KINDS: dict[str, Metric] = {
    "insertion": insertion,
    "deletion": deletion,
    "avg. drop": average_drop,
    "pointing": pointing_game,
    "ROAD": road,
}


@paper_figure(PAPER, "Table 2")
def agreement(source: FigureSource) -> PaperFigure:
    """Correlations of metrics over images, by estimator, here and as published."""
    ours: list[tuple[str, dict[str, float]]] = []
    for pair in PUBLISHED["pairs"]:
        a, b = pair.split(" & ")
        try:
            first, second = KINDS[a](source.evidence), KINDS[b](source.evidence)
            correlations = source.evidence.correlations(first, second, binary="pointing" in (a, b))
        except NotApplicable:
            continue
        ours.append((pair, {without_options(n): v for n, v in correlations.items() if without_options(n) in METHODS}))
    columns = [n for n in METHODS if any(n in row for _, row in ours)]
    if not ours or not columns:
        raise NotApplicable("the study has no two of its metrics and none of its estimators")
    rows = tuple(pair for pair, _ in ours)
    here = _cells("here", rows, columns, [[row.get(n, math.nan) for n in columns] for _, row in ours])
    order = list(METHODS)
    theirs = [[PUBLISHED["pairs"][pair][order.index(n)] for n in columns] for pair in rows]
    published = _cells("published (ResNet-50, ImageNet)", rows, columns, theirs)
    same, total = _same_signs(here, published)
    title = f"{same} of {total} correlations between metrics have the published sign"
    opposed = [v for pair, row in ours if pair == "insertion & deletion" for v in row.values()]
    if opposed:
        title += f"; insertion and deletion: {_range(opposed)}"
    reading = (
        "Spearman's correlation over images, every metric turned so that higher is better; with the pointing game the "
        "point-biserial one. Blue: the metrics agree; red: they contradict each other."
    )
    return PaperFigure("agreement", title, reading, Figure((here, published)))


def _cells(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    names: dict[str, str] = METHODS,
) -> HeatMap:
    return HeatMap(
        title,
        tuple(names.get(c, c) for c in columns),
        tuple(rows),
        tuple(tuple(map(number_or_none, row)) for row in values),
        tuple(tuple(map(_word, row)) for row in values),
        scale="reversed",
    )


def _word(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if known(value) else NOTHING


def _same_signs(a: HeatMap, b: HeatMap) -> tuple[int, int]:
    pairs = [
        (x, y)
        for one, two in zip(a.values, b.values, strict=True)
        for x, y in zip(one, two, strict=True)
        if x is not None and y is not None
    ]
    return sum((x < 0) == (y < 0) for x, y in pairs), len(pairs)


# Tables 1 and A1


@paper_figure(PAPER, "Tables 1 and A1")
def consistency(source: FigureSource) -> PaperFigure:
    """Correlations of the settings of one metric, mean over estimators, with the published ones."""
    tables, rows, lowest = [], [], 1.0
    for kind, _, _ in CURVES:
        names = settings_of(source.evidence, kind)
        if len(names) < 2:
            continue
        correlations = {}
        for a, b in itertools.combinations(names, 2):
            own, each = methods(source.evidence, names[a], names[b]), source.evidence.correlations(names[a], names[b])
            real = [each[name] for name in own if known(each[name])]
            correlations[a, b] = sum(real) / len(real) if real else math.nan
        lowest = min([lowest, *(v for v in correlations.values() if known(v))])
        values = [[correlations.get((a, b), correlations.get((b, a), math.nan)) for b in names] for a in names]
        tables.append(_cells(kind, list(names), list(names), values))
        published = itertools.chain.from_iterable(PUBLISHED["settings"][kind])
        for (a, b), value in zip(itertools.combinations(PUBLISHED["settings"]["names"], 2), published, strict=True):
            here = correlations.get((a, b), math.nan)
            shown = f"{here:.3f}".replace("-", "−") if known(here) else "not tested"
            rows.append((f"{kind}: {a} and {b}", f"{value:.3f}", shown))
    if not tables:
        raise NotApplicable("the study has neither insertion nor deletion in two settings")
    title = f"Settings of one metric correlate by at least {lowest:.2f} over images; published: at least 0.750"
    reading = "Spearman's correlation over images of two settings (fill + pixel or region), mean over methods."
    table = ComparisonTable(("settings", "published (ResNet-50, ImageNet)", "here"), tuple(rows))
    return PaperFigure("consistency", title, reading, Figure(tuple(tables)), table)


# Figure 4


@paper_figure(PAPER, "Figure 4")
def blurred(source: FigureSource) -> PaperFigure:
    """IG and SmoothGrad before and after blurring."""
    plain = source.evidence.available(("ig", "sg(grad)"))
    forms = {name: source.evidence.available([f"coarse({name})", f"gaussian({name})"]) for name in plain}
    pairs = {name: blurs[0] for name, blurs in forms.items() if blurs}  # the paper's blur comes first
    if not pairs:
        raise NotApplicable(
            "the study has neither IG nor SmoothGrad both plain and blurred; add coarse(ig) or coarse(sg(grad))"
        )
    names = {n: METHODS[n] for n in pairs}
    names |= {blur: f"blurred {METHODS[n]}" for n, blur in pairs.items()}
    charts = _charts(source, names)
    parts = []
    for kind, metric, _ in CURVES:
        areas = _areas(source, metric(source.evidence), list(names))
        moved = [
            f"{METHODS[n]} {areas[n]:.2f} to {areas[blur]:.2f}"
            for n, blur in pairs.items()
            if n in areas and blur in areas
        ]
        parts += [f"{kind} of {' and '.join(moved)}"] if moved else []
    if not parts:
        raise NotApplicable("neither insertion nor deletion has values of maps plain and blurred")
    reading = (
        f"Curves as in Figure 2, before and after a Gaussian blur of the maps. Bands: {LEVEL} interval over images."
    )
    return PaperFigure(
        "blurred", f"Blurring maps moves {'; '.join(parts)}", reading, Figure(charts, 2), _blurred(source, pairs)
    )


def _blurred(source: FigureSource, pairs: Mapping[str, str]) -> ComparisonTable:
    rows = []
    for name, published in PUBLISHED["blur"].items():
        both = (name, pairs.get(name, ""))
        for kind, values in published.items():
            areas = _areas_of_kind(source, kind, both)
            here = [number(areas[n], 3) if n in areas else NOTHING for n in both]
            what = f"{METHODS[name]}: {kind.replace('_', ' ')}{'' if kind == 'road' else ' %'}"
            rows.append((what, *(number(v, 4) for v in values), *here))
    heads = ("", "published, plain", "published, blurred", "here, plain", "here, blurred")
    return ComparisonTable(heads, tuple(rows))


# Tables 3 and A3


@paper_figure(PAPER, "Tables 3 and A3")
def binary(source: FigureSource) -> PaperFigure:
    """Average drop against insertion, with values and with binary maps."""
    metric = insertion(source.evidence)
    correlations = {}
    for place, drop in enumerate((average_drop(source.evidence), binary_drop(source.evidence))):
        for name, value in source.evidence.correlations(metric, drop).items():
            correlations[without_options(name), place] = value
    names = [n for n in METHODS if (n, 0) in correlations and (n, 1) in correlations]
    if not names:
        raise NotApplicable("the study has none of its estimators")
    columns = ("with values", "binary at 50\u00a0%")
    rows = [METHODS[n] for n in names]
    here = _cells("here", rows, columns, [[correlations[n, k] for k in (0, 1)] for n in names])
    theirs = _cells("published (ResNet-50, ImageNet)", rows, columns, [PUBLISHED["binary"][n] for n in names])
    ends = [_range([correlations[n, k] for n in names]) for k in (0, 1)]
    title = f"Average drop and insertion correlate by {ends[0]} with values, by {ends[1]} with binary maps"
    reading = (
        "Spearman's correlation over images, both turned so that higher is better. Published: −0.35 to 0.24 with "
        "values, 0.02 to 0.26 with binary maps."
    )
    return PaperFigure("binary", title, reading, Figure((here, theirs)))


def _range(values: Sequence[float]) -> str:
    real = [v for v in values if known(v)]
    return f"{_word(min(real))} to {_word(max(real))}" if real else NOTHING


# Figures A1 and A2


def _settings(kind: str, better: str) -> Draw:
    """A metric by fill, and by pixels or regions."""

    def draw(source: FigureSource) -> PaperFigure:
        names = settings_of(source.evidence, kind)
        if len(names) < 2:
            raise NotApplicable(f"the study has {kind} in fewer than two settings")
        charts = tuple(metric_chart(source, metric, setting, METHODS) for setting, metric in names.items())
        title = f"{kind.capitalize()} in {len(names)} settings ({better} is better)"
        if {"mean + pixel", "mean + region"} <= set(names):
            pixel, region = (_areas(source, names[f"mean + {u}"], SPARSE) for u in ("pixel", "region"))
            moved = [f"{METHODS[n]} from {pixel[n]:.2f} to {region[n]:.2f}" for n in pixel if n in region]
            title = f"{kind.capitalize()} by regions instead of pixels: {', '.join(moved)}"
        sparse, coarse = (", ".join(METHODS[n] for n in names) for names in (SPARSE, COARSE))
        reading = (
            f"Fill + what goes or comes at a time. Probability of the class, mean over images, bands {LEVEL} interval. "
            f"Sparse maps: {sparse}; coarse: {coarse}."
        )
        return PaperFigure(f"{kind}-settings", title, reading, Figure(charts, 2 if len(charts) == 4 else 3))

    return draw


paper_figure(PAPER, "Figure A1")(_settings("insertion", "higher"))
paper_figure(PAPER, "Figure A2")(_settings("deletion", "lower"))
