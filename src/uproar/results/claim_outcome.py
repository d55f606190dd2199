"""What became of a paper's claim in a study: numbers with their uncertainty, and an outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import pandas as pd

from uproar.statistics.design import ALPHA
from uproar.statistics.intervals import Interval
from uproar.wording import counted

Outcome = Literal["holds", "does not hold here", "undecided", "not tested"]
"""`not tested`: the study lacks what the claim is about."""

Judged = Literal[Outcome, "holds in part", "does not hold in part", "undecided in part"]
"""What became of a claim; `... in part`: of those of its parts that the study can ask, which never are the claim."""

IN_PART: dict[str, Judged] = {
    "holds": "holds in part",
    "does not hold here": "does not hold in part",
    "undecided": "undecided in part",
}
"""The outcome of some parts of a claim, by the outcome that they would have as the whole of it."""

OUTCOMES: tuple[Judged, ...] = (
    *("holds", "holds in part", "does not hold here", "does not hold in part"),
    *("undecided", "undecided in part", "not tested"),
)


def tally(outcomes: Sequence[str]) -> str:
    """How many claims came to what; those asked in part are counted apart.

    >>> tally(["holds", "undecided", "holds", "holds in part"]), tally(["does not hold here"])
    ('2 hold, 1 holds in part, 1 undecided', '1 does not hold here')
    """
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return ", ".join(f"{n} {_plural(outcome) if n > 1 else outcome}" for outcome, n in counts.items() if n)


def _plural(outcome: str) -> str:
    return outcome.replace("does not", "do not").replace("holds", "hold")


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
    alpha: float = ALPHA
    """The error that a decision by this number alone may spend; less where a study was analysed several times."""
    paper: float = math.nan
    """The number that the paper prints for it, in the same units; NaN where it prints none."""

    @property
    def outcome(self) -> Outcome:
        """Decided where the whole interval lies inside the claimed range, or the whole of it outside."""
        low, high = self.interval.low, self.interval.high
        if not (math.isfinite(low) and math.isfinite(high)):
            return "undecided"
        if low > self.above and high < self.below:
            return "holds"
        return "does not hold here" if high <= self.above or low >= self.below else "undecided"

    def corrected(self, factor: int) -> Measure:
        """The same with the interval at level 1 - alpha / factor: what counts where it is one of several numbers."""
        return replace(self, interval=self.interval.at_level(1 - self.alpha / factor))

    @property
    def inside(self) -> bool:
        """Whether the number itself lies in the claimed range."""
        return self.above < self.interval.value < self.below

    @property
    def p(self) -> float:
        """Two-sided p of the number lying at the nearer end of the claimed range; NaN without an interval."""
        if not self.inside:
            return self.interval.p_against(self.above if self.interval.value <= self.above else self.below)
        bounds = [bound for bound in (self.above, self.below) if math.isfinite(bound)]
        return max((self.interval.p_against(bound) for bound in bounds), default=0.0)

    @property
    def support(self) -> float:
        """How surely the number lies in the claimed range: 1 - p where it does, p - 1 where it does not, 0 unknown."""
        p = self.p
        if math.isnan(p):
            return 0.0
        return 1 - p if self.inside else p - 1

    @property
    def margin(self) -> float:
        """How far the interval lies inside the claimed range; negative by as much as it reaches out of it."""
        inside = min(self.interval.low - self.above, self.below - self.interval.high)
        return -math.inf if math.isnan(inside) else inside

    @property
    def as_published(self) -> str:
        """Whether the effect is as large as the paper's; empty where it prints no number.

        >>> Measure("", Interval(0.08, 0.05, 0.11, n=5), above=0.0, paper=0.5).as_published
        'smaller'
        """
        low, high = self.interval.low, self.interval.high
        if math.isnan(self.paper) or math.isnan(low) or math.isnan(high):
            return ""
        if low <= self.paper <= high:
            return "as large"
        if self.interval.value * self.paper < 0:
            return "other direction"
        return "larger" if abs(self.interval.value) > abs(self.paper) else "smaller"

    @property
    def sample(self) -> str:
        """How many there are of each kind behind the number.

        >>> Measure("", Interval(0.1, n=500, replicates=3), "images").sample
        '500 images in 3 replicates'
        """
        return sample_text(self.interval.n, self.of, self.interval.replicates)

    @property
    def claimed(self) -> str:
        """The claimed range in words."""
        if math.isfinite(self.above) and math.isfinite(self.below):
            return f"{self.above:g} to {self.below:g}"
        return f"above {self.above:g}" if math.isfinite(self.above) else f"below {self.below:g}"


def sample_text(n: float, of: str, replicates: float) -> str:
    """A number of images with that of the replicates they were seen in; anything else is counted alone.

    >>> sample_text(1, "replicates", 1), sample_text(500, "images", 1), sample_text(500, "images", math.nan)
    ('1 replicate', '500 images in 1 replicate', '500 images')
    """
    sample = counted(n, of.removesuffix("s"))
    return sample if of != "images" or math.isnan(replicates) else f"{sample} in {counted(replicates, 'replicate')}"


@dataclass(frozen=True)
class Missing:
    """A part of a claim that a study cannot ask."""

    reason: str


@dataclass(frozen=True)
class Decision:
    """The measures of a claim, the one that decides it, and the outcome of all together."""

    outcome: Outcome
    measures: tuple[Measure, ...]
    deciding: Measure
    """One of the measures, its interval at the level that decides."""
    evidence: str = ""
    """The audit that the numbers are from; empty where they are the study's own."""
    missing: tuple[Missing, ...] = ()
    """Parts of the claim that were not tested."""


@dataclass(frozen=True)
class Judgement:
    """One claim of a paper, tested on one task and model."""

    claim: str
    """Its name, `paper:what`."""
    paper: str
    place: str
    """Where it stands in the paper."""
    says: str
    """The claim in one sentence, in our words."""
    published: str
    """The published numbers."""
    outcome: Judged
    measures: tuple[Measure, ...] = ()
    deciding: Measure | None = None
    evidence: str = ""
    reason: str = ""
    """Why it could not be asked, or only in part."""
    task: str = ""
    model: str = ""


ABOUT = ("claim", "paper", "place", "says", "published", "outcome")
NUMBERS = (
    *("what", "n", "of", "replicates", "effect", "low", "high", "level", "df", "p"),
    *("claimed", "part", "decides", "paper_number", "as_published"),
)
BEHIND = ("evidence", "reason", "task", "model")


def claims_table(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """One row per number behind each claim: `part` is its own outcome, `decides` whether the claim hangs on it.

    `low` and `high` are the interval at `level`: 95 %, and for the number that decides the level that decides; `p` is
    that of the number lying at the nearer end of the claimed range, two-sided and alone.
    """
    rows: list[dict[str, Any]] = []
    for judgement in judgements:
        about = {name: getattr(judgement, name) for name in (*ABOUT, *BEHIND)}
        rows += [{**about, **_number(m), "decides": m == judgement.deciding} for m in judgement.measures] or [
            {**about, "decides": False}
        ]
    return pd.DataFrame(rows, columns=[*ABOUT, *NUMBERS, *BEHIND])


def _number(measure: Measure) -> dict[str, Any]:
    interval = measure.interval
    return {
        "what": measure.what,
        **interval.as_row("effect", with_n=True),
        **{name: getattr(interval, name) for name in ("replicates", "level", "df")},
        **{"of": measure.of, "p": measure.p, "claimed": measure.claimed, "part": measure.outcome},
        **{"paper_number": measure.paper, "as_published": measure.as_published},
    }
