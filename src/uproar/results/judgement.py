"""What became of a paper's claim in a study: numbers with their uncertainty, and an outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pandas as pd

from uproar.statistics.intervals import Interval

Outcome = Literal["holds", "does not hold here", "undecided", "not asked"]
"""`not asked`: the study lacks what the claim is about."""

OUTCOMES: tuple[Outcome, ...] = ("holds", "does not hold here", "undecided", "not asked")


class Range(TypedDict, total=False):
    """Where a claim says that a number lies."""

    above: float
    below: float


@dataclass(frozen=True)
class Measure:
    """A number with its interval, and the range in which the claim says it lies.

    >>> Measure("grad against random", Interval(0.08, 0.05, 0.11, n=5), above=0.0).outcome
    'holds'
    >>> Measure("grad against random", Interval(0.08, -0.01, 0.17, n=5), above=0.0).outcome
    'undecided'
    """

    what: str
    interval: Interval
    of: str = "replicates"
    """What the interval's n counts."""
    above: float = -math.inf
    below: float = math.inf

    @property
    def outcome(self) -> Outcome:
        """Decided where the whole interval lies inside the claimed range, or the whole of it outside."""
        low, high = self.interval.low, self.interval.high
        if not (math.isfinite(low) and math.isfinite(high)):
            return "undecided"
        if low > self.above and high < self.below:
            return "holds"
        return "does not hold here" if high <= self.above or low >= self.below else "undecided"

    @property
    def margin(self) -> float:
        """How far the interval lies inside the claimed range; negative by as much as it reaches out of it."""
        inside = min(self.interval.low - self.above, self.below - self.interval.high)
        return -math.inf if math.isnan(inside) else inside

    @property
    def claimed(self) -> str:
        """The claimed range in words."""
        if math.isfinite(self.above) and math.isfinite(self.below):
            return f"{self.above:g} to {self.below:g}"
        return f"above {self.above:g}" if math.isfinite(self.above) else f"below {self.below:g}"


@dataclass(frozen=True)
class Decision:
    """The measures of a claim, the one that decides it, and the outcome of all together."""

    outcome: Outcome
    measures: tuple[Measure, ...]
    deciding: Measure
    evidence: str = ""
    """The audit that the numbers are from; empty where they are the study's own."""


@dataclass(frozen=True)
class Judgement:
    """One claim of a paper, asked of one task and model."""

    claim: str
    """Its name, `paper:what`."""
    paper: str
    place: str
    """Where it stands in the paper."""
    says: str
    """The claim in one sentence, in our words."""
    published: str
    """The published numbers."""
    outcome: Outcome
    measures: tuple[Measure, ...] = ()
    deciding: Measure | None = None
    evidence: str = ""
    reason: str = ""
    """Why it could not be asked."""
    task: str = ""
    model: str = ""


ABOUT = ("claim", "paper", "place", "says", "published", "outcome")
NUMBERS = ("what", "n", "of", "effect", "low", "high", "claimed", "part", "decides")
BEHIND = ("evidence", "reason", "task", "model")


def claims_table(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """One row per number behind each claim: `part` is its own outcome, `decides` whether the claim hangs on it."""
    rows: list[dict[str, Any]] = []
    for one in judgements:
        about = {name: getattr(one, name) for name in (*ABOUT, *BEHIND)}
        rows += [{**about, **_number(m), "decides": m == one.deciding} for m in one.measures] or [
            {**about, "decides": False}
        ]
    return pd.DataFrame(rows, columns=[*ABOUT, *NUMBERS, *BEHIND])


def _number(measure: Measure) -> dict[str, Any]:
    interval = measure.interval.as_row("effect", with_n=True)
    return {"what": measure.what, **interval, "of": measure.of, "claimed": measure.claimed, "part": measure.outcome}
