"""Python files of the user: loaded by path, identified by their text."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from uproar.errors import BadInput, one_line


def source_hash(path: str | Path) -> str:
    """A hash of a file's text, so that an edited file is another thing."""
    return hashlib.sha256(_existing(path).read_bytes()).hexdigest()[:16]


def load_file(path: str | Path) -> ModuleType:
    """A Python file as a module; loading the same text again gives the same module."""
    file = _existing(path)
    return _load(file, source_hash(file))


def _existing(path: str | Path) -> Path:
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise BadInput(f"There is no file {path}.")
    return file


@functools.cache
def _load(file: Path, text_hash: str) -> ModuleType:
    name = f"uproar_file_{file.stem}_{text_hash}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadInput(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling inside the file look themselves up here
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadInput(f"{file.name} raises when it is loaded: {one_line(error)}") from error
    return module
