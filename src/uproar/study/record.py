"""The folder of a run: `run.json` says what was run and where its results are; it is checked when it is read.

Nothing of it is used before its structure is known to be right, whoever wrote it. Nothing here imports torch before it
is needed: the command line refuses a folder that is not that of a run before it loads anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from uproar.data.locations import add_roots, environment_roots
from uproar.errors import BadInput, StoreError, plainly
from uproar.paths import is_hidden, public, user_path, write_file
from uproar.plugins import source_hash
from uproar.store import torch_version

if TYPE_CHECKING:
    from uproar.study.spec import Study

RECORD = "run.json"
"""The file that the folder of a run has."""
FILE = "study.toml"
"""The study as its author wrote it, where it was a file."""
LARGEST = 20_000_000
"""Bytes of the file: a study of the largest size takes less."""


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("has no NUL bytes")
    return value


Text = Annotated[str, AfterValidator(_text)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


_CODE = re.compile(r"\.py\b|captum:[^\s(),]*\.")
"""A Python file, or a class from a module of any package."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class WallTime(_Part):
    """The time that all sessions took, and how many began and ended."""

    seconds: Seconds = 0.0
    begun: Count = 0
    ended: Count = 0


class Facts(_Part):
    """What is noted of a run besides its study, in the order in which a page shows it."""

    command: Text = ""
    versions: dict[Text, Text] = Field(default_factory=dict)
    python: Text = ""
    machine: Text = ""
    wall: WallTime | None = None
    executor: Text = ""
    seconds: Seconds | None = None


class Record(_Part):
    """The whole file."""

    study: dict[Text, Any]
    store: Text
    facts: Facts
    data: tuple[Text, ...] = ()
    weights: Text | None = None


def no_run(folder: Path) -> BadInput:
    """The error for a folder without the record of a run."""
    directory = user_path(folder)
    if (directory / "report.html").is_file() and not (directory / "scores.json").is_file():
        return BadInput(
            f"{folder} holds the page of a study (results.report), not its run, which has a {RECORD}: open "
            f"{folder}/report.html to read it, or give the folder of the run (in Python, "
            "uproar.open(study, store=...) takes the study and the store that has its results)."
        )
    if (directory / "scores.json").is_file():
        return BadInput(
            f"{folder} holds scores of maps (uproar score), not a run: run a study of the same estimators and "
            "metrics (uproar run --estimators A,B --metrics C,D --metrics roar:no-retrain) and ask about that."
        )
    return BadInput(f"{folder} is not the folder of a run: it has no readable {RECORD}.")


def read_record(folder: Path) -> Record:
    """The record in the folder of a run."""
    file = user_path(folder) / RECORD
    try:
        if file.stat().st_size > LARGEST:
            raise BadInput(f"{file} is no record of a run: it has more than {LARGEST} bytes.")
        return Record.model_validate_json(file.read_bytes())
    except OSError:
        raise no_run(folder) from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        what = f"{where} {plainly(problem['msg'])}".strip()
        raise BadInput(f"{folder} is not the folder of a run: its {RECORD} is damaged ({what}).") from None


def write_run(folder: Path, study: Study, store: str, facts: dict[str, Any], file: str | None = None) -> None:
    """Note in the folder of a run what was run and where its results are; `file` is the text of the study file."""
    content = {
        "study": study.model_dump(mode="json"),
        "store": public(store) if "://" in store else str(user_path(store).resolve()),
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
    version, here = record.facts.versions.get("torch", "").partition("+")[0], torch_version()
    if version not in ("", here):
        raise BadInput(
            f"The results in {folder} are of torch {version}, and this is torch {here}, whose numbers may differ: run "
            f"the study again, or open it with torch {version}."
        )
    files = [] if trust else sorted(set(_code_in(record.study)))
    if files:
        raise BadInput(
            f"The study in {folder} uses Python code ({', '.join(files)}), which reading it would run: look at that "
            "code; if you trust it, give --trust (in Python, trust=True)."
        )
    if store is None:
        store = _store_of(folder, record.store)
    from uproar.study.spec import study_of

    add_roots(record.data)
    study = _with_weights(study_of({"random_rankings": 1, **record.study}), weights, record.weights)
    return study, store, record.facts.model_dump(exclude_unset=True)


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
    return {**facts.model_dump(exclude_unset=True), "wall": wall.model_dump()}


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
