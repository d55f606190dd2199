"""MNIST and Fashion-MNIST: grey 28×28, in IDX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from uproar.data.catalogue import public_dataset
from uproar.data.idx import read_idx
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
    folder = locate(public_dataset(name), root)
    return Task(name, _split(folder, "train", "train"), _split(folder, "test", "t10k"), classes)


def _split(folder: Path, name: str, stem: str) -> Split:
    images = read_idx(folder, f"{stem}-images-idx3-ubyte", 3)
    labels = read_idx(folder, f"{stem}-labels-idx1-ubyte", 1)
    if len(images) != len(labels):
        raise BadInput(f"{folder} has {len(images)} {name} images but {len(labels)} labels.")
    pixels = torch.from_numpy(images[:, None].copy())
    return Split(name, pixels, torch.from_numpy(labels.astype(np.int64)))
