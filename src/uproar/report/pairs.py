"""Method against method under a protocol or a metric: who beats whom, and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from uproar.protocols import Protocol
from uproar.report.figures import numbers
from uproar.report.section import Section
from uproar.report.style import Style
from uproar.statistics.comparisons import pairs_sentence


@dataclass(frozen=True)
class Pair:
    """Two methods, the better first; undecided where chance may have ordered them."""

    better: str
    worse: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    """What was paired: replicates under a protocol, images under a metric."""
    decided: bool
    ranked: bool = True
    """Whether a metric is defined for enough images of both."""
    p_alone: float | None = None
    """Before Holm's correction."""
    df: float | None = None
    note: str = ""
    replicates: int = 1

    @property
    def sample(self) -> str:
        """How many there are of each kind: replicates, images, or both.

        >>> Pair("a", "b", 0.1, 0.0, 0.2, 0.04, 200, True, replicates=3).sample
        '3 × 200'
        """
        return str(self.n) if self.replicates in (1, self.n) else f"{self.replicates} × {self.n}"

    @property
    def verdict(self) -> str:
        """What was decided, in words that need no names."""
        return "better" if self.decided else "cannot tell" if self.ranked else "not ranked"


@dataclass(frozen=True)
class PairTable:
    """Every pair of one protocol; the methods stand best first."""

    protocol: Protocol
    title: str
    methods: dict[str, Style]
    pairs: tuple[Pair, ...]
    score: str = "accuracy"
    """What differences are of."""

    def between(self, first: str, second: str) -> Pair | None:
        """The pair of two methods, whichever is better."""
        return next((pair for pair in self.pairs if {pair.better, pair.worse} == {first, second}), None)


def pairs_of(frame: pd.DataFrame, sign: int = 1) -> tuple[Pair, ...]:
    """The rows of a table of comparisons; `sign` turns differences so that a lead is positive."""
    pairs = []
    for row in frame.to_dict("records"):
        low, high = sorted((sign * row["low"], sign * row["high"]))
        difference, low, high, p = numbers((sign * row["difference"], low, high, row["p_holm"]))
        names, decided = (str(row["better"]), str(row["worse"])), row["side"] == 1 and difference is not None
        alone, df = numbers((row.get("p", math.nan), row.get("df", math.nan)))
        ranked, note = bool(row["ranked"]), str(row.get("note", ""))
        n, replicates = int(row["n"]), int(row.get("replicates", 1))
        pairs.append(Pair(*names, difference, low, high, p, n, decided, ranked, alone, df, note, replicates))
    return tuple(pairs)


def pair_tables(section: Section) -> list[PairTable]:
    """One per protocol with at least two methods beside random."""
    return [_pair_table(section, protocol) for protocol in section.comparisons]


def _pair_table(section: Section, protocol: str) -> PairTable:
    frame = section.comparisons[protocol]
    pairs = pairs_of(frame, section.protocols[protocol].direction)
    title = f"{section.label(protocol)}: {pairs_sentence(frame, 'replicates')}"
    names = {name for pair in pairs for name in (pair.better, pair.worse)}
    methods = {e: section.styles[e] for e in _best_first(section, protocol) if e in names}
    return PairTable(section.protocols[protocol], title, methods, pairs, section.score)


def _best_first(section: Section, protocol: str) -> list[str]:
    """By the verdicts of the protocol itself where it has any."""
    return list(dict.fromkeys([*section.kinds.get(protocol, ()), *section.estimators]))
