"""The main path: plan a study, do what is missing, collect what there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uproar.store import Store
from uproar.study.cell import Cell, Done, Failed, Outcome, Scored, Unit
from uproar.study.execute import Executor, default_jobs, executor
from uproar.study.plan import Job, Plan, plan
from uproar.study.spec import Study
from uproar.study.work import Report


@dataclass
class Progress:
    """How far a run is; `listen` is called whenever something ends."""

    total: int = 0
    cached: int = 0
    done: int = 0
    work: float = 0.0
    """Work of all jobs, in images passed forward and backward."""
    work_done: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    running: list[Job] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    outcomes: dict[Unit, Outcome] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time inside jobs, by kind."""
    study: str = ""
    """Which of several studies it is."""

    @property
    def left(self) -> float | None:
        """Seconds still to go at the pace so far; None before anything ended."""
        if self.work_done <= 0:
            return None
        spent = time.perf_counter() - self.started
        return spent / self.work_done * (self.work - self.work_done)


Listener = Callable[[Progress], None]


def run_study(
    study: Study, store: str | Path, jobs: int | None = None, listen: Listener = lambda _: None
) -> Progress:
    """Do everything a study and its audits ask for that the store does not have yet.

    Results go to the store as they are made: stopping at any moment loses only what is under way. The progress is
    that of the study; the outcomes are also those of its audits.
    """
    more: dict[str, Study] = {}
    if study.audits:  # they load tables, for which the workers of other studies should not wait
        from uproar.study.audit import asked, needed

        more = needed(asked(study))
    progress, *others = run_studies({study.name: study, **more}, store, jobs, listen)
    for other in others:
        progress.outcomes |= other.outcomes
        progress.notices += other.notices
    return progress


def run_studies(
    studies: Mapping[str, Study],
    store: str | Path,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
) -> list[Progress]:
    """Run studies one after the other on the same workers; `listen` is told which one it is."""
    root = Store(store).root
    workers = default_jobs() if jobs is None else jobs
    plugins = tuple(dict.fromkeys(file for study in studies.values() for file in study.plugins))
    runner = executor(root, workers, plugins)
    try:
        return [_run(name, study, store, runner, listen) for name, study in studies.items()]
    finally:
        runner.close()


def _run(
    name: str, study: Study, store: str | Path, runner: Executor, listen: Listener
) -> Progress:
    todo = plan(study, Store(store))
    progress = Progress(
        len(todo.cells), todo.cached, work=todo.cost, outcomes=dict(todo.skipped), study=name
    )
    progress.done = todo.cached + len(todo.skipped)
    listen(progress)
    _drive(todo, runner, progress, listen)
    return progress


def _drive(todo: Plan, runner: Executor, progress: Progress, listen: Listener) -> None:
    """Hand out jobs as soon as what they need has ended."""
    waiting = {job.id: job for job in todo.jobs}
    ended: dict[str, Report] = {}
    under_way: set[str] = set()
    while waiting or under_way:
        for job in [
            j
            for j in waiting.values()
            if all(n not in waiting and n not in under_way for n in j.needs)
        ]:
            del waiting[job.id]
            blocked = _blocked(job, ended)
            if blocked is None:
                runner.submit(job)
                under_way.add(job.id)
            else:
                _settle(blocked, ended, progress, listen)
        if not under_way:
            continue
        report = runner.next()
        under_way.discard(report.job.id)
        progress.running = runner.running()
        _settle(report, ended, progress, listen)


def _settle(report: Report, ended: dict[str, Report], progress: Progress, listen: Listener) -> None:
    ended[report.job.id] = report
    progress.work_done += report.job.cost
    progress.notices += report.notices
    kind = report.job.kind
    progress.seconds[kind] = progress.seconds.get(kind, 0.0) + report.seconds
    for unit, outcome in report.outcomes.items():
        if isinstance(unit, Cell | Scored):
            progress.done += 1
            if not isinstance(outcome, Done):
                progress.outcomes[unit] = outcome
    listen(progress)


def _blocked(job: Job, ended: dict[str, Report]) -> Report | None:
    """The report of a job that cannot run because what it needs was skipped or failed."""
    for need in job.needs:
        for unit, outcome in ended[need].outcomes.items():
            mine = unit == "base" or unit in {cell.estimator for cell in job.cells}
            if mine and not isinstance(outcome, Done):
                units: list[str | Unit] = [*job.names, *job.cells]
                return Report(job, dict.fromkeys(units, _inherited(unit, outcome)), 0.0)
    return None


def _inherited(unit: str | Unit, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Failed) and unit == "base":
        return Failed(f"the base model could not be trained: {outcome.reason}", outcome.traceback)
    return outcome
