"""Array files of other tools and for other tools: .npz, .npy and .safetensors, never unpickled."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from uproar.errors import BadInput, StoreError, one_line
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


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; a .npy file holds one, under the file's own name."""
    file = Path(path).expanduser()
    if file.suffix not in KINDS:
        raise BadInput(f"Arrays are read from {', '.join(KINDS)}, not {file.name!r}.")
    try:
        if file.suffix == ".safetensors":
            return safetensors.numpy.load_file(file)
        loaded = np.load(file, allow_pickle=False)
        if file.suffix == ".npy":
            return {file.stem: loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise BadInput(f"There is no file {path}.") from None
    except (OSError, ValueError, EOFError, safetensors.SafetensorError) as error:
        raise BadInput(f"Cannot read arrays from {path}: {one_line(error)}") from None
