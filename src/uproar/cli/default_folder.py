"""Where a command writes that was not told where: nothing of another question is overwritten."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from uproar.cli.console import note
from uproar.paths import user_path

FACTS = "scores.json"
"""What scores leave about themselves."""


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
