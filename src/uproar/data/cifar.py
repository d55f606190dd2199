"""CIFAR-10 and CIFAR-100 in their binary and pickle layouts: bytes in channels, rows, columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from uproar.data.locations import locate
from uproar.data.options import Count, Root, subsample
from uproar.data.registry import tasks
from uproar.data.task import Split, Task
from uproar.data.unpickle import read_pickle
from uproar.errors import BadInput

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PIXELS = 3 * 32 * 32

Bytes = tuple[np.ndarray, np.ndarray]
"""Images (n, 3072) and labels (n,)."""


@tasks.declare(images="50,000 + 10,000 colour 32×32", truth="none")
def cifar10(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """CIFAR-10 (Krizhevsky 2009), 32×32 colour, from the binary or the pickle layout; nothing is unpickled."""
    folder = locate("cifar10", root)
    batches = [f"data_batch_{i}" for i in range(1, 6)]
    if (folder / "test_batch.bin").is_file():
        parts = [_binary(folder / f"{name}.bin", 1, 0) for name in (*batches, "test_batch")]
    else:
        parts = [_pickle(folder / name, "labels") for name in (*batches, "test_batch")]
    task = Task("cifar10", _split("train", parts[:-1]), _split("test", parts[-1:]), CIFAR10)
    return subsample(task, train, test)


@tasks.declare(images="50,000 + 10,000 colour 32×32", truth="none")
def cifar100(
    *, labels: Literal["fine", "coarse"] = "fine", train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """CIFAR-100 (Krizhevsky 2009), 32×32 colour, 100 fine or 20 coarse classes, from either layout."""
    folder = locate("cifar100", root)
    if (folder / "test.bin").is_file():
        column = 1 if labels == "fine" else 0
        parts = [_binary(folder / f"{name}.bin", 2, column) for name in ("train", "test")]
        names = _lines(folder / f"{labels}_label_names.txt")
    else:
        parts = [_pickle(folder / name, f"{labels}_labels") for name in ("train", "test")]
        names = _pickled_names(folder / "meta", f"{labels}_label_names")
    name = "cifar100" if labels == "fine" else "cifar100-coarse"
    task = Task(name, _split("train", parts[:1]), _split("test", parts[1:]), names)
    return subsample(task, train, test)


def _split(name: str, parts: list[Bytes]) -> Split:
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)
    return Split(name, torch.from_numpy(images), torch.from_numpy(labels))


def _binary(file: Path, labels: int, column: int) -> Bytes:
    """A batch of records: so many label bytes, then the pixels."""
    if not file.is_file():
        raise BadInput(f"There is no {file.name} in {file.parent}.")
    length = labels + _PIXELS
    content = np.fromfile(file, np.uint8)
    if not len(content) or len(content) % length:
        raise BadInput(
            f"{file} has {len(content)} bytes, which is no multiple of {length} (labels and pixels of an image); "
            "download it again."
        )
    records = content.reshape(-1, length)
    return records[:, labels:], records[:, column]


def _pickle(file: Path, labels: str) -> Bytes:
    held = _named(file)
    if "data" not in held or labels not in held:
        raise BadInput(f"{file} holds {', '.join(held) or 'nothing'}; a batch has 'data' and {labels!r}.")
    try:
        images, numbers = np.asarray(held["data"]), np.asarray(held[labels])
    except ValueError:
        raise BadInput(f"{file}: data and {labels} must be tables of numbers.") from None
    if images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != _PIXELS:
        raise BadInput(
            f"{file}: data must be bytes of shape (n, {_PIXELS}), not {images.dtype} of shape {images.shape}."
        )
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise BadInput(f"{file}: {labels} must be one whole number per image.")
    if numbers.shape != (len(images),):
        raise BadInput(f"{file} has {len(images)} images but {len(numbers)} labels.")
    return images, numbers


def _pickled_names(file: Path, key: str) -> tuple[str, ...]:
    held = _named(file)
    if key not in held:
        raise BadInput(f"{file} has no {key!r}.")
    if not isinstance(held[key], list | tuple):
        raise BadInput(f"{file}: {key!r} must be a list of names.")
    return tuple(_text(name) for name in held[key])


def _named(file: Path) -> dict[str, Any]:
    held = read_pickle(file)
    if not isinstance(held, dict):
        raise BadInput(f"{file} holds a {type(held).__name__}, not a dict.")
    return {_text(key): value for key, value in held.items()}


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _lines(file: Path) -> tuple[str, ...]:
    if not file.is_file():
        raise BadInput(f"There is no {file.name} in {file.parent}.")
    return tuple(line.strip() for line in file.read_text().splitlines() if line.strip())
