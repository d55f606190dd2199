"""Paths as people give them: `~` is their home; what no file system takes is refused in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

from uproar.errors import BadInput

LONGEST_NAME = 255
"""Bytes of a file's or folder's name: what common file systems take."""
LONGEST_PATH = 4095
"""Bytes of a whole path: what Linux takes."""


def user_path(given: str | Path) -> Path:
    """The path a user means.

    >>> user_path("runs/digits").as_posix()
    'runs/digits'
    """
    text = os.fspath(given)
    if "\0" in text:
        raise BadInput(f"A path has no NUL bytes: {text!r}.")
    try:
        path = Path(text).expanduser()
        size = len(os.fsencode(path))
    except RuntimeError:
        raise BadInput(f"No user has the home folder that {text} names.") from None
    except UnicodeEncodeError:
        raise BadInput(f"A path has characters that no file name can have: {text!r}.") from None
    longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    if longest > LONGEST_NAME or size > LONGEST_PATH:
        raise BadInput(
            f"A file's name has at most {LONGEST_NAME} bytes and a path at most {LONGEST_PATH}: {text!r} is too long."
        )
    return path


def check_working_folder() -> None:
    """Refuse to work in a folder that somebody has deleted: nothing could be found or written from there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise BadInput("The folder where the command runs is gone: change into one that exists.") from None
