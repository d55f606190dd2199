"""The folder of a run: its record is written and read, and says what was run and where its results are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.data.locations import add_roots, environment_roots
from uproar.errors import BadInput, StoreError
from uproar.paths import user_path
from uproar.plugins.loading import source_hash
from uproar.runs.other_folders import RECORD
from uproar.runs.record import WallTime, read_record
from uproar.runs.trust import check_code, is_ours, signature
from uproar.storage.backends import write_file
from uproar.storage.urls import is_hidden, public
from uproar.study.bundled import shipped_studies, summary
from uproar.study.spec import Study, study_of

if TYPE_CHECKING:
    from uproar.report.result_page import StudyText


FILE = "study.toml"
"""The study as its author wrote it, where it was a file."""


def write_run(folder: Path, study: Study, place: str, facts: dict[str, Any], file: str | None = None) -> None:
    """Note in the folder of a run what was run and where its results are; `file` is the text of the study file."""
    settings = study.model_dump(mode="json")
    store = public(place) if "://" in place else str(user_path(place).resolve())
    content = {
        "study": settings,
        "store": store,
        "facts": facts,
        "data": environment_roots(),
        "weights": None if study.weights is None else source_hash(study.weights),
        "signature": signature(folder, settings, store),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / RECORD, json.dumps(content, indent=1).encode())
        if file is not None:
            write_file(folder / FILE, file.encode())
    except OSError as error:
        raise StoreError(f"Cannot write into {folder}: {error.strerror or error}.") from None


def read_run(
    folder: Path, weights: str | None = None, store: str | None = None, trust: bool = False
) -> tuple[Study, str, dict[str, Any]]:
    """The study, store and facts of a run; `weights` and `store` say where these are now.

    Without `trust`, a record that this user did not write here runs no code and opens no store but its own.
    """
    record = read_record(folder)
    ours = trust or is_ours(folder, record.study, record.store, record.signature)
    if not ours:
        check_code(folder, record.study)
    place = store if store is not None else _store_of(folder, record.store, ours)
    add_roots(record.data)
    study = _with_weights(study_of({"random_rankings": 1, **record.study}), weights, record.weights)
    return study, place, record.facts.given()


def _store_of(folder: Path, noted: str, ours: bool) -> str:
    """Where the results of a run are: where it kept them, or beside its record if they have moved together."""
    beside = folder / "store"
    there = "://" in noted or user_path(noted).is_dir()
    if beside.is_dir() and not (ours and there):
        return str(beside)
    if not there:
        raise BadInput(
            f"The results of {folder} were in {noted}, which is not there: put that folder back, or move it to "
            f"{beside}."
        )
    if is_hidden(noted):
        raise BadInput(
            f"The results of {folder} are at {noted}, whose password was not written down: give the whole URL as "
            "--store (in Python, store=)."
        )
    if not ours:
        raise BadInput(
            f"{folder} was not made here by you, or has been moved or edited, and its results are outside of it, in "
            f"{noted}: give --trust to use them there, or --store with the place where they are (in Python, trust=True "
            "or store=)."
        )
    return noted


def earlier_facts(folder: Path) -> dict[str, Any]:
    """The facts of the sessions before this one; `wall` is the time they took, and how many began and ended."""
    try:
        facts = read_record(folder).facts
    except BadInput:
        return {"wall": WallTime().model_dump()}
    wall = facts.wall or WallTime(seconds=facts.seconds or 0.0, begun=1, ended=int(facts.seconds is not None))
    return {**facts.given(), "wall": wall.model_dump()}


def study_text(folder: Path | None, study: Study) -> StudyText:
    """What a page says of a run beside its results: the study file, as it was run or as it comes with the package."""
    from uproar.report.result_page import StudyText

    kept = None if folder is None else folder / FILE
    file = kept if kept is not None and kept.is_file() else shipped_studies().get(study.name)
    content = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
    return StudyText(summary(content), content)


def _with_weights(study: Study, weights: str | None, known: str | None) -> Study:
    """The study of a run with its file of weights where it lies now; another file is refused."""
    if weights is not None:
        if study.weights is None:
            raise BadInput("The networks of this run were trained by it: leave out --weights.")
        study = study.with_changes(weights=weights)
    study.check_files()
    if weights is not None and known not in (None, source_hash(weights)):
        raise BadInput(f"The run had other weights than those in {weights}.")
    return study
