"""Tables and pictures of the score page: figure data turned into the strings and places a template prints."""

from __future__ import annotations

import math
from typing import Any

from uproar.report.figures import Curves
from uproar.report.formatting import NOTHING, known, number, p_value, percent, shortened
from uproar.report.page_parts import picture, series_view
from uproar.report.pictures import map_colours
from uproar.report.score_board import Board, Cell, Mark, Pair
from uproar.report.score_disagreements import Disagreement, Judged
from uproar.report.score_document import Document
from uproar.report.score_figures import Box, Spread
from uproar.report.score_findings import metric_title, score, score_span
from uproar.report.score_metrics import Metric, axes_of
from uproar.report.svg_charts import curve_chart

NARROW, WIDE, RIM = 100.0, 220.0, 6.0
"""Of the small drawings in a cell and in a row, in pixels."""
SHORT = 24
"""Letters of a name where many stand side by side; the whole name appears under the mouse."""
TIED = 0.05
"""From this share of equal pixels on, ties are worth a word."""


def table_view(document: Document) -> dict[str, Any]:
    """Methods by metrics: numbers as text, places in pixels."""
    board, figure = document.board, document.overview
    columns = figure.columns if figure is not None else ()
    rows = [
        {
            "label": method,
            "style": board.looks[method],
            "tied": _tied(board, method),
            "cells": [_cell(*cells[place], limits) for _, limits, cells in columns],
        }
        for place, method in enumerate(board.methods)
    ]
    return {
        "heads": [_head(metric) for metric, _, _ in columns],
        "rows": rows if columns else [],
        "notes": _notes(board),
        "stem": document.stem(figure) if figure is not None else "",
    }


def _head(metric: Metric) -> dict[str, Any]:
    return {"name": metric.name, "arrow": metric.arrow, "direction": metric.direction, "describes": metric.describes}


def _cell(cell: Cell | None, mark: Mark, limits: tuple[float, float]) -> dict[str, Any]:
    if cell is None or cell.value is None:
        missing = cell.undefined if cell is not None else ""
        return {"value": NOTHING, "mark": "", "span": "", "at": None, "ends": None, "missing": missing}
    whole = cell.low is not None and cell.high is not None
    ends = (_place(cell.low, limits, NARROW), _place(cell.high, limits, NARROW)) if whole else None
    return {
        "value": score(cell.value),
        "mark": mark,
        "span": score_span(cell.low, cell.high) if whole else NOTHING,
        "at": _place(cell.value, limits, NARROW),
        "ends": ends,
        "missing": cell.undefined,
    }


def _tied(board: Board, method: str) -> dict[str, Any]:
    shares = [board.cells[key].tied for key in board.cells if key[0] == method]
    share = next((s for s in shares if s is not None), None)
    return {"words": percent(share), "many": share is not None and share >= TIED}


def _notes(board: Board) -> list[dict[str, str]]:
    """Notes of the table, each once, with the metrics they belong to."""
    found: dict[str, list[str]] = {}
    for (_, metric), cell in board.cells.items():
        if cell.note and metric not in found.setdefault(cell.note, []):
            found[cell.note].append(metric)
    return [{"metrics": ", ".join(names), "words": words} for words, names in found.items()]


def matrix_view(board: Board) -> dict[str, Any] | None:
    """For each ordered pair of methods, under how many metrics the row is better, worse, or not told apart."""
    if len(board.methods) < 2 or not board.judges:
        return None
    rows = [
        {
            "label": a,
            "style": board.looks[a],
            "cells": [None if a == b else _against(board, a, b) for b in board.methods],
        }
        for a in board.methods
    ]
    heads = [{"label": m, "short": shortened(m, SHORT)} for m in board.methods]
    return {"heads": heads, "rows": rows}


def _against(board: Board, a: str, b: str) -> dict[str, Any]:
    up = sum(board.beats(m, a, b) for m in board.judges)
    down = sum(board.beats(m, b, a) for m in board.judges)
    judged = [m for m in board.judges if {a, b} <= set(board.ranked(m))]
    kind = "mixed" if up and down else "better" if up else "worse" if down else "unclear"
    words = f"{a} against {b}: better under {up}, worse under {down}, cannot tell under {len(judged) - up - down}"
    return {"up": up, "down": down, "open": len(judged) - up - down, "kind": kind, "words": words}


def pair_views(board: Board) -> list[dict[str, Any]]:
    """All pairs by metric, with the verdict in words."""
    return [
        {
            "title": metric_title(board, metric),
            "metric": metric.name,
            "arrow": metric.arrow,
            "rows": [_pair(pair) for pair in board.pairs[metric.name]],
            "decided": len(board.decided(metric)),
        }
        for metric in board.metrics
        if board.pairs.get(metric.name)
    ]


def _pair(pair: Pair) -> dict[str, Any]:
    a, b = shortened(pair.better, 48), shortened(pair.worse, 48)
    words = f"{a} is better than {b}" if pair.decided else f"cannot tell {a} from {b}"
    if not pair.ranked:
        words = f"{a} and {b} are not ranked: too much is undefined"
    difference = score(pair.difference)
    return {
        "kind": "better" if pair.decided else "unclear",
        "words": words,
        "difference": f"+{difference}" if (pair.difference or 0) > 0 else difference,
        "span": score_span(pair.low, pair.high),
        "p": p_value(pair.p),
        "n": pair.n,
    }


