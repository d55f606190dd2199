"""Where commands write: refused before anything is imported, read or computed, and never over another's answer."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path

from uproar.cli.console import note
from uproar.errors import BadInput, StoreError
from uproar.paths import user_path

FACTS = "scores.json"
"""What scores leave about themselves."""


def check_folder(folder: Path) -> None:
    """Refuse a folder for results that cannot be made or written to."""
    place = user_path(folder)
    try:
        place.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadInput(f"Cannot write into {folder}: its symbolic links lead round in a circle.") from None
    there = next((each for each in (place, *place.absolute().parents) if each.exists()), None)
    if there is not None and not there.is_dir():
        raise StoreError(f"Cannot write into {folder}: {there} is a file; choose another folder.")
    if there is not None and not os.access(there, os.W_OK | os.X_OK):
        raise StoreError(f"Cannot write into {folder}: {there} is not yours to write to; choose another folder.")


def check_file(file: Path) -> None:
    """Refuse a file for results that cannot be written."""
    if user_path(file).is_dir():
        raise StoreError(f"Cannot write {file}: it is a folder; give the name of a file.")
    check_folder(file.parent)


def check_run(folder: Path) -> None:
    """Refuse a folder in which no run has left word of itself."""
    from uproar.study.record import RECORD, no_run

    if not (user_path(folder) / RECORD).is_file():
        raise no_run(folder)


def default_folder(first: Path, command: str) -> Path:
    """The first of `runs/score`, `runs/score-2`, … that holds nothing, or what the same command wrote before."""
    for number in itertools.count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        if not (user_path(folder) / FACTS).exists() or _command_of(folder) == _question(command):
            return folder
    raise AssertionError("there are numbers enough")


def tell_other_folder(first: Path, written: Path) -> None:
    """Say that an answer went beside that of another command; once it is there."""
    if written != first and written.name.startswith(f"{first.name}-") and written.parent == first.parent:
        note(f"{first} holds what another command found and is left as it is: this went to {written}.")


def _command_of(folder: Path) -> str:
    """The command that left its scores in a folder; nothing if they do not say."""
    try:
        facts = json.loads((user_path(folder) / FACTS).read_text(encoding="utf-8"))
        return _question(str(facts["provenance"]["command"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _question(command: str) -> str:
    """A command without what changes nothing but how its answer is printed."""
    return " ".join(word for word in command.split() if word != "--json")
