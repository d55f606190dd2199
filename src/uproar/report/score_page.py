"""Scores as one HTML page that needs no network, made from the same figure data as the drawings."""

from __future__ import annotations

from typing import Any

from uproar.report.formatting import NOTHING, clean, count
from uproar.report.page import flat_facts, rendered
from uproar.report.score_document import Document
from uproar.report.score_metrics import guide_of
from uproar.report.score_parts import (
    curve_views,
    disagreement_views,
    legend_view,
    matrix_view,
    pair_views,
    plot_data,
    spread_views,
    table_view,
)
from uproar.results.scores import Scores
from uproar.statistics.design import BASELINE


def page(scores: Scores, document: Document) -> str:
    """The report as HTML."""
    board = document.board
    views = {
        "answer": document.answer,
        "quality": scores.quality,
        "tiles": _tiles(scores, document),
        "table": table_view(document),
        "matrix": matrix_view(board),
        "pairs": pair_views(board),
        "curves": curve_views(document),
        "legend": legend_view(document),
        "spreads": spread_views(document),
        "disagreements": disagreement_views(document),
        "guides": [guide_of(metric) for metric in board.metrics],
        "single": len(board.judges) == 1,
        "judges": count(len(board.judges), "metric"),
    }
    return rendered(
        "score_page.html",
        plot_data(document, "scores"),
        **views,
        links=_links(views),
        notices=[clean(notice) for notice in scores.notices],
        provenance=flat_facts(scores.provenance),
        has_random=BASELINE in board.methods,
    )


def _links(views: dict[str, Any]) -> list[dict[str, str]]:
    """The small table of contents on top."""
    parts = [
        ("values", "Values", True),
        ("caveats", "Caveats", True),
        ("pairs", "Comparisons", views["pairs"]),
        ("curves", "Curves", views["curves"]),
        ("images", "Per image", views["spreads"]),
        ("disagreements", "Disagreements", views["disagreements"]),
        ("metrics", "Metrics", views["guides"]),
        ("record", "Notices", True),
    ]
    return [{"anchor": anchor, "words": words} for anchor, words, there in parts if there]


def _tiles(scores: Scores, document: Document) -> list[dict[str, str]]:
    board = document.board
    methods, metrics = len(board.methods), len(board.metrics)
    return [
        {"words": "method" if methods == 1 else "methods", "value": str(methods)},
        {"words": "metric" if metrics == 1 else "metrics", "value": str(metrics)},
        {"words": "image" if board.images == 1 else "images", "value": _grouped(board.images)},
        {"words": "images shown to the model", "value": _grouped(scores.forwards)},
    ]


def _grouped(size: int) -> str:
    """A count in groups of three.

    >>> _grouped(121472) == "121\\u202f472", _grouped(0)
    (True, '–')
    """
    return f"{size:,}".replace(",", "\u202f") if size else NOTHING
