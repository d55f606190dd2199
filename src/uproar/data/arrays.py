"""Array files of other tools and for other tools: .npz, .npy and .safetensors, never unpickled."""

from __future__ import annotations

import io
import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from torch import Tensor

from uproar.errors import BadInput, StoreError, one_line
from uproar.paths import user_path, write_file

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


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; a .npy file holds one, under the file's own name."""
    file = user_path(path)
    if file.suffix not in KINDS:
        raise BadInput(f"Arrays are read from {', '.join(KINDS)}, not {file.name!r}.")
    with _readable(path):
        if file.suffix == ".safetensors":
            with safetensors.safe_open(file, framework="pt") as opened:
                return {name: _numpy(opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118
        if file.suffix == ".npy":
            with file.open("rb") as content:
                return {file.stem: _read_npy(content, file.stat().st_size)}
        return _read_npz(file)


class _BadHeader(ValueError):
    """What a file says of itself cannot be."""


def _read_npz(file: Path) -> dict[str, np.ndarray]:
    """The arrays of a zip file; what else it holds is left alone."""
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as content:
                    arrays[entry.filename.removesuffix(".npy")] = _read_npy(content, entry.file_size)
    return arrays


def _read_npy(content: Any, size: int) -> np.ndarray:
    """The array of an open file, read only if its `size` bytes are as many as its header says."""
    version = np.lib.format.read_magic(content)
    header = _HEADERS.get(version)
    if header is None:
        raise _BadHeader(f"version {version} of the npy format is not read.")
    shape, _, dtype = header(content)
    needed = math.prod(shape) * dtype.itemsize
    if needed > size:
        raise _BadHeader(f"its header tells of {math.prod(shape)} values of {dtype}, but there are {size} bytes.")
    content.seek(0)
    return np.lib.format.read_array(content, allow_pickle=False)


_HEADERS: dict[tuple[int, int], Callable[[Any], tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _widened(values: Tensor) -> Tensor:
    """Values in a number format that NumPy lacks (bfloat16, the kinds of float8) as float32, which holds them all."""
    known = (torch.float16, torch.float32, torch.float64)
    return values.float() if values.is_floating_point() and values.dtype not in known else values


def _numpy(values: Tensor) -> np.ndarray:
    return _widened(values).numpy()


class Rows:
    """The arrays of a file, some rows at a time: a .safetensors file is never held in memory, an .npz file is."""

    def __init__(self, path: str | Path) -> None:
        self.path = user_path(path)
        if self.path.suffix not in (".npz", ".safetensors"):
            raise BadInput(f"Named arrays are read from .npz or .safetensors, not {path}.")
        self._held: dict[str, np.ndarray] = {}
        with _readable(path):
            if self.path.suffix == ".npz":
                self._held = _read_npz(self.path)
                for name, a in self._held.items():
                    if a.dtype.kind not in "fiub":
                        raise BadInput(f"The array {name!r} of {path} has {a.dtype}, not numbers.")
                self.shapes = {name: a.shape for name, a in self._held.items()}
            else:
                self._file = safetensors.safe_open(self.path, framework="pt")
                self._slices = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118
                self.shapes = {name: tuple(s.get_shape()) for name, s in self._slices.items()}
                for name, s in self._slices.items():
                    if s.get_dtype().startswith("C"):
                        raise BadInput(f"The array {name!r} of {path} has complex numbers.")

    def read(self, name: str, rows: Sequence[int]) -> Tensor:
        """Some rows of an array."""
        if name in self._held:
            part = self._held[name][list(rows)]
            return torch.from_numpy(part.astype(_held_as(part.dtype)))
        parts = [_widened(self._slices[name][first:last]) for first, last in _runs(rows)]
        return torch.cat(parts)


def _held_as(dtype: np.dtype) -> type:
    """The type torch has for numbers of another, with the same values."""
    if dtype.kind == "f":
        return np.float32 if dtype.itemsize <= 4 else np.float64
    return np.int16 if dtype.itemsize == 1 else np.int64


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
    """A file that is not there, or not what its ending says, is refused in one sentence; a pipe is not waited for."""
    if user_path(path).exists() and not user_path(path).is_file():
        raise BadInput(f"{path} is a folder, a pipe or a device, not a file.")
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"There is no file {path}.") from None
    except BadInput:
        raise
    except _BadHeader as error:
        raise BadInput(f"Cannot read arrays from {path}: {error}") from None
    except MemoryError:
        raise BadInput(f"The arrays of {path} do not fit into memory.") from None
    except _UNREADABLE as error:
        raise BadInput(f"Cannot read arrays from {path}: {one_line(error)}") from None


_UNREADABLE = (
    *(OSError, ValueError, EOFError, OverflowError, AttributeError, KeyError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, safetensors.SafetensorError),
    TypeError,  # number formats a library lacks
    *(RuntimeError, NotImplementedError),  # encrypted, or packed in a way zipfile lacks
    *(SyntaxError, tokenize.TokenError),  # a header that is no Python literal
)
