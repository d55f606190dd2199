"""The figures of metrics: values with intervals, curves, values per image, images on which methods disagree most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from uproar.report.figures import (
    Chart,
    Figure,
    Forest,
    ForestRow,
    PictureRow,
    Pictures,
    Series,
    Tile,
    layer_notes,
    limits_of,
    number_or_none,
    numbers,
)
from uproar.report.formatting import LEVEL, clean, known, score, shortened, slug
from uproar.report.images import as_bytes, map_colours, scaled_map
from uproar.report.metric_guide import Metric, axes_of
from uproar.report.score_findings import metric_title
from uproar.report.score_table import ScoreTable
from uproar.results.scores import Line, Scores
from uproar.statistics.design import BASELINE
from uproar.wording import counted

MOST_IMAGES = 4
MOST_METRICS = 12
"""Choices on the page: more would be more pictures than anybody looks at."""


def values_figure(table: ScoreTable) -> Figure | None:
    """Every method's value under every metric, a forest per metric; None where there are no values."""
    if not any(table.scored(metric) for metric in table.metrics):
        return None
    forests = tuple(_values(table, metric) for metric in table.metrics)
    crosses = any(row.mark == "cross" for forest in forests for row in forest.rows)
    reading = "Filled: decidedly better than all others. Hollow: not." + (
        " Cross: not ranked, undefined for too many images." if crosses else ""
    )
    return Figure(forests, 4, "values", f"Values with {LEVEL} intervals over {table.basis}", reading)


def _values(table: ScoreTable, metric: Metric) -> Forest:
    rows, marks = [], {"sole": "filled", "unranked": "cross"}
    for method in table.methods:
        cell = table.cells.get((method, metric.name))
        ends = (None, None, None) if cell is None else (cell.value, cell.low, cell.high)
        mark = marks.get(table.mark(method, metric), "hollow")
        rows.append(ForestRow(method, table.styles[method], *ends, mark=mark))  # type: ignore[arg-type]
    limits = limits_of(v for row in rows for v in (row.value, row.low, row.high))
    return Forest(tuple(rows), limits, title=metric.short_title)


# curves


def score_curves(table: ScoreTable) -> dict[str, Figure]:
    """The mean curves with bands, by metric, of those that have any."""
    names = stems(m.name for m in table.metrics)
    series = {m.name: _series(table, *table.curves[m.name]) for m in table.metrics if m.name in table.curves}
    return {m.name: _curves(table, m, own, names[m.name]) for m in table.metrics if (own := series.get(m.name))}


def _curves(table: ScoreTable, metric: Metric, series: tuple[Series, ...], stem: str) -> Figure:
    axes = axes_of(metric)
    level = number_or_none(axes.level)
    chart = Chart(
        "",
        series,
        axes.x,
        axes.y,
        limits_of([level, *(v for s in series for side in (s.y, s.low, s.high) for v in side)]),
        (1.0, 0.0) if axes.reversed else None,
        percent=(True, False),
        level=level,
        level_label="level",
        noun=axes.noun,
        done=axes.word,
    )
    first = "" if axes.reversed else f"The {'higher' if metric.higher else 'lower'} the line, the better. "
    dashed = " Dashed: random maps." if any(s.reference for s in series) else ""
    reading = f"{first}Mean over {table.basis}; bands: {LEVEL} interval of the mean.{dashed} {axes.remark}".strip()
    title = metric_title(table, metric)
    return Figure((chart,), 3, f"{stem}-curves", title, reading, metric.name, shared_legend=True)


def _series(table: ScoreTable, fractions: np.ndarray, lines: Mapping[str, Line]) -> tuple[Series, ...]:
    """One line per method with any point."""
    x = tuple(round(float(t), 6) for t in fractions)
    series = []
    for method in (m for m in table.methods if m in lines):
        line = lines[method]
        sides = (line.mean, line.mean - line.half, line.mean + line.half)
        y, low, high = (numbers(np.round(side, 5)) for side in sides)
        n = tuple(line.n.tolist())
        series.append(Series(method, table.styles[method], x, y, low, high, n, reference=method == BASELINE))
    return tuple(series)


# values per image


def spread_figure(table: ScoreTable) -> Figure | None:
    """The values per image of every metric that has any: boxes, or bars where an image is only right or wrong."""
    forests = tuple(_spread(table, metric) for metric in table.metrics if _finite(table, metric).size)
    if not forests:
        return None
    reading = (
        "Box: the middle half of the images, line: median, dot: mean, whiskers: 5 % to 95 %. "
        "Bars: share of images with 1."
    )
    return Figure(forests, 4, "per-image", "How the values of single images scatter", reading)


def _finite(table: ScoreTable, metric: Metric) -> np.ndarray:
    values = table.values.get(metric.name, {})
    return np.concatenate([v[np.isfinite(v)] for v in values.values()]) if values else np.zeros(0)


def _spread(table: ScoreTable, metric: Metric) -> Forest:
    values = table.values[metric.name]
    rows = tuple(_box(table, m, values[m]) for m in table.methods if m in values)
    if np.isin(_finite(table, metric), (0.0, 1.0)).all():
        return Forest(rows, (0.0, 1.0), "share of images with 1", metric.short_title, "bars")
    limits = limits_of(v for row in rows for v in (*(row.quantiles or ()), row.value))
    return Forest(rows, limits, _spread_title(rows), metric.short_title, "boxes")


def _spread_title(rows: tuple[ForestRow, ...]) -> str:
    boxes = {row.label: row.quantiles for row in rows if row.quantiles}
    boxes = {label: box for label, box in boxes.items() if label != BASELINE} or boxes
    widest = max(boxes, key=lambda label: boxes[label][3] - boxes[label][1])
    low, high = (score(boxes[widest][k]) for k in (1, 3))
    return f"half of the images of {widest} lie between {low} and {high}"


