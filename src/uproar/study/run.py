"""The main path: name what a study asks for, make what is missing, hand jobs out as soon as they can be done."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path

from uproar.errors import BadInput
from uproar.store import Store
from uproar.study.executors import Executor, executor, workers
from uproar.study.graph import (
    ATTEMPTS,
    NO_BASE,
    Done,
    Failed,
    Job,
    Lost,
    Outcome,
    Report,
    Result,
    Skipped,
    jobs_of,
    missing,
)
from uproar.study.grid import cells_of, check_study, settings_of, shown_of
from uproar.study.progress import Listener, Progress
from uproar.study.ray_executor import Ray
from uproar.study.slurm_executor import SlurmRequest, Submitit
from uproar.study.spec import Study
from uproar.wording import Pace

AUDIT = "audit "
"""How the names of studies that audits need begin."""


@dataclass
class Plan:
    """What a study asks for, what the store has of it, and the jobs for the rest."""

    wanted: list[Result]
    """What its numbers are made of, each once."""
    cached: int
    jobs: list[Job] = field(default_factory=list)
    beside: list[Result] = field(default_factory=list)
    """What a report shows beside the numbers."""
    refused: int = 0
    """Numbers that do not apply here."""

    @property
    def cost(self) -> float:
        """All expected work, in images passed forward and backward."""
        return sum(job.cost for job in self.jobs)


def plan(study: Study, store: Store, settled: Collection[str] = ()) -> Plan:
    """The jobs that are still to be done; what is `settled`, by key, has ended and is not tried again."""
    check_study(study)
    settings = settings_of(study)
    cells = [cell for setting in settings for cell in cells_of(study, setting)]
    wanted = list(dict.fromkeys(cell.result for cell in cells if cell.result is not None))
    shown = [result for setting in settings for result in shown_of(study, setting)]
    refused = sum(cell.result is None for cell in cells)
    store.backend.refresh()  # others may have written since it was last read
    absent = missing([result for result in (*wanted, *shown) if result.key not in settled], store)
    cached = sum(store.has(result.folder, result.key) for result in wanted)
    return Plan(wanted, cached, jobs_of(absent, study.device), shown, refused)


def run_study(
    study: Study,
    store: str | Path,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
    ray: str | None = None,
    budget: float | None = None,
    settled: Mapping[str, Outcome] | None = None,
    slurm: SlurmRequest | None = None,
) -> Progress:
    """Do everything a study and its audits ask for that the store does not have yet.

    Results go to the store as they are made: stopping at any moment loses only what is under way. The progress is
    that of the study; the outcomes are also those of its audits. `ray` is the address of a cluster that does the jobs
    instead of processes of this machine, `slurm` what tasks of a SLURM cluster ask for that do them. After `budget`
    seconds nothing new is begun. What is `settled` has ended without a result before and is not tried again.
    """
    if budget is not None and not budget > 0:
        raise BadInput(f"budget is a time in seconds above 0, not {budget}.")
    study.check_files()
    whole = Progress(study=study.name)
    deadline = math.inf if budget is None else time.monotonic() + budget
    whole.outcomes |= settled or {}
    with _workers(study, store, jobs, ray, slurm) as runner:
        whole.pace = Pace(runner.workers)
        for name, todo in _plans(study, store, whole.outcomes):
            if time.monotonic() >= deadline and whole.total:
                break
            _begin(Store(store))  # not before the plan: a study that cannot run leaves no store
            whole.promised |= {(result.folder, result.key) for result in (*todo.wanted, *todo.beside)}
            progress = _run(name, todo, runner, listen, deadline, whole)
            if not name.startswith(AUDIT):
                whole.total += progress.total
                whole.cached += progress.cached
                whole.done += progress.done
    if time.monotonic() >= deadline:
        whole.notices.append(
            f"The budget of {budget:.0f} seconds ended the run: {whole.total - whole.done} results of what was "
            "begun are not done; the same command goes on."
        )
    return whole


def _begin(store: Store) -> None:
    """Make the place a store, without what earlier runs left unfinished when they were killed."""
    store.begin()
    store.backend.sweep()


def _plans(study: Study, address: str | Path, settled: Mapping[str, Outcome]) -> Iterator[tuple[str, Plan]]:
    """What to do one after the other: the study or its interim analyses, then what its audits need.

    Each is planned when what comes before it is done. What loads tables is imported late: the workers of a plain study
    should not wait for it.
    """
    store = Store(address)
    if study.until_decided:
        from uproar.study.adaptive import interim_studies

        for name, interim_study in interim_studies(study, address):
            yield name, plan(interim_study, store, settled)
    else:
        yield study.name, plan(study, store, settled)
    if study.audits:
        from uproar.study.audit import audit_requests, needed_studies

        for name, audit_study in needed_studies(audit_requests(study)).items():
            yield f"{AUDIT}{name}", plan(audit_study, store, settled)


@contextmanager
def _workers(
    study: Study, store: str | Path, jobs: int | None, ray: str | None, slurm: SlurmRequest | None
) -> Iterator[Executor]:
    """Where jobs run; nothing is left running."""
    if sum(way is not None for way in (jobs, ray, slurm)) > 1:
        raise BadInput("Give --jobs for this machine, --ray or --slurm for a cluster; not more than one of them.")
    root = Store(store).root
    if ray is not None:
        runner: Executor = Ray(root, ray, study)
    elif slurm is not None:
        runner = Submitit(root, slurm, study)
    else:
        runner = executor(root, workers(jobs, study.device), study.plugins, study.job_limit)
    try:
        yield runner
    finally:
        runner.close()


def _run(name: str, todo: Plan, runner: Executor, listen: Listener, deadline: float, whole: Progress) -> Progress:
    """Make everything of a plan; what the store loses meanwhile is made once more."""
    progress = Progress(len(todo.wanted), todo.cached, todo.cached, whole.pace, study=name)
    progress.outcomes, progress.notices = whole.outcomes, whole.notices
    progress.done += sum(result.key in whole.outcomes for result in todo.wanted)
    listen(progress)
    jobs, counted = todo.jobs, set(todo.wanted)
    for _ in range(ATTEMPTS):
        whole.pace.expect((job.like, job.cost) for job in jobs)
        lost = _drive(jobs, counted, runner, progress, listen, deadline)
        if not lost or time.monotonic() >= deadline:
            return progress
        store = Store(runner.root)
        jobs = jobs_of(missing(lost, store), jobs[0].device)
    for result, outcome in lost.items():
        _note(result, Failed(f"the store lost what it needs, {ATTEMPTS} times: {outcome.reason}"), counted, progress)
    return progress


def _drive(
    jobs: Sequence[Job],
    counted: Collection[Result],
    runner: Executor,
    progress: Progress,
    listen: Listener,
    deadline: float,
) -> dict[Result, Lost]:
    """Hand out jobs as soon as what they need has ended, until all are done or the time is over; what was lost."""
    named, order = {job.id: job for job in jobs}, TopologicalSorter({job.id: job.needs for job in jobs})
    order.prepare()
    under_way: set[Future[Report]] = set()
    ended: dict[Result, Outcome] = {}

    def settle(report: Report) -> None:
        if report.seconds:
            progress.pace.spent(report.job.like, report.job.cost, report.seconds)
        progress.notices += report.notices
        for result, outcome in report.outcomes.items():
            ended[result] = outcome
            if not isinstance(outcome, Lost):
                _note(result, outcome, counted, progress)
        listen(progress)

    while order.is_active():
        over = time.monotonic() >= deadline
        if over:
            under_way -= {future for future in under_way if future.cancel()}
        for job in () if over else map(named.__getitem__, order.get_ready()):
            inherited = {r: why for r in job.results if (why := _inherited(r, ended, progress.outcomes)) is not None}
            possible = tuple(result for result in job.results if result not in inherited)
            if inherited:
                settle(Report(job, inherited, 0.0))
            if possible:
                under_way.add(runner.submit(job.only(possible)))
            else:
                order.done(job.id)
        if over and not under_way:
            break
        if not under_way:
            continue
        progress.where(runner.running())
        listen(progress)
        for future in runner.wait(under_way):
            under_way.discard(future)
            report = future.result()
            progress.where(runner.running(), report.worker)
            settle(report)
            order.done(report.job.id)
    return {result: outcome for result, outcome in ended.items() if isinstance(outcome, Lost)}


def _note(result: Result, outcome: Outcome, counted: Collection[Result], progress: Progress) -> None:
    progress.done += result in counted
    if not isinstance(outcome, Done):
        progress.outcomes[result.key] = outcome


def _inherited(result: Result, ended: Mapping[Result, Outcome], outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """How a result ends whose inputs cannot be made; None where all are there."""
    for needed in result.inputs:
        outcome = ended.get(needed, outcomes.get(needed.key))
        if isinstance(outcome, Failed):
            if needed.step == "base_model":
                return Failed(f"{NO_BASE}: {outcome.reason}", outcome.traceback)
            if needed.step == "evaluator" and not outcome.reason.startswith(NO_BASE):
                return Failed(f"the evaluator could not be trained: {outcome.reason}", outcome.traceback)
        if isinstance(outcome, Skipped | Failed | Lost):
            return outcome
    return None
