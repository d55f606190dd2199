"""The claims of papers, and their figures, on one task and model in the words of the templates."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from uproar.report.audits import AuditPart
from uproar.report.document import Chapter
from uproar.report.formatting import NOTHING, clean, number
from uproar.report.paper_figures import PaperFigure, UndrawnFigure
from uproar.report.pictures import Panel
from uproar.results.judgement import Judgement, Measure

KINDS = {"holds": "better", "does not hold here": "worse", "undecided": "unclear", "not asked": "skipped"}


def claim_views(chapter: Chapter, identity: str) -> list[dict[str, Any]]:
    """One row per claim, with a link to the numbers it was judged by."""
    return [_view(one, chapter, identity) for one in chapter.claims]


def _view(one: Judgement, chapter: Chapter, identity: str) -> dict[str, Any]:
    return {
        "paper": clean(one.paper),
        "place": clean(one.place),
        "says": clean(one.says),
        "published": clean(one.published),
        "outcome": one.outcome,
        "kind": KINDS[one.outcome],
        "name": clean(one.claim),
        "reason": clean(one.reason),
        "deciding": None if one.deciding is None else _row(one.deciding),
        "parts": [_row(m) for m in one.measures] if len(one.measures) > 1 else [],
        "anchor": _anchor(one, chapter, identity),
    }


def _row(measure: Measure) -> dict[str, Any]:
    return {
        "what": clean(measure.what),
        "effect": number(measure.effect, 3),
        "n": f"{measure.n} {measure.of}",
        "interval": f"{_end(measure.low)} … {_end(measure.high)}",
        "claimed": measure.claimed,
        "outcome": measure.outcome,
        "kind": KINDS[measure.outcome],
    }


def _end(value: float) -> str:
    return NOTHING if value != value else number(value, 3)


def _anchor(one: Judgement, chapter: Chapter, identity: str) -> str:
    """Where on the page the numbers behind a claim are: its audit, the metrics or the verdicts."""
    if one.outcome == "not asked":
        return ""
    audit: AuditPart | None = next(
        (p for p in chapter.audits if one.evidence and p.finding.audit.startswith(one.evidence)), None
    )
    if audit is not None:
        return f"{identity}-{audit.anchor}"
    by_metric = one.deciding is not None and one.deciding.of == "images"
    if by_metric and chapter.metrics is not None:
        return f"{identity}-metrics"
    return f"{identity}-verdicts" if chapter.retrains else ""


def paper_figure_view(chapter: Chapter, one: PaperFigure, files: Mapping[str, bytes]) -> dict[str, Any]:
    """A figure of a paper as the template prints it, drawn into the page."""
    stem = "" if one.figure is None else chapter.stem(one.figure)
    kind = "png" if isinstance(one.figure, Panel) else "svg"  # pictures are pixels already
    return {
        "title": clean(one.title),
        "reading": clean(one.reading),
        "paper": clean(one.paper),
        "place": clean(one.place),
        "stem": stem,
        "image": _drawn(files[f"{stem}.{kind}"], kind) if stem else "",
        "width": _width(files[f"{stem}.png"]) if stem else 0,
        "table": one.table,
    }


def _drawn(content: bytes, kind: str) -> str:
    mime = "svg+xml" if kind == "svg" else kind
    return f"data:image/{mime};base64,{base64.b64encode(content).decode()}"


def _width(png: bytes) -> int:
    """Of a drawing on the page, in pixels: drawings have 150 to an inch, pages 96."""
    return round(int.from_bytes(png[16:20], "big") * 96 / 150)


def undrawn_views(missing: Sequence[UndrawnFigure]) -> list[dict[str, str]]:
    """The figures that could not be drawn, by reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in missing:
        places.setdefault((one.paper, one.reason), []).append(one.place)
    return [
        {"paper": clean(paper), "places": ", ".join(where), "reason": clean(reason)}
        for (paper, reason), where in places.items()
    ]
