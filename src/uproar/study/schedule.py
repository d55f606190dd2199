"""Scheduling of jobs: which are ready, and whether the time budget is spent."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence

from uproar.study.job import Job


class Queue:
    """Jobs by what they need: those whose needs have all ended are `ready`, in the order of the plan."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.ready = deque(job for job in jobs if not job.needs)
        self._missing = {job.id: len(set(job.needs)) for job in jobs}
        self._dependents: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            for need in set(job.needs):
                self._dependents[need].append(job)

    def end(self, name: str) -> None:
        """A job has ended, well or not: what waited for it alone is ready."""
        for job in self._dependents.pop(name, ()):
            self._missing[job.id] -= 1
            if not self._missing[job.id]:
                self.ready.append(job)


class Deadline:
    """Whether the time that may be spent is over."""

    def __init__(self, budget: float | None) -> None:
        self.end = None if budget is None else time.monotonic() + budget

    @property
    def over(self) -> bool:
        """Whether nothing new may begin."""
        return self.end is not None and time.monotonic() >= self.end
