"""Mistakes on the command line that can be seen before anything is imported, read or computed."""

from __future__ import annotations

import os
from pathlib import Path

from uproar.cli.options import OUTPUTS
from uproar.errors import BadInput, BadOption, StoreError
from uproar.paths import user_path
from uproar.runs.other_folders import RECORD, no_run


def check_folder(folder: Path) -> None:
    """Refuse a folder for results that cannot be made or written to."""
    place = user_path(folder)
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


def check_classes(classes: int | None, images: str | None) -> None:
    """Refuse a number of classes that cannot be, or that a task has already."""
    if classes is not None and classes < 1:
        raise BadInput(f"--classes must be at least 1, not {classes}.")
    if classes is not None and images is None:
        raise BadInput("--classes goes with images of your own: a task says itself how many classes it has.")


def check_run(folder: Path) -> None:
    """Refuse a folder in which no run has left word of itself."""
    if not (user_path(folder) / RECORD).is_file():
        raise no_run(folder)


def check_target_option(target: str | None) -> None:
    """Refuse what is neither `predicted`, `label` nor a number."""
    if target not in (None, "predicted", "label") and not target.isdigit():
        raise BadOption(f"--target is predicted, label or the number of a class, not {target!r}.")


def check_output_option(output: str) -> None:
    """Refuse what is no kind of model output."""
    if output not in OUTPUTS:
        raise BadInput(f"--output is {', '.join(OUTPUTS)}, not {output!r}.")
