"""Tables and pictures of the page: figure data turned into the strings and places a template prints."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import asdict
from typing import Any

import numpy as np
from PIL import Image

from uproar.report.document import Chapter
from uproar.report.figures import Forest, ForestRow, Series
from uproar.report.formatting import (
    NOTHING,
    number,
    p_value,
    percent,
    points,
    protocol_label,
    retrains,
    shortened,
    span,
)
from uproar.report.pairs import PairFigure, PairRow
from uproar.report.pictures import Panel, Tile, map_colours

WIDTH, RIM = 200.0, 12.0
"""Of the small forest in a table row, in pixels."""
LARGEST = 112
"""Longest side of a picture on the page; small images are kept pixel for pixel."""


def forest_view(forest: Forest, stem: str) -> dict[str, Any]:
    """A verdict table with a forest inside: numbers as text, places in pixels."""
    shares = [percent(t, 0) for t in forest.fractions]
    basis = (
        f"Mean accuracy over the fractions {', '.join(shares)}; p is adjusted by Holm's method over "
        f"{len(forest.rows)} comparisons; n counts replicates. Detectable: a difference found four times out of five."
    )
    notes = list(dict.fromkeys(row.note for row in forest.rows if row.note))
    return {
        "title": forest.title,
        "reading": forest.reading,
        "stem": stem,
        "basis": basis,
        "retrains": retrains(forest.protocol),
        "ticks": _ticks(forest.limit),
        "notes": [{"mark": str(place), "words": words} for place, words in enumerate(notes, 1)],
        "rows": [_forest_row(row, forest.limit, notes) for row in forest.rows],
    }


def _forest_row(row: ForestRow, limit: float, notes: list[str]) -> dict[str, Any]:
    whole = row.low is not None and row.high is not None
    return {
        "label": row.label,
        "style": row.style,
        "control": row.control,
        "kind": row.kind,
        "verdict": row.verdict,
        "n": row.n,
        "missing": row.missing,
        "mark": str(notes.index(row.note) + 1) if row.note else "",
        "advantage": points(row.advantage),
        "span": span(row.low, row.high),
        "p": p_value(row.p),
        "detectable": points(row.detectable, signed=False),
        "at": None if row.advantage is None else _place(row.advantage, limit),
        "ends": (_place(row.low, limit), _place(row.high, limit)) if whole else None,
    }


def pairs_view(figure: PairFigure) -> dict[str, Any]:
    """Who beats whom as a matrix, and every pair with its numbers."""
    names = [name for name, _ in figure.methods]
    return {
        "title": figure.title,
        "retrains": retrains(figure.protocol),
        "label": protocol_label(figure.protocol),
        "heads": [{"label": name, "short": shortened(name, 24)} for name in names],
        "rows": [
            {"label": a, "style": style, "cells": [None if a == b else _duel(figure, a, b) for b in names]}
            for a, style in figure.methods
        ],
        "pairs": [_pair_row(row) for row in figure.rows],
        "decided": sum(row.decided for row in figure.rows),
    }


def _duel(figure: PairFigure, a: str, b: str) -> dict[str, Any]:
    """One cell of the matrix: how far the method of the row leads over that of the column."""
    pair = figure.between(a, b)
    if pair is None or pair.lead is None:
        return {"kind": "unclear", "mark": NOTHING, "words": f"{a} and {b} share no replicate"}
    ahead = pair.better == a
    kind = "unclear" if not pair.decided else "better" if ahead else "worse"
    lead = points(pair.lead if ahead else -pair.lead)
    verdict = {"better": "better", "worse": "worse", "unclear": "cannot tell"}[kind]
    words = f"{a} against {b}: {verdict}, {lead} points, p {p_value(pair.p)}, n {pair.n}"
    mark = {"better": "▲", "worse": "▼", "unclear": "○"}[kind]
    return {"kind": kind, "mark": mark, "lead": lead, "words": words}


def _pair_row(row: PairRow) -> dict[str, Any]:
    a, b = shortened(row.better, 48), shortened(row.worse, 48)
    return {
        "kind": "better" if row.decided else "unclear",
        "words": f"{a} is better than {b}" if row.decided else f"cannot tell {a} from {b}",
        "difference": points(row.lead),
        "span": span(row.low, row.high),
        "p": p_value(row.p),
        "n": row.n,
    }


def _place(value: float | None, limit: float) -> float:
    """A value on the axis, in pixels; what lies beyond the axis ends at its rim."""
    share = max(-1.0, min(1.0, (value or 0.0) / limit))
    return round(WIDTH / 2 + share * (WIDTH / 2 - RIM), 1)


def _ticks(limit: float) -> list[dict[str, Any]]:
    """Round numbers of points, at most two on either side of zero.

    >>> [tick["words"] for tick in _ticks(0.23)]
    ['−20', '−10', '0', '+10', '+20']
    """
    power = 10.0 ** math.floor(math.log10(100 * limit))
    step = next(k * power for k in (0.5, 1, 2, 5) if 100 * limit < 3 * k * power)
    sides = range(-int(100 * limit / step), int(100 * limit / step) + 1)
    return [{"x": _place(k * step / 100, limit), "zero": k == 0, "words": _signed(k * step)} for k in sides]


def _signed(value: float) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{number(abs(value))}"


def cost_view(chapter: Chapter) -> dict[str, Any] | None:
    """The cost table; bars as percent of the slowest."""
    figure = chapter.costs
    if figure is None:
        return None
    slowest = max((row.milliseconds or 0.0 for row in figure.rows), default=0.0)
    rows = [
        {
            "label": row.label,
            "style": row.style,
            "control": row.control,
            "passes": number(row.passes),
            "milliseconds": number(row.milliseconds),
            "share": round(100 * (row.milliseconds or 0.0) / slowest, 1) if slowest else 0,
            "constant": str(row.constant_maps) if row.explained else NOTHING,
            "explained": row.explained,
        }
        for row in figure.rows
    ]
    return {"title": figure.title, "reading": figure.reading, "rows": rows, "stem": chapter.stem(figure)}


def ties_view(chapter: Chapter) -> dict[str, Any] | None:
    """The table of ties."""
    figure = chapter.ties
    if figure is None:
        return None
    rows = [
        {"label": label, "style": style, "cells": [{"share": round(s or 0.0, 3), "words": percent(s)} for s in shares]}
        for label, style, shares in figure.rows
    ]
    heads = [percent(t, 0) for t in figure.fractions]
    return {
        "title": figure.title,
        "reading": figure.reading,
        "heads": heads,
        "rows": rows,
        "stem": chapter.stem(figure),
    }


def panel_views(chapter: Chapter) -> list[dict[str, Any]]:
    """The paper's picture for every protocol and image; `when` says which choice shows it."""
    drawn = {id(figure) for figure in chapter.drawings()}
    protocols, subjects = _choices(chapter)
    return [
        {
            "title": panel.title,
            "reading": panel.reading,
            "subject": panel.subject,
            "when": f"{protocols.index(panel.protocol)}/{subjects.index(panel.subject)}",
            "image": picture(panel.image),
            "stem": chapter.stem(panel) if id(panel) in drawn else "",
            "heads": [f"{percent(t, 0)} {panel.x_label.rpartition(' ')[2]}" for t in panel.fractions],
            "rows": [
                {"label": e, "style": style, "tiles": [_tile(panel, e, i, t) for i, t in enumerate(tiles)]}
                for e, style, tiles in panel.rows
            ],
        }
        for panel in chapter.panels
    ]


