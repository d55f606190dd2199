"""The images on which methods disagree most, with maps and values: plain data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uproar.report.figures import some
from uproar.report.formatting import clean, count, shortened
from uproar.report.score_board import Board
from uproar.report.score_figures import stems
from uproar.report.score_findings import score
from uproar.report.score_metrics import Metric
from uproar.report.style import Style
from uproar.results.scores import Scores
from uproar.statistics.design import BASELINE

MOST_IMAGES = 4
MOST_METRICS = 12
"""Choices on the page: more would be more pictures than anybody looks at."""


@dataclass(frozen=True)
class Judged:
    """One map in [-1, 1] and its value; `best` if no method has a better one for the image."""

    pixels: np.ndarray | None
    value: float | None
    best: bool


@dataclass(frozen=True)
class Disagreement:
    """Rows are images, columns are methods."""

    name: str
    title: str
    reading: str
    metric: Metric
    methods: tuple[tuple[str, Style], ...]
    rows: tuple[tuple[str, np.ndarray, tuple[Judged, ...]], ...]


def disagreement_figures(board: Board, scores: Scores) -> list[Disagreement]:
    """One per metric; none without images, or with fewer than two methods."""
    if scores.images is None or not len(scores.images):
        return []
    titles = [clean(title) for title in scores.titles]
    names = stems(m.name for m in board.metrics)
    found: list[Disagreement] = []
    for metric in board.metrics:
        chosen = _chosen(board, metric, len(scores.images))
        if chosen and len(found) < MOST_METRICS:
            said = [one.words for one in scores.predictions]
            images = [(k, _title(k, titles, said), as_bytes(scores.images[k])) for k in chosen]
            found.append(_disagreement(board, metric, names[metric.name], images))
    return found


def _chosen(board: Board, metric: Metric, images: int) -> list[int]:
    """The images with the widest range of values across methods, among those that can be shown."""
    values = _matrix(board, metric, images, _compared(board))
    if values.shape[0] < 2:
        return []
    there = np.isfinite(values).sum(0) > 1
    high = np.where(np.isfinite(values), values, -np.inf).max(0)
    low = np.where(np.isfinite(values), values, np.inf).min(0)
    spread = np.where(there, high - low, 0.0) if len(there) else np.zeros(0)
    order = np.argsort(-spread, kind="stable")[:MOST_IMAGES]
    return [int(k) for k in order if spread[k] > 0]


def _compared(board: Board) -> list[str]:
    """The methods whose values must differ: random maps disagree with everything, which says nothing."""
    others = [m for m in board.methods if m != BASELINE]
    return others if len(others) > 1 else list(board.methods)


def _matrix(board: Board, metric: Metric, images: int, methods: list[str]) -> np.ndarray:
    """Values (methods, images); NaN where there is none."""
    own = board.values.get(metric.name, {})
    values = np.full((len(methods), images), np.nan)
    for row, method in enumerate(methods):
        given = own.get(method, np.zeros(0))[:images]
        values[row, : len(given)] = given
    return values


def _disagreement(board: Board, metric: Metric, stem: str, images: list[tuple[int, str, np.ndarray]]) -> Disagreement:
    methods = list(board.methods)
    values = _matrix(board, metric, max(k for k, _, _ in images) + 1, methods)
    rows = tuple((title, image, _judged(board, metric, methods, values[:, k], k)) for k, title, image in images)
    first = {m: j.value for m, j in zip(methods, rows[0][2], strict=True)}
    compared = [m for m in _compared(board) if first[m] is not None]
    ordered = sorted(compared, key=lambda m: (first[m] or 0.0) * (-1 if metric.higher else 1))
    a, b = ordered[0], ordered[-1]
    title = (
        f"{rows[0][0]}: {score(first[a])} for {shortened(a, 40)}, {score(first[b])} for {shortened(b, 40)} "
        f"under {shortened(metric.name, 40)}"
    )
    without = " (random maps left aside)" if BASELINE not in compared and BASELINE in methods else ""
    reading = (
        f"The {count(len(rows), 'image')} with the widest range of values across methods{without}, of those kept "
        f"for this page. Above each map its value for this image, {metric.direction}; the best is bold. "
        "Red: positive, blue: negative, each map scaled alone. These are the extremes, not typical images."
    )
    looks = tuple((m, board.looks[m]) for m in methods)
    return Disagreement(f"{stem}-disagreement", title, reading, metric, looks, rows)


def _judged(board: Board, metric: Metric, methods: list[str], values: np.ndarray, image: int) -> tuple[Judged, ...]:
    real = values[np.isfinite(values)]
    best = (real.max() if metric.higher else real.min()) if len(real) else np.nan
    return tuple(
        Judged(_map(board, method, image), some(value), bool(value == best))
        for method, value in zip(methods, values, strict=True)
    )


def _map(board: Board, method: str, image: int) -> np.ndarray | None:
    maps = board.maps.get(method)
    if maps is None or image >= len(maps):
        return None
    a = maps[image]
    largest = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    return a / largest if largest > 0 else a


def _title(place: int, titles: list[str], predicted: list[str]) -> str:
    """Which image it is, its class, and what the network takes it for."""
    given = titles[place] if place < len(titles) else ""
    said = f", {clean(predicted[place])}" if place < len(predicted) else ""
    if given.isdigit():
        return f"Image {place}, class {given}{said}"
    return f"Image {place}: {given}{said}" if given else f"Image {place}{said}"


def as_bytes(image: np.ndarray) -> np.ndarray:
    """An image (c, h, w) in [0, 1] as bytes: (h, w, 3) for three channels, else (h, w)."""
    pixels = np.clip(np.nan_to_num(np.asarray(image, dtype=float)), 0, 1)
    shown = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels.mean(0)
    return np.round(255 * shown).astype(np.uint8)
