"""Scheduling of jobs: which are ready, how much work is expected, and whether the time budget is spent."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence

from uproar.remaining_time import Key, Pace
from uproar.study.job import Job
from uproar.study.plan import Plan


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


class ExpectedWork:
    """Tells a pace how much work there is: the plan of the study that runs, and the plans of audits that follow."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.expected: dict[str, list[tuple[Key, float]]] = {}
        self.counted: set[Hashable] = set()

    def expect(self, name: str, todo: Plan) -> None:
        """A study that comes later; what an earlier one makes anyway counts there."""
        work = [(job.like, job.cost * self._new(job)) for job in todo.jobs]
        self.expected[name] = work
        for key, cost in work:
            self.pace.expect(key, cost)

    def begin(self, name: str, todo: Plan) -> None:
        """A study begins: its jobs take the place of what was expected of it."""
        for key, cost in self.expected.pop(name, ()):
            self.pace.drop(key, cost)
        for job in todo.jobs:
            self._new(job)
            self.pace.expect(job.like, job.cost)

    def _new(self, job: Job) -> float:
        """The share of a job that no study before makes; from now on it is made."""
        parts: list[Hashable] = [*job.cells, *job.names] or [job.id]
        mine: set[Hashable] = {
            (job.setting, job.kind, job.seed, job.shard, job.crossed, job.test_only, part) for part in parts
        }
        new = len(mine - self.counted) / len(mine)
        self.counted |= mine
        return new
