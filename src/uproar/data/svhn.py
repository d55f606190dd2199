"""Street View House Numbers, cropped digits: MATLAB files with X (32, 32, 3, n) and y (n, 1), 10 being the digit 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from uproar.data.locations import locate
from uproar.data.options import Count, Root, subsample
from uproar.data.registry import tasks
from uproar.data.task import Split, Task
from uproar.errors import BadInput, one_line


@tasks.declare(images="73,257 + 26,032 colour 32×32", truth="none")
def svhn(*, train: Count = None, test: Count = None, root: Root = None) -> Task:
    """House numbers (Netzer et al. 2011), cropped digits, 32×32 colour, from the .mat files."""
    folder = locate("svhn", root)
    first = _split("train", folder / "train_32x32.mat")
    second = _split("test", folder / "test_32x32.mat")
    return subsample(Task("svhn", first, second, tuple("0123456789")), train, test)


def _split(name: str, file: Path) -> Split:
    held = _read(file)
    for variable in ("X", "y"):
        if variable not in held:
            raise BadInput(
                f"{file} has no variable {variable!r} (the {'images' if variable == 'X' else 'labels'}); "
                "it is not a file of the cropped digits."
            )
    images, labels = held["X"], held["y"].reshape(-1)
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise BadInput(f"{file}: X must be bytes of shape (32, 32, 3, n), not {images.dtype} of shape {images.shape}.")
    if images.shape[3] != len(labels):
        raise BadInput(f"{file} has {images.shape[3]} images but {len(labels)} labels.")
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise BadInput(
            f"{file}: labels run from {labels.min()} to {labels.max()}, but the official files have 1 to 10, "
            "where 10 is the digit 0."
        )
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(3, 2, 0, 1)))
    return Split(name, pixels, torch.from_numpy(labels.astype(np.int64) % 10))


def _read(file: Path) -> dict[str, Any]:
    from scipy.io import loadmat  # loads slowly, and few need it

    if not file.is_file():
        raise BadInput(f"There is no {file.name} in {file.parent}.")
    try:
        return loadmat(file, variable_names=["X", "y"])
    except Exception as error:  # a damaged file can fail in any way
        raise BadInput(f"{file} cannot be read as a MATLAB file ({one_line(error)}).") from None
