"""How well judges recover known orders: one row per judge, task and kind, what they say together, and whom to trust.

The rule of trust: a metric or protocol is trusted where its recovery, the mean of Kendall's τ over the kinds that
matter and the tasks that were asked, is at least 0.8, the lower end of its 95 % interval over tasks lies above 0.6, and
it turns round none of these kinds (τ below −0.2): a judge that is right in all but one way is fooled in that way. Nor
may it put a random map above the truth on any task, as deletion does with a fill that its network takes for evidence.
A judge that reads the order of pixels alone is asked to see what changes that order: a filter that leaves all important
pixels above all others does not, so that this task and kind do not count for it.
The numbers of what the package declares come with it (`metric_board.json`) once `tools/metric_board.py` has made them.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from uproar.statistics.intervals import Interval, mean_interval

BOARD = Path(__file__).with_name("metric_board.json")
"""What was measured for everything that the package declares."""

LEAST, LEAST_LOW = 0.8, 0.6
"""Recovery, and lower end of its interval, from which a judge is trusted."""
MATTER = ("noise", "shift", "blur", "missing", "extra", "encoder", "edges", "encoding", "leak")
"""The kinds that matter for the order of pixels; `sign` and `contrast` are about values, the rest about preferences."""
OF_CLASSES = ("encoder", "encoding", "leak")
"""Those of masks that tell the class."""

COLUMNS = {
    "judge": "the metric or protocol",
    "task": "of the suite",
    "kind": "what orders the maps",
    "tau": "Kendall's τ with the known order: 1 all pairs right, 0 by chance, −1 turned round",
    "low": "lower end of its 95 % interval: bootstrap over images",
    "high": "upper end",
    "right": "share of pairs in the right order, with confidence",
    "wrong": "share of pairs in the wrong order, with confidence",
    "needed": "images until a pair is told right in 80 % of samples, median over pairs",
    "replicates": "trainings until a pair is told right in 80 % of samples, median over pairs; 1000: never",
    "spread": "largest minus smallest value",
    "images": "of the task",
    "counts": "whether the maps are worse in what the judge reads: their values, or the order of their pixels",
}
"""The columns of a table of recoveries."""

NAMED = ("judge", "task", "kind")
"""Those of names."""

BLIND, WRONG = 0.2, -0.2
"""τ below which a judge is blind to a kind, and below which it rewards what is worse."""
REWARDS = {
    "missing": "few pixels",
    "extra": "many pixels",
    "blur": "blur",
    "encoder": "encoding of the class",
    "encoding": "a mask that tells the class",
    "leak": "a random map, if the right one tells the class",
    "edges": "edges",
    "noise": "noise",
    "shift": "the wrong place",
    "sign": "the wrong sign",
    "contrast": "a raised background",
    "centre": "the centre of the image",
    "brightness": "bright pixels",
    "random": "a random map",
    "randomised": "a network that has forgotten",
    "samples": "fewer samples",
}
"""What a judge rewards that turns an order round."""


@dataclass(frozen=True)
class JudgeRecovery:
    """What is known of one judge."""

    judge: str
    recovery: Interval
    """The mean τ over the kinds that matter, with its interval over tasks; n counts tasks."""
    by_kind: dict[str, float]
    """The mean τ over tasks."""
    wrong: float
    """Share of pairs in the wrong order with confidence, over the kinds that matter."""
    needed: float
    """Images until a pair is told right in 80 % of samples: the median over tasks and kinds that matter."""
    spread: float
    """The part of its scale that a known order takes: the median over tasks and kinds that matter."""
    replicates: float = math.nan
    """Trainings until a pair is told right in 80 % of samples: the median over kinds that matter; NaN if not asked."""
    counted: dict[str, float] = field(default_factory=dict)
    """The same as `by_kind` where the kind matters and what the judge reads gets worse."""
    matter: tuple[str, ...] = MATTER
    """The kinds that matter."""
    random_won: tuple[str, ...] = ()
    """The tasks where it puts a random map above the truth."""

    @property
    def trusted(self) -> bool:
        """Whether the rule of trust holds."""
        enough = self.recovery.value >= LEAST and self.recovery.low > LEAST_LOW
        return enough and not self.fooled and not self.random_won

    @property
    def wide(self) -> bool:
        """Whether nothing but the width of the interval speaks against trust."""
        known = self.recovery.value >= LEAST and not self.fooled and not self.random_won
        return known and not self.trusted and not self.single

    @property
    def single(self) -> bool:
        """Whether one task alone was asked, which has no interval and decides nothing about trust."""
        return self.recovery.n == 1

    @property
    def fooled(self) -> list[str]:
        """Kinds that matter which it turns round."""
        return [kind for kind in self.matter if self.counted.get(kind, 0.0) <= WRONG]

    @property
    def turned(self) -> bool:
        """Whether it is wrong in sign: it orders the other way round, and not by chance."""
        return self.recovery.value < 0 and self.recovery.high < 0

    @property
    def blind(self) -> list[str]:
        """Kinds that it does not see."""
        return [kind for kind, tau in self.by_kind.items() if WRONG < tau < BLIND]

    @property
    def rewards(self) -> list[str]:
        """What it rewards that makes maps worse, in words."""
        return [REWARDS.get(kind, kind) for kind, tau in self.by_kind.items() if tau <= WRONG]

    @property
    def sentence(self) -> str:
        """What to say of it beside a score."""
        value, interval = f"{self.recovery.value:.2f}", f"{self.recovery.low:.2f} … {self.recovery.high:.2f}"
        if self.single:
            return f"{self.judge} recovers known orders with {value} on one task; trust takes at least two."
        if self.turned:
            return f"{self.judge} is wrong in sign: recovery {value} ({interval}); turn higher_is_better round."
        said = "trusted" if self.trusted else "not trusted"
        if self.fooled and self.recovery.value >= LEAST:
            said += f", since it rewards {', '.join(REWARDS.get(kind, kind) for kind in self.fooled)}"
        elif self.random_won and self.recovery.value >= LEAST:
            said += f", since it puts a random map above the truth on {', '.join(self.random_won)}"
        elif self.wide:
            said += f", since its interval reaches below {LEAST_LOW}"
        return f"{self.judge} recovers known orders with {value} ({interval}, {self.recovery.n} tasks): {said}."


def judge_recovery(table: pd.DataFrame, judge: str, kinds: Iterable[str] = MATTER) -> JudgeRecovery:
    """What the rows of a table say of one judge."""
    own, kinds = table[table["judge"] == judge], tuple(kinds)
    matter = own[own["kind"].isin(kinds) & own["counts"].astype(bool)]
    by_task = matter.groupby("task", sort=False)["tau"].mean()
    recovery = _clipped(mean_interval(by_task.to_numpy(dtype=float), exact=True))
    by_kind = {str(kind): float(tau) for kind, tau in own.groupby("kind", sort=False)["tau"].mean().items()}
    wrong = float(matter["wrong"].mean()) if len(matter) else float("nan")
    needed, spread = (float(np.median(matter[name])) if len(matter) else float("nan") for name in ("needed", "spread"))
    asked = matter["replicates"].dropna()
    replicates = float(np.median(asked)) if len(asked) else math.nan  # the one NaN that is equal to itself in a tuple
    counted = matter.groupby("kind", sort=False)["tau"].mean().to_dict()
    lost = tuple(own.loc[(own["kind"] == "random") & (own["tau"] <= WRONG), "task"])
    return JudgeRecovery(judge, recovery, by_kind, wrong, needed, spread, replicates, counted, kinds, lost)


def judge_recoveries(table: pd.DataFrame, kinds: Iterable[str] = MATTER) -> list[JudgeRecovery]:
    """All judges of a table, best recovery first."""
    kinds = tuple(kinds)
    every = [judge_recovery(table, str(judge), kinds) for judge in table["judge"].unique()]
    return sorted(every, key=lambda one: -np.nan_to_num(one.recovery.value, nan=-2))


def disagreements(local: Sequence[JudgeRecovery], suite: Sequence[JudgeRecovery]) -> list[str]:
    """A sentence on each judge that is trusted here and not in the suite, or the other way round."""
    known = {one.judge: one for one in suite}
    said = []
    for one in local:
        other = known.get(one.judge)
        if other is not None and not one.single and other.trusted != one.trusted:
            where, elsewhere = ("here", "in the suite") if one.trusted else ("in the suite", "here")
            here, r = f"{one.recovery.value:.2f} here", one.recovery
            if one.wide:
                elsewhere = f"known to be here, where {r.n} tasks are too few"
                here = f"{r.value:.2f} ({r.low:.2f} … {r.high:.2f}) here"
            recovery = f"recovery {here}, {other.recovery.value:.2f} in the suite"
            said.append(f"{one.judge} is trusted {where} but not {elsewhere}: {recovery}.")
    return said


@functools.cache
def board_table() -> pd.DataFrame:
    """What was measured for the judges that the package declares; empty before the board was first made."""
    if not BOARD.is_file():
        return pd.DataFrame(columns=[*COLUMNS])
    content = json.loads(BOARD.read_text(encoding="utf-8"))
    table = pd.DataFrame(content["rows"], columns=content["columns"])
    names = {column: table[column].map(dict(enumerate(content["names"][column]))) for column in NAMED}
    replicates, needed = table["replicates"].astype(float), table["needed"].fillna(np.inf).astype(float)
    return table.assign(needed=needed, replicates=replicates, counts=table["counts"] == 1, **names)


def recovery_words(judge: str, interval: bool = True) -> str:
    """The recovery of a metric or protocol as it stands beside its scores; empty for one that the board has not.

    With the interval: "0.93 (0.85 … 1.00), trusted". Without: "0.93, trusted".
    """
    known = trust(judge)
    if known is None or not math.isfinite(known.recovery.value):
        return ""
    one = known.recovery
    ends = f" ({one.low:.2f} … {one.high:.2f})" if interval and math.isfinite(one.low) else ""
    return f"{one.value:.2f}{ends}, {'trusted' if known.trusted else 'not trusted'}".replace("-", "−")


def trust(judge: str, kinds: Iterable[str] = MATTER) -> JudgeRecovery | None:
    """What the board says of a metric with exactly these options; None where it has not measured them.

    A metric inherits nothing: with another fill, range or number of points it is another metric.
    """
    table = board_table()
    return judge_recovery(table, judge, kinds) if (table["judge"] == judge).any() else None


def _clipped(interval: Interval) -> Interval:
    """A correlation's interval ends at ±1."""
    low, high = (float(np.clip(end, -1, 1)) for end in (interval.low, interval.high))
    return Interval(interval.value, low, high, interval.n)
