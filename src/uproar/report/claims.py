"""The claims of papers on one task and model as the page prints them: numbers as text, and where their evidence is."""

from __future__ import annotations

from collections.abc import Sequence

from uproar.expression import parse
from uproar.report.document import Chapter
from uproar.report.formatting import clean, degrees, known, level_text, number, p_value
from uproar.report.paper_figures import UndrawnFigure
from uproar.results.claim_outcome import Judgement, Measure
from uproar.statistics.intervals import Interval

KINDS = {
    "holds": "better",
    "does not hold here": "worse",
    "undecided": "unclear",
    "holds in part": "unclear",
    "does not hold in part": "unclear",
    "undecided in part": "unclear",
    "not tested": "skipped",
}
"""How an outcome is coloured; what some parts of a claim say never looks like an outcome of the whole."""


def interval_text(interval: Interval) -> str:
    """The ends of a claim's interval, and its level where that is not 95 %."""
    if interval.low != interval.low:
        return "no interval"
    ends = (number(end, 3) for end in (interval.low, interval.high))
    return f"{' … '.join(ends)}{level_text(interval.level, ' at ')}"


def claim_test(measure: Measure) -> str:
    """The test of a claim's number against the nearer end of the claimed range; nothing for a number that is exact.

    >>> claim_test(Measure("", Interval(0.3, 0.2, 0.4, 5, df=4), above=0.0)), claim_test(Measure("", Interval(0, 0, 0)))
    ('df 4.0, p = 0.0011', '')
    """
    if measure.interval.half_width == 0 or not known(measure.p):
        return ""
    p = p_value(measure.p)
    return f"df {degrees(measure.interval.df)}, p {p if p.startswith('<') else f'= {p}'}"


def evidence_anchor(one: Judgement, chapter: Chapter) -> str:
    """Where on the page the numbers behind a claim are: its audit, the metrics or the verdicts; empty for nowhere."""
    if one.outcome == "not tested":
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
