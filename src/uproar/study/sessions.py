"""Studies from Python: run what is missing, repair what the store has lost, collect; open what ran before."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.errors import BadInput
from uproar.paths import public, user_path
from uproar.store import MARKER
from uproar.study.progress import Listener, Progress, notebook_listener, read_progress
from uproar.study.record import RECORD, read_run
from uproar.study.run import run_study
from uproar.study.slurm_executor import SlurmRequest
from uproar.study.spec import Study, study_of

if TYPE_CHECKING:
    from uproar.results.finding import Finding
    from uproar.results.scores import Scores
    from uproar.study.collected import Run


def run(
    study: Study | Mapping[str, Any] | str | Path = Study(),
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    device: str | None = None,
    ray: str | None = None,
    slurm: SlurmRequest | None = None,
    budget: float | None = None,
    listen: Listener | None = None,
) -> Run:
    """Run a study and its audits, or what is missing of them, and collect the results.

    `store` is where results are kept, a folder or an fsspec URL (`s3://bucket/study`), `runs/<name>/store` by default;
    the same call again only reads them. `jobs` is the number of processes, `device` where networks run; `ray` ("auto"
    or "HOST:PORT") runs the jobs on a Ray cluster instead, `slurm` ("partition=gpu,time=4h" or a mapping) in tasks of a
    SLURM cluster. After `budget` seconds nothing new is begun. `listen` is called with the `Progress` whenever
    something ends; without it, a notebook shows the progress below its cell.
    """
    study = study_of(study).with_changes(device=device)
    address = str(store if store is not None else Path("runs") / study.name / "store")
    return run_to_end(study, address, jobs, listen or notebook_listener(), ray, budget, slurm).results


def audit(
    run: Run,
    *names: str,
    jobs: int | None = None,
    device: str | None = None,
    ray: str | None = None,
    slurm: SlurmRequest | None = None,
    listen: Listener | None = None,
) -> list[Finding]:
    """Ask whether a run's own scores mislead: one finding per audit, task and model.

    `names` are audits such as `"blur"` or `"leakage"`; without any, all are asked for which no network is trained, and
    a warning names the others. Only what the store does not have yet is run.
    """

    if not hasattr(run, "store"):
        raise BadInput(
            f"audit takes what uproar.run or uproar.open returned, and names of audits; not {type(run).__name__}."
        )
    study = study_of(run.study).with_changes(device=device)
    study = study.with_changes(audits=names or _without_training(study, run.store))
    return list(run_to_end(study, run.store, jobs, listen or notebook_listener(), ray, slurm=slurm).results.findings)


def _without_training(study: Study, store: str) -> list[str]:
    """The audits for which no network is trained; who asks for all of them by no name does not expect hours."""
    from uproar.audits import audits
    from uproar.store import Store
    from uproar.study.cost_estimate import audit_trainings

    trained = {name: audit_trainings(study, name, Store(store)) for name in audits}
    left_out = {name: count for name, count in trained.items() if count and name not in study.audits}
    if left_out:
        listed = ", ".join(f"{name} ({count})" for name, count in left_out.items())
        warnings.warn(
            f"Audits that would train networks (how many) are not run: {listed}. Ask for them by name, e.g. "
            f'uproar.audit(run, "{next(iter(left_out))}").',
            stacklevel=3,
        )
    return [name for name in audits if name not in left_out]


ROUNDS = 10
"""How often a study is gone through at most while results in the store turn out to be lost.

