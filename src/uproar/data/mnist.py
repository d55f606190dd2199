"""MNIST and Fashion-MNIST: grey 28×28, in IDX files (a magic number, lengths of the axes, bytes), gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import torch

from uproar.data.locations import locate
from uproar.data.options import Count, Root, subsample
from uproar.data.registry import tasks
from uproar.data.task import Split, Task
from uproar.errors import BadInput

FASHION = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


@tasks.declare(images="60,000 + 10,000 grey 28×28", truth="none")
def mnist(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """Handwritten digits (LeCun et al. 1998), 28×28 grey, from the IDX files, packed or not."""
    return subsample(_read("mnist", root, tuple("0123456789")), train, test)


@tasks.declare("fashion-mnist", images="60,000 + 10,000 grey 28×28", truth="none")
def fashion_mnist(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """Pieces of clothing (Xiao et al. 2017), 28×28 grey, from the IDX files, packed or not."""
    return subsample(_read("fashion-mnist", root, FASHION), train, test)


def _read(name: str, root: str | None, classes: tuple[str, ...]) -> Task:
    folder = locate(name, root)
    return Task(name, _split(folder, "train", "train"), _split(folder, "test", "t10k"), classes)


def _split(folder: Path, name: str, stem: str) -> Split:
    images = read_idx(folder, f"{stem}-images-idx3-ubyte", 3)
    labels = read_idx(folder, f"{stem}-labels-idx1-ubyte", 1)
    if len(images) != len(labels):
        raise BadInput(f"{folder} has {len(images)} {name} images but {len(labels)} labels.")
    pixels = torch.from_numpy(images[:, None].copy())
    return Split(name, pixels, torch.from_numpy(labels.astype(np.int64)))


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