def _box(table: ScoreTable, method: str, values: np.ndarray) -> ForestRow:
    there = values[np.isfinite(values)]
    style, missing = table.styles[method], len(values) - len(there)
    words = f"{missing} of {len(values)} undefined" if missing else ""
    if not len(there):
        return ForestRow(method, style, None, words=words)
    quantiles = tuple(float(v) for v in np.quantile(there, (0.05, 0.25, 0.5, 0.75, 0.95)))
    return ForestRow(method, style, float(there.mean()), words=words, quantiles=quantiles)


# disagreements


def disagreement_figures(table: ScoreTable, scores: Scores) -> list[Figure]:
    """The images on which methods disagree most, a figure per metric; none without images or two methods."""
    if scores.images is None or not len(scores.images):
        return []
    names = stems(m.name for m in table.metrics)
    figures: list[Figure] = []
    for metric in table.metrics:
        chosen = _chosen(table, metric, len(scores.images))
        if chosen and len(figures) < MOST_METRICS:
            figures.append(_disagreement(table, scores, metric, names[metric.name], chosen))
    return figures


def _chosen(table: ScoreTable, metric: Metric, images: int) -> list[int]:
    """The images with the widest range of values across methods, among those that can be shown."""
    values = _matrix(table, metric, images, _compared(table))
    there = np.isfinite(values)
    if values.shape[0] < 2:
        return []
    spread = np.where(there, values, -np.inf).max(0) - np.where(there, values, np.inf).min(0)
    spread = np.where(there.sum(0) > 1, spread, 0.0)
    order = np.argsort(-spread, kind="stable")[:MOST_IMAGES]
    return [int(k) for k in order if spread[k] > 0]


def _compared(table: ScoreTable) -> list[str]:
    """The methods whose values must differ: random maps disagree with everything, which says nothing."""
    others = [m for m in table.methods if m != BASELINE]
    return others if len(others) > 1 else list(table.methods)


def _matrix(table: ScoreTable, metric: Metric, images: int, methods: Iterable[str]) -> np.ndarray:
    """Values (methods, images); NaN where there is none."""
    own, rows = table.values.get(metric.name, {}), list(methods)
    values = np.full((len(rows), images), np.nan)
    for row, method in enumerate(rows):
        given = own.get(method, np.zeros(0))[:images]
        values[row, : len(given)] = given
    return values


def _disagreement(table: ScoreTable, scores: Scores, metric: Metric, stem: str, chosen: list[int]) -> Figure:
    assert scores.images is not None, "only images that are there were chosen"
    values = _matrix(table, metric, len(scores.images), table.methods)
    rows = tuple(
        PictureRow(_image_title(scores, k), _tiles(table, metric, values[:, k], k), image=as_bytes(scores.images[k]))
        for k in chosen
    )
    first = {m: tile.value for m, tile in zip(table.methods, rows[0].tiles, strict=True) if tile.value is not None}
    compared = [m for m in _compared(table) if m in first]
    best, *_, worst = sorted(compared, key=lambda m: first[m] * (-1 if metric.higher else 1))
    title = (
        f"{rows[0].label}: {score(first[best])} for {shortened(best, 40)}, {score(first[worst])} for "
        f"{shortened(worst, 40)} under {shortened(metric.name, 40)}"
    )
    without = " (random maps left aside)" if BASELINE not in compared and BASELINE in table.methods else ""
    reading = (
        f"The {counted(len(rows), 'image')} with the widest range of values across methods{without}, of those kept "
        f"for this page. Above each map its value for this image, {metric.direction}; the best is bold. "
        "Red: positive, blue: negative, each map scaled alone. These are the extremes, not typical images."
    )
    plot = Pictures(table.methods, rows, notes=layer_notes(table.methods, scores.layers))
    return Figure((plot,), 1, f"{stem}-disagreement", title, reading, metric.name)


def _tiles(table: ScoreTable, metric: Metric, values: np.ndarray, image: int) -> tuple[Tile, ...]:
    there = values[np.isfinite(values)]
    best = (there.max() if metric.higher else there.min()) if len(there) else np.nan
    tiles = []
    for method, value in zip(table.methods, values, strict=True):
        maps = table.maps.get(method, np.zeros(0))
        pixels = map_colours(scaled_map(maps[image])) if image < len(maps) else None
        tiles.append(Tile(pixels, score(value), number_or_none(value), bool(known(value) and value == best)))
    return tuple(tiles)


def _image_title(scores: Scores, place: int) -> str:
    """Which image it is, its class, and what the network takes it for."""
    given = clean(scores.titles[place]) if place < len(scores.titles) else ""
    predicted = f", {clean(scores.predictions[place].words)}" if place < len(scores.predictions) else ""
    if given.isdigit():
        return f"Image {place}, class {given}{predicted}"
    return f"Image {place}: {given}{predicted}" if given else f"Image {place}{predicted}"


def stems(names: Iterable[str]) -> dict[str, str]:
    """A piece of a file name for each name, no two the same in any spelling.

    >>> stems(["road", "a<", "A>"])
    {'road': 'road', 'a<': 'a', 'A>': 'A-2'}
    """
    chosen: dict[str, str] = {}
    for name in names:
        stem, place = slug([clean(name)]), 2
        taken = {other.lower() for other in chosen.values()}
        while stem.lower() in taken:
            stem, place = f"{slug([clean(name)])}-{place}", place + 1
        chosen[name] = stem
    return chosen
