"""The IDX format of MNIST and its relatives: a magic number, the lengths of the axes, then bytes; packed or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from uproar.errors import BadInput


def read_idx(folder: Path, name: str, axes: int) -> np.ndarray:
    """The bytes of the file `name`, with or without .gz, as an array with so many axes."""
    file = _existing(folder, name)
    content = _content(file)
    start = 4 + 4 * axes
    if len(content) < start or content[:4] != bytes((0, 0, 8, axes)):
        raise BadInput(
            f"{file} is not an IDX file of bytes with {axes} axes: it begins with {content[:4].hex(' ') or 'nothing'}."
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", axes, 4))
    wanted = start + int(np.prod(shape))
    if len(content) != wanted:
        raise BadInput(
            f"{file} announces {' × '.join(map(str, shape))} bytes, that is a length of {wanted}, "
            f"but has {len(content)}; download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _existing(folder: Path, name: str) -> Path:
    dotted = name.replace("-idx", ".idx")
    for candidate in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise BadInput(f"There is no {name} (or {name}.gz) in {folder}.")


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{file} cannot be unpacked ({error}); download it again.") from None