An audit stops at the first file it cannot read, so that several may be found one round after the other.
"""


@dataclass(frozen=True)
class CompletedRun:
    """A study that was run to its end, or to that of its budget."""

    results: Run
    progress: Progress
    seconds: float
    """Spent on running, without the collecting."""


def run_to_end(
    study: Study,
    store: str | Path,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
    ray: str | None = None,
    budget: float | None = None,
    slurm: SlurmRequest | None = None,
) -> CompletedRun:
    """Run a study and its audits and collect what they found; what the store has lost is computed again.

    Collecting reads and verifies every result, so that it finds what is damaged, or was removed since it was made.
    """
    began = time.perf_counter()
    progress = run_study(study, store, jobs, listen, ray, budget, slurm=slurm)
    seconds = time.perf_counter() - began
    # tables and plots load as long as a small study runs: not before its workers have started
    from uproar.study.collected import collect_run

    results = collect_run(study, store, progress)
    for _ in range(ROUNDS - 1):
        if not results.lost or (budget is not None and seconds >= budget):
            break
        began = time.perf_counter()
        rest = None if budget is None else budget - seconds
        later = run_study(study, store, jobs, listen, ray, rest, dict(progress.outcomes), slurm)
        seconds += time.perf_counter() - began
        later.cached, later.notices = min(progress.cached, later.cached), [*progress.notices, *later.notices]
        progress = later
        results = collect_run(study, store, progress)
    return CompletedRun(results, progress, seconds)


SCORES = "scores.json"
"""What `uproar score` leaves in its folder."""


def open(  # noqa: A001
    source: Study | Mapping[str, Any] | str | Path,
    *,
    store: str | Path | None = None,
    weights: str | Path | None = None,
    trust: bool = False,
) -> Run | Scores:
    """What a run has found so far, read from its folder, finished or not; nothing is run.

    `source` is the folder of `uproar run` (a `Run`), that of `uproar score` (its `Scores`), or a study (a file, a dict
    or a `Study`) together with the `store` that has its results. `store` and `weights` also say where these are now if
    they have moved. A folder whose study names Python files is refused unless you `trust` them: reading it runs them.
    """
    address = None if store is None else str(store)
    if isinstance(source, Study | Mapping):
        return open_store(study_of(source), address)
    folder = user_path(source)
    if folder.is_file() or folder.suffix == ".toml":
        return open_store(study_of(folder), address)
    if holds_scores(folder):
        from uproar.report import read_scores

        return read_scores(folder)
    if not (folder / RECORD).is_file() and (folder / MARKER).is_file():
        return _open_around(folder, weights, trust)
    return open_folder(folder, None if weights is None else str(weights), address, trust)


def open_folder(folder: Path, weights: str | None = None, store: str | None = None, trust: bool = False) -> Run:
    """The run in a folder."""
    return run_in(folder, *read_run(folder, weights, store, trust))


def run_in(folder: Path, study: Study, store: str, facts: Mapping[str, Any]) -> Run:
    """What the store of a folder has, with what the run's progress says of cells that were skipped or failed."""
    from uproar.study.collected import collect_run  # tables and plots load slowly: not before a bad folder is refused

    return replace(collect_run(study, store, read_progress(folder), facts), folder=folder)


def open_store(study: Study, store: str | None, facts: Mapping[str, Any] | None = None) -> Run:
    """What a store has of a study; refused if that is nothing."""
    if store is None:
        raise BadInput(f"Say where the results of {study.name} are: uproar.open(study, store='runs/x/store').")
    from uproar.study.collected import collect_run

    run = collect_run(study, store, None, facts)
    answered = any(finding.state != "skipped" for finding in run.findings)
    if not answered and not {"done", "failed"} & {*run.cells["status"], *run.scores["status"]}:
        raise BadInput(
            f"Nothing of {study.name} is finished in {public(store)}: run it first, or give the --store that has it "
            "(in Python, store=)."
        )
    return run


def holds_scores(folder: Path) -> bool:
    """Whether a folder has scores of maps, and no run."""
    return (folder / SCORES).is_file() and not (folder / RECORD).is_file()


def _open_around(store: Path, weights: str | Path | None, trust: bool) -> Run:
    """The run whose folder a store lies in."""
    if not (store.parent / RECORD).is_file():
        raise BadInput(
            f"{store} is the store of a run and does not say of which study: give that, "
            f"uproar.open('study.toml', store={str(store)!r})."
        )
    return open_folder(store.parent, None if weights is None else str(weights), str(store), trust)
