"""A time that is to be kept: how long each kind of step took here, and whether another one would end in time.

Nothing is known beforehand of a machine or of what else runs on it. Every step is timed, per unit of work, and the
latest time of its kind is what the next one is expected to take.

>>> clock = iter([0.0, 10.0, 14.0, 14.0, 14.0]).__next__
>>> budget = TimeBudget(60.0, clock)
>>> with budget.timing("judge", work=8):
...     pass
>>> budget.expected("judge", work=64)
32.0
>>> budget.left, budget.allows(50.0)
(46.0, False)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager


class TimeBudget:
    """The time that may be spent, from `began` on; without `seconds` there is no end to it."""

    def __init__(
        self, seconds: float | None, clock: Callable[[], float] = time.perf_counter, began: float | None = None
    ) -> None:
        self.seconds, self.clock = seconds, clock
        self.began = clock() if began is None else began
        self.kept = 0.0
        """Seconds that are kept for what comes last."""
        self._rates: dict[Hashable, float] = {}

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Seconds for what comes before the last step."""
        return math.inf if self.seconds is None else self.seconds - self.kept - self.spent

    def allows(self, seconds: float) -> bool:
        """Whether a step that takes so long ends in time."""
        return seconds <= self.left

    @contextmanager
    def timing(self, kind: Hashable, work: float = 1.0) -> Iterator[None]:
        """Time a step of a kind; one that raises says nothing of the next."""
        began = self.clock()
        yield
        self.took(kind, work, self.clock() - began)

    def took(self, kind: Hashable, work: float, seconds: float) -> None:
        """So much work of a kind took so long."""
        if work > 0:
            self._rates[kind] = seconds / work

    def expected(self, kind: Hashable, work: float = 1.0, otherwise: float = 0.0) -> float:
        """Seconds that so much work of a kind takes; `otherwise` per unit where none was done."""
        return work * self._rates.get(kind, otherwise)
