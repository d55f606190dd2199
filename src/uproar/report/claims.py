"""The claims of papers on one task and model in the words of the templates."""

from __future__ import annotations

from typing import Any

from uproar.judgement import Judgement, Measure
from uproar.report.audits import AuditPart
from uproar.report.document import Chapter
from uproar.report.words import NOTHING, clean, number

KINDS = {
    "holds": "better", "does not hold here": "worse", "undecided": "unclear", "not asked": "skipped",
}  # fmt: skip


def claim_views(chapter: Chapter, identity: str) -> list[dict[str, Any]]:
    """One row per claim, with a link to the numbers it was judged by."""
    return [_view(one, chapter, identity) for one in chapter.claims]


def _view(one: Judgement, chapter: Chapter, identity: str) -> dict[str, Any]:
    return {
        "paper": clean(one.paper), "place": clean(one.place), "says": clean(one.says),
        "published": clean(one.published), "outcome": one.outcome, "kind": KINDS[one.outcome],
        "name": clean(one.claim), "reason": clean(one.reason),
        "deciding": None if one.deciding is None else _row(one.deciding),
        "parts": [_row(m) for m in one.measures] if len(one.measures) > 1 else [],
        "anchor": _anchor(one, chapter, identity),
    }  # fmt: skip


def _row(measure: Measure) -> dict[str, Any]:
    return {
        "what": clean(measure.what), "effect": number(measure.effect, 3), "n": f"{measure.n} {measure.of}",
        "interval": f"{_end(measure.low)} … {_end(measure.high)}", "claimed": measure.claimed,
        "outcome": measure.outcome, "kind": KINDS[measure.outcome],
    }  # fmt: skip


def _end(value: float) -> str:
    return NOTHING if value != value else number(value, 3)


def _anchor(one: Judgement, chapter: Chapter, identity: str) -> str:
    """Where on the page the numbers behind a claim are: its audit, the metrics or the verdicts."""
    if one.outcome == "not asked":
        return ""
    audit: AuditPart | None = next(
        (p for p in chapter.audits if one.evidence and p.finding.audit.startswith(one.evidence)), None
    )  # fmt: skip
    if audit is not None:
        return f"{identity}-{audit.anchor}"
    by_metric = one.deciding is not None and one.deciding.of == "images"
    if by_metric and chapter.metrics is not None:
        return f"{identity}-metrics"
    return f"{identity}-verdicts" if chapter.retrains else ""
