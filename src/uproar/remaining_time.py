"""How long the rest will take, judged by how long what was done took.

Work is counted in some unit, such as images passed through a network. Seconds per unit differ by what is done, so they
are kept by key, from general to special: `("cnn-small", "explain", "ig")`. Work of a key that was never done is
expected to go as the nearest more general one did: `("cnn-small", "explain")`, `("cnn-small",)`, `()`.

>>> pace = Pace()
>>> pace.expect(("net", "explain"), 100)
>>> pace.expect(("net", "judge"), 300)
>>> pace.left is None
True
>>> pace.spent(("net", "explain"), 50, seconds=10)
>>> pace.left
70.0
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Hashable

from uproar.errors import BadInput

Key = tuple[Hashable, ...]

EARLY = 0.01
"""Share of the work below which the pace is that of starting up: the first job would promise days."""
LATE = 0.1
"""Share of its expected time that something under way is at least expected to go on for."""


class Pace:
    """Seconds per unit of work so far, and what is left of the work."""

    def __init__(self, workers: int = 1, clock: Callable[[], float] = time.perf_counter) -> None:
        self.workers = workers
        self.clock = clock
        self.total = 0.0
        self.done = 0.0
        self._left: dict[Key, float] = defaultdict(float)
        self._known: dict[Key, tuple[float, float]] = {}
        self._assumed: dict[Key, float] = {}
        self._first: dict[Key, tuple[float, float]] = {}
        self._begun: dict[Hashable, tuple[float, Key, float]] = {}

    def expect(self, key: Key, work: float) -> None:
        """Work that is to be done."""
        self._left[key] += work
        self.total += work

    def drop(self, key: Key, work: float) -> None:
        """Work that is not to be done after all."""
        work = min(work, self._left[key])
        self._left[key] -= work
        self.total -= work

    def assume(self, key: Key, seconds: float) -> None:
        """Seconds per unit of a key, from a short measurement; what is done under it counts more."""
        self._assumed[key] = seconds

    def begin(self, name: Hashable, key: Key, work: float) -> None:
        """Something is under way from now on."""
        self._begun.setdefault(name, (self.clock(), key, work))

    def end(self, name: Hashable) -> None:
        """Something is not under way any more; what it took is told by `spent`."""
        self._begun.pop(name, None)

    def spent(self, key: Key, work: float, seconds: float, first: bool = False) -> None:
        """Work that was done, and the time of one worker that it took.

        What a process does `first` takes longer, since it also loads data and code: it counts where nothing else is
        known.
        """
        self._left[key] = max(0.0, self._left[key] - work)
        self.done += work
        known = self._first if first else self._known
        if seconds > 0:
            for n in range(len(key) + 1):
                before = known.get(key[:n], (0.0, 0.0))
                known[key[:n]] = before[0] + work, before[1] + seconds

    @property
    def share(self) -> float:
        """How much of the expected time has gone by, from 0 to 1; by work as long as no time is known."""
        if self.total <= 0:
            return 0.0
        if () not in self._known:
            return min(1.0, self.done / self.total)
        gone, rest = self._known[()][1], self._rest()
        return gone / (gone + rest) if gone + rest else 1.0

    @property
    def left(self) -> float | None:
        """Seconds still to go; None until enough has ended to know the pace."""
        if self.done <= EARLY * self.total and not self._foreseen:
            return None
        begun = list(self._begun.values())  # others look at it from their own thread
        longest = max((self._remaining(*each) for each in begun), default=0.0)
        return max(self._rest() / self.workers, longest)

    @property
    def _foreseen(self) -> bool:
        """Whether all that is left was measured beforehand."""
        waiting = [key for key, work in list(self._left.items()) if work > 0]
        return all(any(key[:n] in self._assumed for n in range(len(key) + 1)) for key in waiting)

    def _rest(self) -> float:
        """Time of one worker for all that is left, less what has gone by of what is under way."""
        rest = sum(work * self._rate(key) for key, work in list(self._left.items()) if work > 0)
        for since, key, work in list(self._begun.values()):
            expected = work * self._rate(key)
            rest -= expected - self._remaining(since, key, work)
        return max(0.0, rest)

    def _remaining(self, since: float, key: Key, work: float) -> float:
        expected = work * self._rate(key)
        return max(expected - (self.clock() - since), LATE * expected)

    def _rate(self, key: Key) -> float:
        """Seconds per unit as the nearest key that was done."""
        for n in range(len(key), -1, -1):
            work, seconds = self._known.get(key[:n], (0.0, 0.0))
            if work > 0:
                return seconds / work
            if key[:n] in self._assumed:
                return self._assumed[key[:n]]
        work, seconds = self._first.get((), (0.0, 0.0))
        return seconds / work if work > 0 else 0.0


def about(seconds: float | None) -> str:
    """A time that was estimated.

    >>> about(8.2), about(0.2)
    ('about 8 s', 'less than a second')
    """
    return "less than a second" if seconds is not None and seconds < 0.5 else f"about {duration(seconds)}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(8), duration(75), duration(7300), duration(None)
    ('8 s', '1 min 15 s', '2 h 01 min', 'unknown')
    """
    if seconds is None or math.isnan(seconds):
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(text: str, setting: str = "--budget") -> float:
    """A duration in seconds; `setting` is what a refusal calls it.

    >>> seconds_of("90"), seconds_of("30m"), seconds_of("1.5 h")
    (90.0, 1800.0, 5400.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if match is None or float(match[1]) == 0:
        raise BadInput(f"{setting} takes a time such as 90s, 30m or 2h, not {text!r}.")
    return float(match[1]) * _UNITS[match[2]]
