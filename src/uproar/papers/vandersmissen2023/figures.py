"""Figures of Vandersmissen and Oramas 2023: curves of insertion and deletion, and how far metrics agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from scipy.stats import gaussian_kde

from uproar.errors import NotApplicable
from uproar.papers import read_beside
from uproar.papers.claims import if_applicable, read_shared
from uproar.papers.evidence import ClaimEvidence, read_higher, without_options
from uproar.papers.measures import metric_of
from uproar.removal import FillContext, filled, ranks, removed_at
from uproar.report.figures import Chart, Figure, HeatMap, PictureRow, Pictures, Series, Tile
from uproar.report.formatting import LEVEL, NOTHING, clean, known, number
from uproar.report.paper_figures import ComparisonTable, FigureSource, PaperFigure, metric_chart
from uproar.seeds import Draws
from uproar.statistics.correlation import row_correlations

PUBLISHED = read_beside(__file__, "published.toml")
METHODS: dict[str, str] = PUBLISHED["methods"]
"""Our names of the methods, and the paper's."""
SHARED = read_shared(__file__)
SPARSE, COARSE = SHARED["sparse"], SHARED["coarse"]

SETTINGS = {f"{fill} + {unit}": (unit, fill) for fill in ("mean", "blur", "uniform") for unit in ("pixel", "region")}
"""Units and fills of insertion and deletion."""

Metric = Callable[[ClaimEvidence], str]
"""Finds the study's name of a metric."""
insertion, deletion = (partial(metric_of, wanted=SHARED[name]) for name in ("insertion", "deletion"))
KINDS: dict[str, Metric] = {
    "insertion": insertion,
    "deletion": deletion,
    "avg. drop": partial(metric_of, wanted=SHARED["average_drop"]),
    "pointing": partial(metric_of, wanted=SHARED["pointing_game"]),
    "ROAD": partial(metric_of, wanted=SHARED["road"]),
    **{
        f"avg. drop {level} %": partial(
            metric_of,
            wanted=[{"name": "average_drop", "binarise": level / 100}, {"name": "average_drop", "percentile": level}],
        )
        for level in (50, 70, 75, 80, 85, 90)
    },
    **{
        f"{kind} {setting}": partial(metric_of, wanted={"name": kind, "unit": unit, "fill": fill})
        for kind in ("insertion", "deletion")
        for setting, (unit, fill) in SETTINGS.items()
    },
}
"""Metrics by the words of the published tables."""
CURVES: tuple[tuple[str, Metric, str], ...] = (("insertion", insertion, "higher"), ("deletion", deletion, "lower"))


def _means(source: FigureSource, find: Metric, names: Sequence[str] = tuple(METHODS)) -> dict[str, float]:
    """The mean over images by what an estimator is; those the study has, none without the metric."""
    if not (metric := if_applicable(partial(find, source.evidence), "")):
        return {}
    names_here = {without_options(n): n for n in source.evidence.scored_by(metric)}
    sign = 1 if read_higher(metric) else -1
    return {n: sign * float(source.evidence.per_image(metric, names_here[n]).mean()) for n in names if n in names_here}


# Figures 2, 4 and A7


def scores(source: FigureSource) -> PaperFigure:
    """Insertion and deletion curves, and the other metrics as a table."""
    rows = []
    for published in PUBLISHED["scores"]:
        what, areas = published["what"], _means_of_kind(source, published["metric"], list(METHODS))
        rows.append((f"{what}, published", *(number(v, 4) for v in published["values"])))
        rows.append((f"{what}, here", *(number(areas[n], 3) if n in areas else NOTHING for n in METHODS)))
    reading = (
        f"Probability of the class while pixels come or go, most important first: mean over images, bands {LEVEL} "
        "interval. Dashed: a random map."
    )
    note = f"Published: ResNet-50 on 5,000 ImageNet images; here: {source.view.model} on {source.view.task}."
    table = ComparisonTable(("", *METHODS.values()), tuple(rows), note)
    return PaperFigure("curves", reading, Figure(_charts(source, METHODS), 2), table)


def _charts(source: FigureSource, names: Mapping[str, str]) -> tuple[Chart, ...]:
    return tuple(
        metric_chart(source, metric(source.evidence), f"{kind} ({better} is better)", names)
        for kind, metric, better in CURVES
    )


def _means_of_kind(source: FigureSource, kind: str, names: Sequence[str]) -> dict[str, float]:
    """The same for the study's metric of a kind, shares in percent."""
    finders = {"average_drop": KINDS["avg. drop"], "road": KINDS["ROAD"]}
    means = _means(source, finders.get(kind, partial(metric_of, wanted=kind)), names)
    return {name: (1 if kind == "road" else 100) * value for name, value in means.items()}


