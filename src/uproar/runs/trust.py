"""Which run folders may have code run that they name: those that this user made here, and those the user vouches for.

A run folder can name Python files (plug-ins, models) and modules, which reading its study runs. So a record is signed
when it is written, with a key that only this user has and that covers the place of the folder, the study and the store.
A folder that comes from somebody else, or was edited or moved, has no valid signature: nothing that it names is run and
no store but its own is opened, unless the user says so (`--trust`, `trust=True`).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uproar.errors import BadInput

_CODE = re.compile(r"\.py\b|captum:[^\s(),]*\.")
"""A Python file, or a class from a module of any package."""


def signature(folder: Path, study: Any, store: str) -> str:
    """What only this user can write under a record; empty where no key can be kept."""
    key = _key()
    if key is None:
        return ""
    content = json.dumps([str(folder.resolve()), _working_folder(study), study, store], sort_keys=True)
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()


def _working_folder(study: Any) -> str:
    """Where the command runs, if code is looked for from there: another folder may have another file of that name."""
    named = (Path(code.partition(":")[0]) for code in code_in(study))
    return "" if all(file.is_absolute() for file in named) else str(Path.cwd())


def is_ours(folder: Path, study: Any, store: str, signed: str) -> bool:
    """Whether this user wrote a record at this place, and nobody has changed it."""
    ours = signature(folder, study, store)
    return bool(ours) and hmac.compare_digest(ours.encode(), signed.encode())


def check_code(folder: Path, study: Any) -> None:
    """Refuse a record of somebody else that names code."""
    names = sorted(set(code_in(study)))
    if names:
        raise BadInput(
            f"{folder} was not made here by you, or has been moved or edited, and its study runs code: "
            f"{', '.join(names)}. Look at that code; if you trust it, give --trust (in Python, trust=True)."
        )


def code_in(study: Any) -> Iterator[str]:
    """Everything in a study that names code of a user or of another package; rather too much than too little."""
    if isinstance(study, dict):
        plugins = study.get("plugins") or ()
        yield from map(str, plugins if isinstance(plugins, list | tuple) else [plugins])
        for value in study.values():
            yield from code_in(value)
    elif isinstance(study, list | tuple):
        for value in study:
            yield from code_in(value)
    elif isinstance(study, str) and _CODE.search(study):
        yield study


def key_file() -> Path:
    """Where the user's key is kept."""
    given = os.environ.get("XDG_STATE_HOME", "").strip()
    if given:
        return Path(given) / "uproar" / "key"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "uproar" / "key"
    return Path.home() / ".local" / "state" / "uproar" / "key"


def _key() -> bytes | None:
    """The user's key, made when it is first needed; None where there is no home to keep it in."""
    with contextlib.suppress(OSError, RuntimeError):
        file = key_file()
        with contextlib.suppress(FileNotFoundError):
            return _private(file)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(secrets.token_bytes(32))
        return _private(file)
    return None


def _private(file: Path) -> bytes | None:
    """The content of a key that others can neither read nor write; another one is no key."""
    state = file.stat()
    mine = not hasattr(os, "getuid") or state.st_uid == os.getuid()
    content = file.read_bytes()
    return content if mine and not state.st_mode & 0o077 and len(content) >= 32 else None
