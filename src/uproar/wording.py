"""Numbers with their nouns, names in a row, settings and times, as sentences have them; and how long the rest takes."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from uproar.errors import BadInput


def counted(size: float, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "replicate"), counted(3, "replicate"), counted(2, "pass", "passes")
    ('1 replicate', '3 replicates', '2 passes')
    """
    return f"{size:.0f} {noun if size == 1 else plural or noun + 's'}"


def series(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> series(["a"]), series(["a", "b", "c"]), series([])
    ('a', 'a, b and c', '')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def setting_text(value: Any) -> str:
    """The value of a setting in words.

    >>> setting_text(None), setting_text(["roar", "kar"]), setting_text({"epochs": 2}), setting_text(True)
    ('none', 'roar, kar', 'epochs 2', 'yes')
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting_text(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting_text, value)) or "none"
    return str(value)


# times


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


class Pace:
    """How long the rest takes: seconds per unit of work so far, times the work that is left.

    Work is counted in some unit, such as images passed through a network. What is of another kind, such as a training
    and a map, takes another time per unit; what was never done goes as all that was done.

    >>> pace = Pace()
    >>> pace.expect([("explain", 100), ("train", 300)])
    >>> pace.left is None
    True
    >>> pace.spent("explain", 50, seconds=10)
    >>> pace.left
    70.0
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._left: dict[Hashable, float] = defaultdict(float)
        self._work: dict[Hashable, float] = defaultdict(float)
        self._seconds: dict[Hashable, float] = defaultdict(float)

    def expect(self, work: Iterable[tuple[Hashable, float]]) -> None:
        """What is to be done from now on, by kind."""
        self._left.clear()
        for kind, amount in work:
            self._left[kind] += amount

    def spent(self, kind: Hashable, work: float, seconds: float) -> None:
        """Work that was done, and the time of one worker that it took."""
        self._left[kind] = max(0.0, self._left[kind] - work)
        self._work[kind] += work
        self._seconds[kind] += seconds

    @property
    def left(self) -> float | None:
        """Seconds still to go; None until something has ended."""
        work, seconds = sum(self._work.values()), sum(self._seconds.values())
        if not work or not seconds:
            return None
        rest = 0.0
        for kind, amount in list(self._left.items()):  # others look at it from their own thread
            known = self._work.get(kind, 0.0) > 0
            rest += amount * (self._seconds[kind] / self._work[kind] if known else seconds / work)
        return rest / self.workers
