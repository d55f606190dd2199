"""The main path: plan a study, do what is missing, collect what there is."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from uproar.errors import BadInput
from uproar.store import Store
from uproar.study.cell import NO_BASE, Done, Failed, Outcome, TrialBatch, Unit
from uproar.study.executors import Executor, executor, workers
from uproar.study.grid import check_fractions
from uproar.study.job import Job, evaluator_of, is_evaluator
from uproar.study.plan import Plan, plan
from uproar.study.progress import Listener, Progress
from uproar.study.ray_executor import Ray
from uproar.study.run_job import Report
from uproar.study.slurm_executor import SlurmRequest, Submitit
from uproar.study.spec import Study
from uproar.wording import Pace


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


def run_study(
    study: Study,
    store: str | Path,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
    ray: str | None = None,
    budget: float | None = None,
    settled: Collection[Unit] = (),
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
    deadline = Deadline(budget)
    made_first = 0
    with _workers(study, store, jobs, ray, slurm) as runner:
        whole.pace = Pace(runner.workers)
        for name, todo, expected in _plans(study, store, settled):
            if deadline.over and whole.total:
                break
            _begin(Store(store))  # not before the plan: a study that cannot run leaves no store
            whole.pace.expect((job.like, job.cost) for job in expected.jobs)
            progress = _run(name, todo, runner, listen, deadline, whole.pace)
            whole.outcomes |= progress.outcomes
            whole.notices += progress.notices
            whole.promise(todo.promised)
            for kind, seconds in progress.seconds.items():
                whole.seconds[kind] = whole.seconds.get(kind, 0.0) + seconds
            if name.startswith(FIRST):
                made_first = progress.done - progress.cached
            elif not name.startswith(AUDIT):
                whole.total += progress.total
                whole.cached += progress.cached - made_first
                whole.done += progress.done
    if deadline.over:
        whole.notices.append(
            f"The budget of {budget:.0f} seconds ended the run: {whole.total - whole.done} cells of what was "
            "begun are not done; the same command goes on."
        )
    return whole


def _begin(store: Store) -> None:
    """Make the place a store, without what earlier runs left unfinished when they were killed."""
    store.begin()
    store.backend.sweep()


AUDIT = "audit "
"""How the names of studies that audits need begin."""
FIRST = "evaluator of "
"""How the name of the part of a study begins that is run before the rest."""


def _plans(study: Study, store: str | Path, settled: Collection[Unit]) -> Iterator[tuple[str, Plan, Plan]]:
    """What to do one after the other: the given study or its interim analyses, then what its audits need.

    Each is planned when what comes before it is done. Beside it stands what the time left is told of: the evaluator is
    asked before the rest of a study, which waits for it. What loads tables is imported late: the workers of a plain
    study should not wait for it.
    """
    check_fractions(study, Store(store).root)
    if study.until_decided:
        from uproar.study.adaptive import interim_studies

        for name, part in interim_studies(study, store):
            todo = plan(part, Store(store), settled)
            yield name, todo, todo
    else:
        whole = plan(study, Store(store), settled)
        first = _evaluator_part(study)
        if first is not None:
            yield f"{FIRST}{study.name}", plan(first, Store(store), settled), whole
            whole = plan(study, Store(store), settled)
        yield study.name, whole, whole
    if study.audits:
        from uproar.study.audit import audit_requests, needed_studies, needed_trials, plan_trials

        requests = audit_requests(study)
        for name, part in needed_studies(requests).items():
            todo = plan(part, Store(store), settled)
            yield f"{AUDIT}{name}", todo, todo
        for name, (trials, setting) in needed_trials(requests).items():
            todo = plan_trials(trials, setting, Store(store))
            yield f"{AUDIT}{name}", todo, todo


def _evaluator_part(study: Study) -> Study | None:
    """What a study asks of the evaluator, whose answer is wanted first; None where it asks nothing else, or nothing."""
    evaluators = [protocol.name for protocol in study.protocol_list if protocol.evaluator]
    if not evaluators or len(evaluators) == len(study.protocol_list):
        return None
    return study.with_changes(protocols=evaluators, metrics=(), audits=(), claims=())


@contextmanager
def _workers(
    study: Study, store: str | Path, jobs: int | None, ray: str | None, slurm: SlurmRequest | None
) -> Iterator[Executor]:
    """Where jobs run; nothing is left running."""
    if sum(way is not None for way in (jobs, ray, slurm)) > 1:
        raise BadInput("Give --jobs for this machine, --ray or --slurm for a cluster; not more than one of them.")
    root = Store(store).root
    if ray is not None:
        runner: Executor = Ray(root, ray, [study])
    elif slurm is not None:
        runner = Submitit(root, slurm, [study])
    else:
        runner = executor(root, workers(jobs, study.device), study.plugins, study.job_limit)
    try:
        yield runner
    finally:
        runner.close()


def _run(name: str, todo: Plan, runner: Executor, listen: Listener, deadline: Deadline, pace: Pace) -> Progress:
    progress = Progress(len(todo.cells), todo.cached, pace=pace, outcomes=dict(todo.skipped), study=name)
    progress.done = todo.cached + len(todo.skipped)
    listen(progress)
    _drive(todo, runner, progress, listen, deadline)
    return progress


def _drive(todo: Plan, runner: Executor, progress: Progress, listen: Listener, deadline: Deadline) -> None:
    """Hand out jobs as soon as what they need has ended, until all are done or the time is over."""
    queue = Queue(todo.jobs)
    ended: dict[str, Report] = {}
    under_way: set[str] = set()
    while queue.ready or under_way:
        if deadline.over:
            queue.ready.clear()
            under_way -= {job.id for job in runner.withdraw()}
            if not under_way:
                return
        while queue.ready:
            job = queue.ready.popleft()
            blocked = _blocked(job, ended)
            if blocked is None:
                runner.submit(job)
                under_way.add(job.id)
            else:
                _settle(blocked, ended, progress, listen)
                queue.end(job.id)
        if not under_way:
            continue
        progress.running = runner.running()
        report = runner.next()
        progress.running = runner.running()
        progress.where(runner.places(), "" if report is None else report.worker)
        if report is None:
            listen(progress)
            continue
        under_way.discard(report.job.id)
        _settle(report, ended, progress, listen)
        queue.end(report.job.id)


def _settle(report: Report, ended: dict[str, Report], progress: Progress, listen: Listener) -> None:
    ended[report.job.id] = report
    progress.pace.spent(report.job.like, report.job.cost, report.seconds)
    progress.notices += report.notices
    kind = report.job.kind
    progress.seconds[kind] = progress.seconds.get(kind, 0.0) + report.seconds
    for unit, outcome in report.outcomes.items():
        if not isinstance(unit, str):
            progress.done += 1
            if not isinstance(outcome, Done):
                progress.outcomes[unit] = outcome
    listen(progress)


def _blocked(job: Job, ended: dict[str, Report]) -> Report | None:
    """The report of a job that cannot run because what it needs was skipped or failed.

    Of several evaluators that are trained at once each says for itself why it cannot be.
    """
    for need in job.needs if len(job.seeds) < 2 else ():
        for unit, outcome in ended[need].outcomes.items():
            mine = unit in ("base", evaluator_of(job.seed)) or unit in _estimators(job)
            if mine and not isinstance(outcome, Done):
                units: list[str | Unit] = [*job.names, *job.cells, *map(evaluator_of, job.seeds)]
                return Report(job, dict.fromkeys(units, _inherited(unit, outcome)), 0.0)
    return None


def _estimators(job: Job) -> set[str]:
    return {cell.estimator for cell in job.cells if not isinstance(cell, TrialBatch)}


def _inherited(unit: str | Unit, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Failed) and unit == "base":
        return Failed(f"{NO_BASE}: {outcome.reason}", outcome.traceback)
    if isinstance(outcome, Failed) and is_evaluator(unit) and not outcome.reason.startswith(NO_BASE):
        return Failed(f"the evaluator could not be trained: {outcome.reason}", outcome.traceback)
    return outcome