def blurred(source: FigureSource) -> PaperFigure:
    """The curves of all methods, IG and SmoothGrad blurred; a table has both before and after."""
    plain = source.evidence.available(("ig", "sg(grad)"))
    forms = {name: source.evidence.available([f"coarse({name})", f"gaussian({name})"]) for name in plain}
    pairs = {name: blurs[0] for name, blurs in forms.items() if blurs}  # the paper's blur comes first
    if not pairs:
        raise NotApplicable("the study has neither IG nor SmoothGrad both plain and blurred")
    names = {n: label for n, label in METHODS.items() if n not in pairs}
    names |= {blur: f"{METHODS[n]} (blurred)" for n, blur in pairs.items()}
    rows = []
    for name, published in PUBLISHED["blur"].items():
        both_names = (name, pairs.get(name, ""))
        for kind, values in published.items():
            means = _means_of_kind(source, kind, both_names)
            here = [number(means[n], 3) if n in means else NOTHING for n in both_names]
            what = f"{METHODS[name]}: {kind.replace('_', ' ')}{'' if kind == 'road' else ' %'}"
            rows.append((what, *(number(v, 4) for v in values), *here))
    heads = ("", "published, plain", "published, blurred", "here, plain", "here, blurred")
    reading = f"As Figure 2, with the maps of IG and SmoothGrad blurred. Bands: {LEVEL} interval over images."
    figure, table = Figure(_charts(source, names), 2), ComparisonTable(heads, tuple(rows))
    return PaperFigure("blurred", reading, figure, table)


# Figures A1, A2, A5 and A6


def settings(source: FigureSource, kind: str) -> PaperFigure:
    """Insertion or deletion by fill, pixels left and regions right."""
    metrics = {setting: if_applicable(partial(KINDS[f"{kind} {setting}"], source.evidence), "") for setting in SETTINGS}
    names = {setting: name for setting, name in metrics.items() if name}
    if len(names) < 2:
        raise NotApplicable(f"the study has {kind} in fewer than two settings")
    charts = tuple(metric_chart(source, name, setting, METHODS) for setting, name in names.items())
    sparse, coarse = (", ".join(METHODS[n] for n in names) for names in (SPARSE, COARSE))
    reading = (
        f"Fill + unit removed or inserted. Probability of the class, mean over images, bands {LEVEL} interval. "
        f"Sparse maps: {sparse}; coarse: {coarse}."
    )
    return PaperFigure(f"{kind}-settings", reading, Figure(charts, 2))


# Tables: correlations of metrics over images


def correlations(source: FigureSource, name: str, table: str) -> PaperFigure:
    """Correlations of the pairs of metrics of a published table, by method, here and as published."""
    pairs = {pair: row for pair in PUBLISHED[table] if (row := _correlated(source, pair))}
    columns = [n for n in METHODS if any(n in row for row in pairs.values())]
    if not columns:
        raise NotApplicable("the study has no two of its metrics and none of its estimators")
    rows, order = list(pairs), list(METHODS)
    labels = [METHODS[n] for n in columns]
    here = _cells("here", rows, labels, [[pairs[pair].get(n, math.nan) for n in columns] for pair in rows])
    theirs = [[PUBLISHED[table][pair][order.index(n)] for n in columns] for pair in rows]
    published = _cells("published (ImageNet)", rows, labels, theirs)
    both = [pair for a, b in zip(here.values, published.values, strict=True) for pair in zip(a, b, strict=True)]
    finite = [(a, b) for a, b in both if known(a) and known(b)]
    same = sum((a < 0) == (b < 0) for a, b in finite)
    reading = (
        f"{same} of {len(finite)} correlations have the published sign. "
        "Spearman's correlation over images, every metric turned so that higher is better; with the pointing game the "
        "point-biserial one. Blue: the metrics agree; red: they contradict each other."
    )
    return PaperFigure(name, reading, Figure((here, published)))


def _correlated(source: FigureSource, pair: str) -> dict[str, float]:
    """The correlation of two metrics by method; nothing where the study has not both."""
    a, b = pair.split(" & ")

    def both() -> dict[str, float]:
        first, second = KINDS[a](source.evidence), KINDS[b](source.evidence)
        names = [name for name in source.evidence.scored_by(first, second) if without_options(name) in METHODS]
        each = [source.evidence.pairs(first, second, [name])[:, 0] for name in names]
        ranked = "pointing" not in (a, b)
        return {
            without_options(name): float(np.nanmean(row_correlations(values[..., 0], values[..., 1], ranked)))
            for name, values in zip(names, each, strict=True)
        }

    return if_applicable(both, {})