def _tile(panel: Panel, estimator: str, column: int, tile: Tile) -> dict[str, Any]:
    accuracy, share = percent(tile.accuracy), percent(panel.fractions[column], 0)
    return {
        "accuracy": accuracy,
        "best": tile.best,
        "image": None if tile.pixels is None else picture(tile.pixels),
        "alt": f"{estimator}, {share}: accuracy {accuracy}",
    }


def picture_choices(chapter: Chapter) -> dict[str, Any]:
    """The buttons above the pictures: protocols and images."""
    protocols, subjects = _choices(chapter)
    images = {panel.subject: panel.image for panel in chapter.panels}
    return {
        "panel_protocols": [protocol_label(p) for p in protocols],
        "panel_pictures": [{"subject": s, "image": picture(images[s])} for s in subjects],
    }


def _choices(chapter: Chapter) -> tuple[list[str], list[str]]:
    protocols = list(dict.fromkeys(panel.protocol for panel in chapter.panels))
    return protocols, list(dict.fromkeys(panel.subject for panel in chapter.panels))


def gallery_view(chapter: Chapter) -> dict[str, Any] | None:
    """Images and maps as pictures."""
    figure = chapter.gallery
    if figure is None:
        return None
    names = [name for name, _ in figure.estimators]
    rows = [
        {
            "title": title,
            "image": picture(image),
            "tiles": [
                {"image": None if a is None else picture(map_colours(a)), "alt": f"{name}: {title}"}
                for name, a in zip(names, maps, strict=True)
            ],
        }
        for title, image, maps in figure.rows
    ]
    return {
        "title": figure.title,
        "reading": figure.reading,
        "names": [shortened(name, 30) for name in names],
        "rows": rows,
        "stem": chapter.stem(figure),
    }


def picture(pixels: np.ndarray) -> str:
    """Bytes (h, w) or (h, w, 3) as a data address; large ones are shrunk, since hundreds are shown."""
    image = Image.fromarray(np.ascontiguousarray(pixels, dtype=np.uint8))
    content, kind = io.BytesIO(), "png"
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST))
        kind = "jpeg"
    image.save(content, kind, **({"quality": 88} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"


def series_view(series: Series) -> dict[str, Any]:
    """One line as the page's script takes it."""
    return {**asdict(series), "reference": series.is_reference}
