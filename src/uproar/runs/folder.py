"""The folder of a run: its record is written and read, and says what was run and where its results are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.data.locations import add_roots, environment_roots
from uproar.errors import BadInput, StoreError
from uproar.paths import is_hidden, public, user_path, write_file
from uproar.plugins import source_hash
from uproar.runs.other_folders import RECORD
from uproar.runs.record import WallTime, read_record
from uproar.store import torch_version
from uproar.study.spec import Study, shipped_studies, study_of, summary

if TYPE_CHECKING:
    from uproar.report.markdown import StudyText


FILE = "study.toml"
"""The study as its author wrote it, where it was a file."""
_CODE = re.compile(r"\.py\b|captum:[^\s(),]*\.")
"""A Python file, or a class from a module of any package."""


def write_run(folder: Path, study: Study, place: str, facts: dict[str, Any], file: str | None = None) -> None:
    """Note in the folder of a run what was run and where its results are; `file` is the text of the study file."""
    content = {
        "study": study.model_dump(mode="json"),
        "store": public(place) if "://" in place else str(user_path(place).resolve()),
        "facts": facts,
        "data": environment_roots(),
        "weights": None if study.weights is None else source_hash(study.weights),
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

    Reading a run runs no Python file that its record names, since the folder may be somebody else's, unless the user
    says so with `trust`.
    """
    record = read_record(folder)
    made, here = record.facts.versions.get("torch", "").partition("+")[0], torch_version()
    if made not in ("", here):
        raise BadInput(
            f"The results in {folder} are of torch {made}, and this is torch {here}, whose numbers may differ: run the "
            f"study again, or open it with torch {made}."
        )
    files = [] if trust else sorted(set(_code_in(record.study)))
    if files:
        raise BadInput(
            f"The study in {folder} uses Python code ({', '.join(files)}), which reading it would run: look at that "
            "code; if you trust it, give --trust (in Python, trust=True)."
        )
    place = store if store is not None else _store_of(folder, record.store)
    add_roots(record.data)
    study = _with_weights(study_of({"random_rankings": 1, **record.study}), weights, record.weights)
    return study, place, record.facts.given()


def _code_in(study: Any) -> Iterator[str]:
    """Everything in a study that names a Python file, or a class from a module of any package."""
    if isinstance(study, dict):
        plugins = study.get("plugins") or ()
        yield from map(str, plugins if isinstance(plugins, list | tuple) else [plugins])
        study = list(study.values())
    if isinstance(study, list | tuple):
        for value in study:
            yield from _code_in(value)
    elif isinstance(study, str) and _CODE.search(study):
        yield study


def _store_of(folder: Path, noted: str) -> str:
    """Where the results of a run are: beside its record, or where it kept them."""
    beside = folder / "store"
    if beside.is_dir():
        return str(beside)
    if "://" not in noted and not user_path(noted).is_dir():
        raise BadInput(
            f"The results of {folder} were in {noted}, which is not there: put that folder back, or move it to "
            f"{beside}."
        )
    if is_hidden(noted):
        raise BadInput(
            f"The results of {folder} are at {noted}, whose password was not written down: give the whole URL as "
            "--store (in Python, store=)."
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
    from uproar.report.markdown import StudyText

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
