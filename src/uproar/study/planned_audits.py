"""What a command will run after the study it runs now: the studies of audits, planned before they begin."""

from __future__ import annotations

from collections.abc import Hashable

from uproar.remaining_time import Key, Pace
from uproar.study.job import Job
from uproar.study.plan import Plan


class Ahead:
    """Tells a pace how much work there is: of studies to come as foreseen, of one that begins as planned."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.foreseen: dict[str, list[tuple[Key, float]]] = {}
        self.seen: set[Hashable] = set()

    def expect(self, name: str, todo: Plan) -> None:
        """A study that comes later; what an earlier one makes anyway counts there."""
        works = [(job.like, job.cost * self._new(job)) for job in todo.jobs]
        self.foreseen[name] = works
        for key, work in works:
            self.pace.expect(key, work)

    def begin(self, name: str, todo: Plan) -> None:
        """A study begins: its jobs take the place of what was foreseen of it."""
        for key, work in self.foreseen.pop(name, ()):
            self.pace.drop(key, work)
        for job in todo.jobs:
            self._new(job)
            self.pace.expect(job.like, job.cost)

    def _new(self, job: Job) -> float:
        """The share of a job that no study before makes; from now on it is made."""
        parts: list[Hashable] = [*job.cells, *job.names] or [job.id]
        mine: set[Hashable] = {(job.setting, job.kind, job.seed, job.shard, job.crossed, part) for part in parts}
        new = len(mine - self.seen) / len(mine)
        self.seen |= mine
        return new
