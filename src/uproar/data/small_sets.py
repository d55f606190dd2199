"""Public sets of small images, held in memory: MNIST and Fashion-MNIST, CIFAR-10 and CIFAR-100, SVHN.

MNIST comes in IDX files (a magic number, the lengths of the axes, bytes), CIFAR as records of bytes or as pickles, and
SVHN in MATLAB files with X (32, 32, 3, n) and y (n, 1), where 10 is the digit 0.
"""

from __future__ import annotations

import gzip
import importlib
import math
import pickle
import zlib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from uproar.data.locations import locate
from uproar.data.registry import Count, Root, subsample, tasks
from uproar.data.task import Split, Task
from uproar.errors import CODE_ERRORS, BadInput, one_line
from uproar.seeds import generator

FASHION = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PIXELS = 3 * 32 * 32
_ARRAY_PARTS = {
    *(("numpy._core.multiarray", name) for name in ("_reconstruct", "scalar")),
    *(("numpy._core.numeric", "_frombuffer"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")),
}
"""All that a pickled array names."""

Bytes = tuple[np.ndarray, np.ndarray]
"""Images (n, 3072) and labels (n,)."""


@tasks.declare(images="60,000 + 10,000 grey 28×28", truth="none")
def mnist(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """Handwritten digits (LeCun et al. 1998), 28×28 grey, from the IDX files, packed or not."""
    return subsample(_idx_task("mnist", root, tuple("0123456789")), train, test)


@tasks.declare("fashion-mnist", images="60,000 + 10,000 grey 28×28", truth="none")
def fashion_mnist(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """Pieces of clothing (Xiao et al. 2017), 28×28 grey, from the IDX files, packed or not."""
    return subsample(_idx_task("fashion-mnist", root, FASHION), train, test)


def _idx_task(name: str, root: str | None, classes: tuple[str, ...]) -> Task:
    folder, splits = locate(name, root), []
    for split, stem in (("train", "train"), ("test", "t10k")):
        images = read_idx(folder, f"{stem}-images-idx3-ubyte", 3)
        labels = read_idx(folder, f"{stem}-labels-idx1-ubyte", 1)
        splits.append(Split(split, torch.from_numpy(images[:, None].copy()), torch.from_numpy(labels.astype(np.int64))))
    return Task(name, splits[0], splits[1], classes)


def read_idx(folder: Path, name: str, axes: int) -> np.ndarray:
    """The bytes of the file `name`, with or without .gz, as an array with so many axes."""
    dotted = name.replace("-idx", ".idx")
    paths = (folder / candidate for candidate in (name, f"{name}.gz", dotted, f"{dotted}.gz"))
    file = next((path for path in paths if path.is_file()), None)
    if file is None:
        raise BadInput(f"There is no {name} (or {name}.gz) in {folder}.")
    try:
        content = file.read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{file} cannot be unpacked ({error}); download it again.") from None
    start = 4 + 4 * axes
    if len(content) < start or content[:4] != bytes((0, 0, 8, axes)):
        raise BadInput(
            f"{file} is not an IDX file of bytes with {axes} axes: it begins with {content[:4].hex(' ') or 'nothing'}."
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", axes, 4))
    if len(content) != start + math.prod(shape):
        raise BadInput(f"{file} announces {' × '.join(map(str, shape))} bytes, but has others; download it again.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


@tasks.declare(images="50,000 + 10,000 colour 32×32", truth="none")
def cifar10(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """CIFAR-10 (Krizhevsky 2009), 32×32 colour, from the binary or the pickle layout."""
    folder = locate("cifar10", root)
    batches = [f"data_batch_{i}" for i in range(1, 6)]
    if (folder / "test_batch.bin").is_file():
        parts = [_binary_batch(folder / f"{name}.bin", 1, 0) for name in (*batches, "test_batch")]
    else:
        parts = [_pickled_batch(folder / name, "labels") for name in (*batches, "test_batch")]
    task = Task("cifar10", _cifar_split("train", parts[:-1]), _cifar_split("test", parts[-1:]), CIFAR10)
    return subsample(task, train, test)


@tasks.declare(images="50,000 + 10,000 colour 32×32", truth="none")
def cifar100(
    *, labels: Literal["fine", "coarse"] = "fine", train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """CIFAR-100 (Krizhevsky 2009), 32×32 colour, 100 fine or 20 coarse classes, from either layout."""
    folder = locate("cifar100", root)
    key = f"{labels}_label_names"
    if (folder / "test.bin").is_file():
        parts = [_binary_batch(folder / f"{name}.bin", 2, int(labels == "fine")) for name in ("train", "test")]
        lines = present(folder / f"{key}.txt").read_text().splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
    else:
        parts = [_pickled_batch(folder / name, f"{labels}_labels") for name in ("train", "test")]
        listed = pickled_table(folder / "meta").get(key)
        if not isinstance(listed, list | tuple):
            raise BadInput(f"{folder / 'meta'} has no list of names {key!r}.")
        names = tuple(map(_text, listed))
    name = "cifar100" if labels == "fine" else "cifar100-coarse"
    task = Task(name, _cifar_split("train", parts[:1]), _cifar_split("test", parts[1:]), names)
    return subsample(task, train, test)


def _cifar_split(name: str, parts: list[Bytes]) -> Split:
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)
    return Split(name, torch.from_numpy(images), torch.from_numpy(labels))


def present(file: Path) -> Path:
    """The file, if it is there."""
    if not file.is_file():
        raise BadInput(f"There is no {file.name} in {file.parent}.")
    return file


def _binary_batch(file: Path, labels: int, column: int) -> Bytes:
    """A batch of records: so many label bytes, then the pixels."""
    length = labels + _PIXELS
    content = np.fromfile(present(file), np.uint8)
    if not len(content) or len(content) % length:
        raise BadInput(
            f"{file} has {len(content)} bytes, which is no multiple of {length} (labels and pixels of an image); "
            "download it again."
        )
    records = content.reshape(-1, length)
    return records[:, labels:], records[:, column]


def _pickled_batch(file: Path, labels: str) -> Bytes:
    held = pickled_table(file)
    try:
        images, numbers = np.asarray(held["data"]), np.asarray(held[labels])
        sound = images.dtype == np.uint8 and images.shape == (*numbers.shape, _PIXELS) and numbers.dtype.kind in "iu"
    except (KeyError, ValueError):
        sound = False
    if not sound:
        raise BadInput(
            f"{file} is no batch of images: 'data' must be bytes of shape (n, {_PIXELS}), {labels!r} one whole number "
            "for each."
        )
    return images, numbers


class _ArrayUnpickler(pickle.Unpickler):
    """Reads plain values and NumPy arrays: the CIFAR files name nothing else, and nothing else is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        owner = module.replace("numpy.core", "numpy._core")
        if (owner, name) not in _ARRAY_PARTS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not run")
        return getattr(importlib.import_module(owner), name)


def pickled_table(file: Path) -> dict[str, Any]:
    """The dict in a pickle file of plain values and arrays, its keys as text."""
    try:
        with present(file).open("rb") as opened:
            held = _ArrayUnpickler(opened, encoding="bytes").load()
    except CODE_ERRORS as error:  # a damaged pickle raises nearly anything
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{file} is not a pickle of plain data: {one_line(error)}.") from None
    if not isinstance(held, dict):
        raise BadInput(f"{file} holds a {type(held).__name__}, not a dict.")
    return {_text(key): value for key, value in held.items()}


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


@tasks.declare(images="73,257 + 26,032 colour 32×32", truth="none")
def svhn(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """House numbers (Netzer et al. 2011), cropped digits, 32×32 colour, from the .mat files."""
    folder = locate("svhn", root)
    first = _svhn_split("train", folder / "train_32x32.mat")
    second = _svhn_split("test", folder / "test_32x32.mat")
    return subsample(Task("svhn", first, second, tuple("0123456789")), train, test)


def _svhn_split(name: str, file: Path) -> Split:
    from scipy.io import loadmat  # loads slowly, and few need it

    try:
        held = loadmat(present(file), variable_names=["X", "y"])
    except BadInput:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise BadInput(f"{file} cannot be read as a MATLAB file ({one_line(error)}).") from None
    images, labels = held.get("X", np.zeros(0)), held.get("y", np.zeros(0)).reshape(-1)
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, len(labels)):
        raise BadInput(f"{file} is no file of cropped digits: X must be bytes of shape (32, 32, 3, n), y their labels.")
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise BadInput(
            f"{file}: labels run from {labels.min()} to {labels.max()}, but the official files have 1 to 10, "
            "where 10 is the digit 0."
        )
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(3, 2, 0, 1)))
    return Split(name, pixels, torch.from_numpy(labels.astype(np.int64) % 10))


# images that ship with the package
# The digits are the test part of the UCI "Optical Recognition of Handwritten Digits" set (Alpaydin and Kaynak 1998,
# CC BY 4.0), the same images and order as scikit-learn's `load_digits`; the clothes are of Fashion-MNIST (Zalando SE,
# MIT, the licence is in the file): the first 200 training and 50 test images of each class.


def _shipped(file: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The images (n, h, w), bytes, and labels of a file of the package."""
    with resources.files("uproar.data").joinpath(file).open("rb") as content:
        stored = np.load(content, allow_pickle=False)
        return torch.from_numpy(stored["images"]), torch.from_numpy(stored["labels"]).long()


@tasks.declare("fashion-small", images="2,000 + 500 grey 28×28", truth="none")
def fashion_small() -> Task:
    """A part of Fashion-MNIST that ships with the package: 28×28 grey, as many images of each of the ten classes."""
    x, y = _shipped("fashion.npz")
    train, test = slice(None, 2000), slice(2000, None)
    return Task(
        "fashion-small", Split("train", x[train, None], y[train]), Split("test", x[test, None], y[test]), FASHION
    )


@tasks.declare(images="1,438 + 359 grey 8×8", truth="none")
def digits(*, test: Annotated[float, Field(gt=0, lt=1)] = 0.2) -> Task:
    """Handwritten digits 0-9, 8×8 grey, a fixed split with the same share of each class in both parts."""
    images, y = _shipped("digits.npz")
    x = images.float()[:, None] / 16
    in_test = torch.zeros(len(y), dtype=torch.bool)
    for label in y.unique().tolist():
        members = (y == label).nonzero()[:, 0]
        order = torch.randperm(len(members), generator=generator("digits", "split", label))
        in_test[members[order[: round(test * len(members))]]] = True
    return Task(
        "digits", Split("train", x[~in_test], y[~in_test]), Split("test", x[in_test], y[in_test]), tuple("0123456789")
    )
