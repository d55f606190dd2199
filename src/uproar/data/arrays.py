"""Array files of other tools and for other tools: .npz, .npy and .safetensors, never unpickled."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

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
    with _readable(file):
        if file.suffix == ".safetensors":
            with safetensors.safe_open(file, framework="pt") as opened:
                return {name: _widened(opened.get_tensor(name)).numpy() for name in opened.keys()}  # noqa: SIM118
        if file.suffix == ".npy":
            with file.open("rb") as content:
                return {file.stem: np.lib.format.read_array(content, allow_pickle=False)}
        return _read_npz(file)


def _read_npz(file: Path) -> dict[str, np.ndarray]:
    """The arrays of a zip file; what else it holds is left alone."""
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as content:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(content, allow_pickle=False)
    return arrays


def _widened(values: Tensor) -> Tensor:
    """Values in a number format that NumPy lacks (bfloat16, the kinds of float8) as float32, which holds them all."""
    known = (torch.float16, torch.float32, torch.float64)
    return values.float() if values.is_floating_point() and values.dtype not in known else values


class Rows:
    """The arrays of a file, some rows at a time: a .safetensors file is never held in memory, an .npz file is."""

    def __init__(self, path: str | Path) -> None:
        self.path = user_path(path)
        if self.path.suffix not in (".npz", ".safetensors"):
            raise BadInput(f"Named arrays are read from .npz or .safetensors, not {path}.")
        self._held: dict[str, np.ndarray] = {}
        with _readable(self.path):
            if self.path.suffix == ".npz":
                self._held = _read_npz(self.path)
                kinds = {name: str(a.dtype) for name, a in self._held.items() if a.dtype.kind not in "fiub"}
                self.shapes = {name: a.shape for name, a in self._held.items()}
            else:
                file = safetensors.safe_open(self.path, framework="pt")
                self._slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                kinds = {name: kind for name, s in self._slices.items() if (kind := s.get_dtype()).startswith("C")}
                self.shapes = {name: tuple(s.get_shape()) for name, s in self._slices.items()}
        for name, kind in kinds.items():
            raise BadInput(f"The array {name!r} of {path} has {kind}, not numbers that can be ordered.")

    def read(self, name: str, rows: Sequence[int]) -> Tensor:
        """Some rows of an array."""
        if name in self._held:
            values = self._held[name][list(rows)]
            wide = values.dtype.itemsize
            if values.dtype.kind == "f":
                return torch.from_numpy(values.astype(np.float32 if wide <= 4 else np.float64))
            return torch.from_numpy(values.astype(np.int16 if wide == 1 else np.int64))
        parts = []
        for _, run in itertools.groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0]):
            stretch = [row for _, row in run]  # consecutive rows are read at once
            parts.append(_widened(self._slices[name][stretch[0] : stretch[-1] + 1]))
        return torch.cat(parts)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """A file that is not there, or not what its ending says, is refused in one sentence; a pipe is not waited for."""
    if file.exists() and not file.is_file():
        raise BadInput(f"{file} is a folder, a pipe or a device, not a file.")
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"There is no file {file}.") from None
    except MemoryError:
        raise BadInput(f"Cannot read arrays from {file}: they do not fit into memory.") from None
    except Exception as error:  # a damaged file can fail in any way
        raise BadInput(f"Cannot read arrays from {file}: {one_line(error)}") from None
