"""What a written report was made from: with the same results, its files are left as they are.

`report.json` beside the page has a digest of the results and one of every file. Drawing takes longer than all else
that a command does when nothing is left to compute.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Set
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uproar.paths import user_path
from uproar.protocols import Protocol
from uproar.report.files import write_files

RECORD = "report.json"
DRAWN_BY = ("uproar", "jinja2", "matplotlib", "numpy", "pandas", "pillow")
"""Packages whose versions decide what a report looks like."""
WRITTEN = "written"
"""When results were collected: no reason to draw them again."""


def write_once(results: Any, make: Callable[[], Mapping[str, bytes]], folder: str | Path) -> Path:
    """Write the files that `make` draws from `results`, unless the folder has them already; the folder."""
    place = user_path(folder)
    inputs = digest_of(results)
    if _is_written(place, inputs):
        return place
    files = make()
    record = {"inputs": inputs, "files": {name: _sha(content) for name, content in files.items()}}
    return write_files({**files, RECORD: json.dumps(record, indent=1).encode()}, folder)


def _is_written(place: Path, inputs: str) -> bool:
    """Whether every file of a report of these inputs is there as it was written."""
    try:
        record = json.loads((place / RECORD).read_text(encoding="utf-8"))
        if not inputs or record["inputs"] != inputs:
            return False
        return all(_sha((place / name).read_bytes()) == sha for name, sha in record["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def digest_of(results: Any) -> str:
    """A digest of everything a report is made from: the results, this package and those that draw.

    Empty where something in the results has no digest, e.g. an object that an audit of the user's own put there.
    """
    total = hashlib.sha256(_program().encode())
    try:
        _add(total, results)
    except TypeError:
        return ""
    return total.hexdigest()


@functools.cache
def _program() -> str:
    """A digest of the sources of the package, templates included, with the versions of what draws."""
    package = Path(__file__).parents[1]
    total = hashlib.sha256(repr([metadata.version(name) for name in DRAWN_BY]).encode())
    for pattern in ("**/*.py", "report/templates/*"):
        for file in sorted(package.glob(pattern)):
            total.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def _add(total: Any, value: Any) -> None:
    """Add a value to a digest so that equal digests mean equal reports; TypeError for what has none."""
    kind = "list" if isinstance(value, tuple) else type(value).__name__  # facts may come from JSON
    total.update(f"{kind}:".encode())
    if isinstance(value, pd.DataFrame):
        columns = [(str(name), part.to_numpy()) for name, part in value.items()]
        _add(total, [value.index.to_numpy(), *columns])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        total.update(f"{value.dtype}{value.shape}".encode())
        total.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Protocol):  # the functions of users have a hash of their code
        _add(total, (value.name, value.code))
    elif dataclasses.is_dataclass(value):
        for part in dataclasses.fields(value):
            _add(total, (part.name, getattr(value, part.name)))
    elif isinstance(value, Mapping):
        _add(total, [(name, part) for name, part in value.items() if name != WRITTEN])
    elif isinstance(value, Set):
        _add(total, sorted(value))
    elif isinstance(value, np.ndarray | list | tuple):
        total.update(f"{len(value)}:".encode())
        for part in value:
            _add(total, part)
    elif value is None or isinstance(value, str | bytes | int | float | np.generic | Path):
        total.update(f"{value!r};".encode())
    else:
        raise TypeError(f"There is no digest of {type(value).__name__}.")


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
