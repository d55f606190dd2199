"""Array files of other tools and for other tools: .npz, .npy and .safetensors, never unpickled."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import safetensors
import safetensors.numpy
import torch
from torch import Tensor

from uproar.errors import BadInput, BadShape, StoreError, one_line
from uproar.paths import user_path
from uproar.place import write_file

KINDS = (".npz", ".npy", ".safetensors")


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> Path:
    """Named arrays as one file, of the kind its ending says; whole or absent."""
    file = Path(path)
    if file.suffix not in (".npz", ".safetensors"):
        raise BadInput(f"Several arrays go into .npz or .safetensors, not {file.name!r}.")
    if file.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **dict(arrays))  # type: ignore[arg-type]
        content = buffer.getvalue()
    else:
        content = safetensors.numpy.save({k: np.ascontiguousarray(a) for k, a in arrays.items()})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, content)
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    return file


def stream_arrays(
    path: str | Path,
    shapes: Mapping[str, tuple[Literal["F32", "I64"], tuple[int, ...]]],
    parts: Iterable[np.ndarray],
) -> Path:
    """A .safetensors file of arrays of these types and shapes, row after row from `parts`; whole or absent.

    The parts are the rows of the first array, then those of the second, and so on: none is held once it is written.
    """
    file = Path(path)
    head, end = {}, 0
    for name, (kind, shape) in shapes.items():
        start, end = end, end + (4 if kind == "F32" else 8) * math.prod(shape)
        head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    try:
        with os.fdopen(handle, "wb") as target:
            target.write(len(text).to_bytes(8, "little") + text)
            for part in parts:
                target.write(np.ascontiguousarray(part).data)
            if target.tell() != 8 + len(text) + end:
                raise BadShape(f"The parts of {file.name} do not fill its arrays.")
            target.flush()
            os.fsync(target.fileno())
        os.chmod(beside, 0o644)
        os.replace(beside, file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError):
            raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
        raise
    return file


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; a .npy file holds one, under the file's own name."""
    file = user_path(path)
    if file.suffix not in KINDS:
        raise BadInput(f"Arrays are read from {', '.join(KINDS)}, not {file.name!r}.")
    with _readable(path):
        if file.suffix == ".safetensors":
            return safetensors.numpy.load_file(file)
        loaded = np.load(file, allow_pickle=False)
        if file.suffix == ".npy":
            return {file.stem: loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}


class Rows:
    """The arrays of a file, some rows at a time: a .safetensors file is never held in memory, an .npz file is."""

    def __init__(self, path: str | Path) -> None:
        self.path = user_path(path)
        if self.path.suffix not in (".npz", ".safetensors"):
            raise BadInput(f"Named arrays are read from .npz or .safetensors, not {path}.")
        self._held: dict[str, np.ndarray] = {}
        with _readable(path):
            if self.path.suffix == ".npz":
                with np.load(self.path, allow_pickle=False) as loaded:
                    self._held = {name: loaded[name] for name in loaded.files}
                for name, a in self._held.items():
                    if a.dtype.kind not in "fiub":
                        raise BadInput(f"The array {name!r} of {path} has {a.dtype}, not numbers.")
                self.shapes = {name: a.shape for name, a in self._held.items()}
            else:
                self._file = safetensors.safe_open(self.path, framework="pt")
                self._slices = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118
                self.shapes = {name: tuple(s.get_shape()) for name, s in self._slices.items()}

    def read(self, name: str, rows: Sequence[int]) -> Tensor:
        """Some rows of an array."""
        if name in self._held:
            part = self._held[name][list(rows)]
            kind = np.float64 if part.dtype.kind == "f" else np.int64
            return torch.from_numpy(part.astype(kind))
        parts = [self._slices[name][first:last] for first, last in _runs(rows)]
        return torch.cat(parts)


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Row numbers as stretches [first, last) of consecutive ones, in their order."""
    first = last = None
    for row in rows:
        if row != last:
            if first is not None and last is not None:
                yield first, last
            first = row
        last = row + 1
    if first is not None and last is not None:
        yield first, last


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """A file that is not there, or not what its ending says, is refused in one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"There is no file {path}.") from None
    except (
        OSError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        safetensors.SafetensorError,
    ) as error:
        raise BadInput(f"Cannot read arrays from {path}: {one_line(error)}") from None
