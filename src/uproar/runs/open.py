"""Opening a run: what a folder or a store has of it, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.errors import BadInput
from uproar.paths import public, user_path
from uproar.runs.folder import read_run
from uproar.runs.other_folders import RECORD
from uproar.store import MARKER
from uproar.study.progress import read_progress
from uproar.study.spec import Study, study_of

if TYPE_CHECKING:
    from uproar.results.scores import Scores
    from uproar.runs.run import Run

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
    place = None if store is None else str(store)
    if isinstance(source, Study | Mapping):
        return open_store(study_of(source), place)
    folder = user_path(source)
    if folder.is_file() or folder.suffix == ".toml":
        return open_store(study_of(folder), place)
    if holds_scores(folder):
        from uproar.report import read_scores

        return read_scores(folder)
    if not (folder / RECORD).is_file() and (folder / MARKER).is_file():
        return _open_around(folder, weights, trust)
    return open_folder(folder, None if weights is None else str(weights), place, trust)


def open_folder(folder: Path, weights: str | None = None, store: str | None = None, trust: bool = False) -> Run:
    """The run in a folder."""
    return run_in(folder, *read_run(folder, weights, store, trust))


def run_in(folder: Path, study: Study, store: str, facts: Mapping[str, Any]) -> Run:
    """What the store of a folder has, with what the run's progress says of cells that were skipped or failed."""
    from uproar.runs.run import collect_run  # tables and plots load slowly: not before a bad folder is refused

    return replace(collect_run(study, store, read_progress(folder), facts), folder=folder)


def open_store(study: Study, store: str | None, facts: Mapping[str, Any] | None = None) -> Run:
    """What a store has of a study; refused if that is nothing."""
    if store is None:
        raise BadInput(f"Say where the results of {study.name} are: uproar.open(study, store='runs/x/store').")
    from uproar.runs.run import collect_run

    run = collect_run(study, store, None, facts)
    answered = any(finding.state != "skipped" for finding in run.findings)
    if not answered and not {"done", "failed"} & {*run.table["status"], *run.scores["status"]}:
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