def curve_views(document: Document) -> list[dict[str, Any]]:
    """The curves in the words of the templates."""
    return [
        {
            "title": f.title,
            "reading": f.reading,
            "stem": document.stem(f),
            "key": document.prefix + f.name,
            "metric": f.protocol,
            "static": curve_chart(f),
        }
        for f in document.curves.values()
    ]


def legend_view(document: Document) -> list[dict[str, Any]]:
    """The methods that have a curve, with their looks."""
    there = {s.label for figure in document.curves.values() for s in figure.series}
    return [{"label": m, "style": style} for m, style in document.board.looks.items() if m in there]


def plot_data(document: Document, group: str) -> dict[str, Any]:
    """What the page's script draws, by figure; the lines of a group have one legend."""
    return {document.prefix + f.name: _plot(document, f, group) for f in document.curves.values()}


def _plot(document: Document, figure: Curves, group: str) -> dict[str, Any]:
    axes = next(axes_of(m) for m in document.board.metrics if m.name == figure.protocol)
    return {
        "group": group,
        "x_label": figure.x_label,
        "y_label": figure.y_label,
        "y_range": figure.y_range,
        "x_range": figure.x_range,
        "plain": figure.plain,
        "word": axes.word,
        "noun": axes.noun,
        "chance": figure.chance,
        "chance_label": figure.chance_label,
        "series": [series_view(s) for s in figure.series],
    }


def spread_views(document: Document) -> dict[str, Any] | None:
    """Values per image as small boxes, one block per metric."""
    figure = document.spreads
    if figure is None:
        return None
    blocks = [
        {
            "name": s.metric.name,
            "arrow": s.metric.arrow,
            "title": s.title,
            "remark": s.remark,
            "shares": s.shares,
            "ticks": _ticks(s),
            "rows": [_box(box, s) for box in s.boxes],
        }
        for s in figure.spreads
    ]
    return {"blocks": blocks, "stem": document.stem(figure)}


def _box(box: Box, spread: Spread) -> dict[str, Any]:
    words = [NOTHING]
    if box.mean is not None and box.marks is not None:
        words = [f"mean {score(box.mean)}"]
        if not spread.shares:
            half = score_span(box.marks[1], box.marks[3])
            words += [f"median {score(box.marks[2])}", f"middle half {half}"]
    if box.nan:
        words.append(f"{box.nan} of {box.n} undefined")
    return {
        "label": box.label,
        "short": shortened(box.label, SHORT),
        "style": box.style,
        "words": ", ".join(words),
        "nan": box.nan,
        "marks": [_place(v, spread.limits, WIDE) for v in box.marks or ()],
        "mean": None if box.mean is None else _place(box.mean, spread.limits, WIDE),
        "value": percent(box.mean, 0) if spread.shares else score(box.mean),
    }


def _ticks(spread: Spread) -> list[dict[str, Any]]:
    """Two to four round numbers on the axis; places in percent of its width."""
    low, high = spread.limits
    return [
        {"left": round(100 * _place(v, spread.limits, WIDE) / WIDE, 1), "words": _tick(v, spread.shares)}
        for v in round_numbers(low, high)
    ]


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two ends, two to four of them.

    >>> round_numbers(-0.04, 1.04), round_numbers(0.12, 0.31), round_numbers(3.0, 812.0)
    ([0.0, 0.5, 1.0], [0.15, 0.2, 0.25, 0.3], [200.0, 400.0, 600.0, 800.0])
    """
    power = 10.0 ** math.floor(math.log10(high - low))
    for step in (k * power for k in (0.1, 0.2, 0.5, 1.0, 2.0)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < 4:
            break
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _tick(value: float, share: bool) -> str:
    return percent(value, 0) if share else number(value).replace("-", "−")


def _place(value: float | None, limits: tuple[float, float], width: float) -> float:
    low, high = limits
    share = (value - low) / (high - low) if value is not None and known(value) else 0.0
    return round(RIM + max(0.0, min(1.0, share)) * (width - 2 * RIM), 1)


def disagreement_views(document: Document) -> list[dict[str, Any]]:
    """Images, maps and values as pictures, by metric; a picture that is shown often is made once."""
    made: dict[bytes, str] = {}

    def shown(pixels: Any) -> str:
        key = pixels.tobytes()
        return made.setdefault(key, made.get(key) or picture(pixels))

    return [_disagreement(figure, document.stem(figure), shown) for figure in document.disagreements]


def _disagreement(figure: Disagreement, stem: str, shown: Any) -> dict[str, Any]:
    heads = [{"label": name, "short": shortened(name, SHORT)} for name, _ in figure.methods]
    rows = []
    for title, image, judged in figure.rows:
        pairs = zip(heads, judged, strict=True)
        tiles = [_judged(j, f"{head['label']}: {title}", shown) for head, j in pairs]
        rows.append({"title": title, "image": shown(image), "tiles": tiles})
    label = f"{shortened(figure.metric.name, 30)} {figure.metric.arrow}"
    return {
        "title": figure.title,
        "reading": figure.reading,
        "label": label,
        "stem": stem,
        "heads": heads,
        "rows": rows,
    }


def _judged(judged: Judged, words: str, shown: Any) -> dict[str, Any]:
    return {
        "image": None if judged.pixels is None else shown(map_colours(judged.pixels)),
        "value": score(judged.value),
        "best": judged.best,
        "alt": f"{words}, {score(judged.value)}",
    }
