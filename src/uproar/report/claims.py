"""The claims of papers on one task and model as the page prints them: numbers as text, and where their evidence is."""

from __future__ import annotations

from collections.abc import Sequence

from uproar.expression import parse
from uproar.report.document import Chapter
from uproar.report.formatting import NOTHING, clean, level_text, number
from uproar.report.paper_figures import UndrawnFigure
from uproar.results.claim_outcome import Judgement
from uproar.statistics.intervals import Interval

KINDS = {"holds": "better", "does not hold here": "worse", "undecided": "unclear", "not asked": "skipped"}


def interval_text(interval: Interval) -> str:
    """The ends of a claim's interval, and its level where that is not 95 %."""
    ends = (NOTHING if end != end else number(end, 3) for end in (interval.low, interval.high))
    return f"{' … '.join(ends)}{level_text(interval.level, ' at ')}"


def evidence_anchor(one: Judgement, chapter: Chapter) -> str:
    """Where on the page the numbers behind a claim are: its audit, the metrics or the verdicts; empty for nowhere."""
    if one.outcome == "not asked":
        return ""
    for part in chapter.audits:
        if parse(part.finding.audit).name == one.evidence:
            return chapter.anchor(part.anchor)
    by_metric = one.deciding is not None and one.deciding.of == "images"
    if by_metric and chapter.metrics is not None:
        return chapter.anchor("metrics")
    return chapter.anchor("verdicts") if chapter.retrains else ""


def undrawn_by_reason(undrawn: Sequence[UndrawnFigure]) -> dict[tuple[str, str], str]:
    """The figures that could not be drawn, by paper and reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in undrawn:
        places.setdefault((clean(one.paper), clean(one.reason)), []).append(one.place)
    return {key: ", ".join(where) for key, where in places.items()}