def consistency(source: FigureSource, settings: Mapping[str, Sequence[str]]) -> PaperFigure:
    """Correlations of the settings of one metric, mean over methods, with the published ones."""
    tables, rows = [], []
    for kind, names in settings.items():
        matrix = {}
        for a, b in itertools.combinations(names, 2):
            key = next(
                p for p in (f"{kind} {a} & {kind} {b}", f"{kind} {b} & {kind} {a}") if p in PUBLISHED["Table A1"]
            )
            mine, theirs = list(_correlated(source, key).values()), PUBLISHED["Table A1"][key]
            value = float(np.nanmean(mine)) if mine else math.nan
            matrix[a, b] = matrix[b, a] = value
            rows.append((f"{kind}: {a} and {b}", f"{np.mean(theirs):.3f}", _word(value, 3)))
        values = [[matrix.get((a, b), math.nan) for b in names] for a in names]
        tables.append(_cells(kind, list(names), list(names), values))
    if not any(known(value) for table in tables for row in table.values for value in row):
        raise NotApplicable("the study has neither insertion nor deletion in two settings")
    reading = "Spearman's correlation over images of two settings (fill + pixel or region), mean over methods."
    table = ComparisonTable(("settings", "published (ResNet-50, ImageNet)", "here"), tuple(rows))
    return PaperFigure("consistency", reading, Figure(tuple(tables)), table)


def _cells(title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> HeatMap:
    words = tuple(tuple(map(_word, row)) for row in values)
    return HeatMap(title, tuple(columns), tuple(rows), tuple(values), words, "reversed")


def _word(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("-", "−") if known(value) else NOTHING


def drops(source: FigureSource) -> PaperFigure:
    """Average drop with the values of maps, and with maps made binary."""
    rows, measured = [], 0
    for kind, published in PUBLISHED["Table A2"].items():
        means = _means(source, KINDS[kind])
        measured += bool(means)
        rows.append((f"{kind}, published", *(number(v, 4) for v in published)))
        rows.append((f"{kind}, here", *(number(100 * means[n], 3) if n in means else NOTHING for n in METHODS)))
    if measured < 2:
        raise NotApplicable("the study has not average drop with values and with binary maps")
    table = ComparisonTable(("average drop %", *METHODS.values()), tuple(rows))
    return PaperFigure("drops", "Lower is better; 50 % and 75 %: the share of pixels set to 0.", table=table)


# Figure 3


def density(source: FigureSource) -> PaperFigure:
    """The distribution of the values of maps, by method: a kernel density estimate."""
    x, lines = np.linspace(0, 1, 101), []
    for wanted in source.evidence.available(METHODS):
        label = source.label(wanted)
        shown = [picture.maps[label].clip(0) for picture in source.view.pictures if label in picture.maps]
        pixels = np.concatenate([(a / a.max()).ravel() for a in shown if a.max() > 0] or [np.zeros(0)])
        if len(pixels) and pixels.std() > 0:
            lines.append(Series(METHODS[wanted], source.style(label), x.tolist(), gaussian_kde(pixels)(x).tolist()))
    if len(lines) < 2:
        raise NotApplicable("the study has not the maps of two of its methods")
    images = len(source.view.pictures)
    reading = f"Values of the maps of {images} test images, negative ones set to 0, each map scaled to [0, 1]."
    chart = Chart("", tuple(lines), "relevance", "density", percent=(False, False))
    return PaperFigure("density", reading, Figure((chart,), 1))


# Figure A3


def fills(source: FigureSource, fraction: float) -> PaperFigure:
    """Images without the pixels that Grad-CAM ranks first, by what the pixels become."""
    label = source.label("grad_cam")
    pictures = [picture for picture in source.view.pictures if label in picture.maps]
    if not pictures:
        raise NotApplicable("the study has no maps of Grad-CAM")
    images = torch.stack([_tensor(picture.image) for picture in pictures])
    maps = torch.from_numpy(np.stack([picture.maps[label] for picture in pictures])).float()
    draws = Draws.of(0, range(len(images)), "test")
    removed = removed_at(ranks(maps.flatten(1), draws), fraction, maps.shape[1:])
    around = FillContext(draws, images.mean((0, 2, 3)), None)
    names = {"mean": "mean", "blur": "Gaussian blur", "uniform": "uniform noise", "linear": "sparse linear equations"}
    changed = {label: filled(images, removed, fill, around).clamp(0, 1) for fill, label in names.items()}
    rows = [
        PictureRow(
            clean(picture.title),
            tuple(Tile((x[i] * 255).round().byte().permute(1, 2, 0).numpy().squeeze()) for x in changed.values()),
            picture.image,
        )
        for i, picture in enumerate(pictures)
    ]
    reading = f"Half of the pixels are gone, those that Grad-CAM ranks first; fraction {fraction:g}."
    return PaperFigure("fills", reading, Figure((Pictures(tuple(changed), tuple(rows)),), 1))


def _tensor(image: np.ndarray) -> torch.Tensor:
    pixels = torch.from_numpy(np.array(image)).float() / 255
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
