"""The main path: plan a study, do what is missing, collect what there is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from uproar.errors import BadInput
from uproar.store import Store
from uproar.study.cell import Cell, Done, Failed, Outcome, Scored, Unit
from uproar.study.execute import Executor, default_jobs, executor
from uproar.study.plan import Job, Plan, plan
from uproar.study.progress import Listener, Progress
from uproar.study.ray_executor import Ray
from uproar.study.spec import Study
from uproar.study.work import Report


def run_study(
    study: Study, store: str | Path, jobs: int | None = None, listen: Listener = lambda _: None,
    ray: str | None = None,
) -> Progress:  # fmt: skip
    """Do everything a study and its audits ask for that the store does not have yet.

    Results go to the store as they are made: stopping at any moment loses only what is under way. The progress is
    that of the study; the outcomes are also those of its audits. `ray` is the address of a cluster that does the jobs
    instead of processes of this machine.
    """
    more: dict[str, Study] = {}
    if study.audits:  # they load tables, for which the workers of other studies should not wait
        from uproar.study.audit import asked, needed

        more = needed(asked(study))
    progress, *others = run_studies({study.name: study, **more}, store, jobs, listen, ray)
    for other in others:
        progress.outcomes |= other.outcomes
        progress.notices += other.notices
    return progress


def run_studies(
    studies: Mapping[str, Study],
    store: str | Path,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
    ray: str | None = None,
) -> list[Progress]:
    """Run studies one after the other on the same workers; `listen` is told which one it is."""
    if ray is not None and jobs is not None:
        raise BadInput("Give --jobs for this machine or --ray for a cluster, not both.")
    root = Store(store).root
    if ray is not None:
        runner: Executor = Ray(root, ray, list(studies.values()))
    else:
        plugins = tuple(dict.fromkeys(file for study in studies.values() for file in study.plugins))
        fewest = min(default_jobs(study.device) for study in studies.values())
        runner = executor(root, fewest if jobs is None else jobs, plugins)
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
        progress.running = runner.running()
        progress.where(runner.places(), "" if report is None else report.worker)
        if report is None:
            listen(progress)
            continue
        under_way.discard(report.job.id)
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
