"""Python files of the user: loaded by path, identified by their text."""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType

from uproar.errors import CODE_ERRORS, BadInput, one_line
from uproar.paths import user_path

PREFIX = "uproar_file_"
"""How the names of modules begin that are files of the user."""


def source_hash(path: str | Path) -> str:
    """A hash of a file's text, so that an edited file is another thing."""
    return hashlib.sha256(_existing(path).read_bytes()).hexdigest()[:16]


def load_file(path: str | Path) -> ModuleType:
    """A Python file as a module; loading the same text again gives the same module."""
    file = _existing(path)
    return _load(file, source_hash(file))


_LENT: dict[str, Path] = {}


def lend(path: str, content: bytes) -> None:
    """Use this content for a file of the user: a machine of a cluster may not have it, or have another one."""
    folder = Path(tempfile.mkdtemp(prefix="uproar-"))  # for this user's eyes only
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / Path(path).name
    copy.write_bytes(content)
    _LENT[path] = copy


def file_at(path: str | Path) -> Path:
    """Where a file of the user is on this machine."""
    return _LENT.get(str(path)) or user_path(path)


def line_in_file(error: BaseException) -> str:
    """Where in a user's file an error came about, e.g. `my_method.py, line 7`; empty if it did not in any."""
    frames = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(PREFIX)
    ]
    return frames[-1] if frames else ""


def blamed(error: BaseException) -> str:
    """An error as one line; an exit also says in which user's file it was asked for."""
    where = line_in_file(error) if isinstance(error, SystemExit) else ""
    return f"{where}: {one_line(error)}" if where else one_line(error)


def _existing(path: str | Path) -> Path:
    file = file_at(path).resolve()
    if not file.is_file():
        raise BadInput(f"There is no file {path}.")
    return file


@functools.cache
def _load(file: Path, text_hash: str) -> ModuleType:
    name = f"{PREFIX}{file.stem}_{text_hash}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadInput(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling inside the file look themselves up here
    try:
        spec.loader.exec_module(module)
    except CODE_ERRORS as error:
        del sys.modules[name]
        raise BadInput(f"{file.name} raises when it is loaded: {one_line(error)}") from error
    return module
