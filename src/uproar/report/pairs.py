"""Method against method under a protocol, as plain data: who beats whom, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

from uproar.report.figures import some
from uproar.report.formatting import protocol_label
from uproar.report.slices import Section
from uproar.report.style import Style
from uproar.statistics.comparisons import decided_pairs, pairs_sentence


@dataclass(frozen=True)
class PairRow:
    """Two estimators, the better first; `lead` is how much better, in accuracy."""

    better: str
    worse: str
    lead: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    decided: bool


@dataclass(frozen=True)
class PairFigure:
    """Every pair of one protocol; the methods stand best first."""

    protocol: str
    title: str
    methods: tuple[tuple[str, Style], ...]
    rows: tuple[PairRow, ...]

    def between(self, first: str, second: str) -> PairRow | None:
        """The pair of two methods, whichever is better."""
        return next((r for r in self.rows if {r.better, r.worse} == {first, second}), None)


def pair_figures(section: Section) -> list[PairFigure]:
    """One per protocol with at least two methods beside random."""
    return [_figure(section, protocol) for protocol in section.comparisons]


def _figure(section: Section, protocol: str) -> PairFigure:
    frame = section.comparisons[protocol]
    decided = set(decided_pairs(frame).index)
    sign = 1 if section.higher_is_better[protocol] else -1
    rows = []
    for place, row in zip(frame.index, frame.to_dict("records"), strict=True):
        low, high = sorted((sign * row["low"], sign * row["high"]))
        rows.append(
            PairRow(
                str(row["better"]),
                str(row["worse"]),
                some(sign * row["difference"]),
                some(low),
                some(high),
                some(row["p_holm"]),
                int(row["n"]),
                place in decided,
            )
        )
    title = f"{protocol_label(protocol)}: {pairs_sentence(frame, 'replicates')}"
    names = {name for row in rows for name in (row.better, row.worse)}
    methods = tuple((e, section.looks[e]) for e in _best_first(section, protocol) if e in names)
    return PairFigure(protocol, title, methods, tuple(rows))


def _best_first(section: Section, protocol: str) -> list[str]:
    """By the verdicts of the protocol itself where it has any."""
    frame = section.verdicts.get(protocol)
    ranked = [] if frame is None else list(frame["estimator"])
    return list(dict.fromkeys([*ranked, *section.estimators]))
