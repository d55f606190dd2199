"""Mosaics of real images: one cell shows the class that is asked about, so that relevance elsewhere is wrong.

After Rao et al. 2022 (GridPG, DiFull). Their networks are trained on single images and shown mosaics. A task has one
size, so that here a training image is one image repeated in all cells: to a network that ends in average pooling that
is a single image, but for the seams. The model `disconnected` reads one cell alone: then the truth is exact.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.registry import tasks
from uproar.data.stream import Source
from uproar.data.task import Split, Task
from uproar.errors import BadInput
from uproar.seeds import Draws


class Mosaics(Source):
    """Images put together from images of another split, k×k each, when they are read."""

    def __init__(self, images: Tensor | Source, members: Tensor) -> None:
        """`members` are row numbers of the images by cell, (n, k²), row by row."""
        self.images, self.members = images, members

    @property
    def across(self) -> int:
        """Cells in a row."""
        return round(self.members.shape[1] ** 0.5)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        c, h, w = self.images.shape[1:]
        return len(self.members), c, self.across * h, self.across * w

    def read(self, rows: Tensor) -> Tensor:
        k, (c, h, w) = self.across, tuple(self.images.shape[1:])
        parts = self.images[self.members[rows].flatten()].view(len(rows), k, k, c, h, w)
        return parts.permute(0, 3, 1, 4, 2, 5).reshape(len(rows), c, k * h, k * w)

    def digest(self) -> str:
        total = hashlib.sha256(self.members.numpy().tobytes())
        inner = self.images.digest().encode() if isinstance(self.images, Source) else self.images.numpy().tobytes()
        total.update(inner)
        return total.hexdigest()[:40]


@tasks.declare(images="mosaics of those of another task", truth="the cell of the class, as boxes")
def grid(
    task: Task,
    *,
    k: Annotated[int, Field(ge=2, le=8)] = 2,
    cell: Annotated[int, Field(ge=0)] | None = None,
    seed: int = 0,
) -> Task:
    """Test images are k×k mosaics of images of different classes, of which one gives the label: grid(cifar10, k=3).

    Each test image of the task is asked about once, in a random cell or always in `cell` (row by row from 0), among
    random test images of other classes. A training image is one image in all cells.
    """
    cells = k * k
    if len(task.classes) < cells:
        raise BadInput(
            f"A mosaic of {k}×{k} images of different classes needs {cells} classes; {task.name} has "
            f"{len(task.classes)}."
        )
    if cell is not None and cell >= cells:
        raise BadInput(f"A mosaic of {k}×{k} images has the cells 0 to {cells - 1}, not {cell}.")
    repeated = torch.arange(len(task.train))[:, None].repeat(1, cells)
    train = Split("train", _images(task.train, repeated), task.train.labels)
    members, places = _members(task.test, cells, cell, Draws.of(seed, len(task.test), "test"))
    test = Split("test", _images(task.test, members), task.test.labels, boxes=_boxes(places, k, *task.shape[1:]))
    return Task(f"grid({task.name}, k={k})", train, test, task.classes, task.sparse, task.notes)


def _images(split: Split, members: Tensor) -> Tensor | Source:
    mosaics = Mosaics(split.images, members)
    return mosaics if split.streams else mosaics.read(torch.arange(len(members)))


def _members(split: Split, cells: int, cell: int | None, draws: Draws) -> tuple[Tensor, Tensor]:
    """Which image stands in each cell of each mosaic, (n, cells), and in which cell the image asked about, (n,)."""
    by_class = [(split.labels == label).nonzero()[:, 0] for label in split.labels.unique()]
    if len(by_class) < cells:
        raise BadInput(f"A mosaic needs test images of {cells} different classes; there are {len(by_class)}.")
    order = draws.permutations("grid classes", len(by_class))
    which = draws.uniform("grid images", cells).double()
    places = (draws.uniform("grid cell") * cells).long() if cell is None else torch.full((len(split),), cell)
    members = torch.empty(len(split), cells, dtype=torch.long)
    for row, (place, label) in enumerate(zip(places.tolist(), split.labels.tolist(), strict=True)):
        others = [by_class[k] for k in order[row].tolist() if int(split.labels[by_class[k][0]]) != label]
        chosen = [one[int(u * len(one))] for one, u in zip(others, which[row, : cells - 1], strict=False)]
        chosen.insert(place, torch.tensor(row))
        members[row] = torch.stack(chosen)
    return members, places


def _boxes(places: Tensor, k: int, height: int, width: int) -> Tensor:
    top, left = places // k * height, places % k * width
    return torch.stack([left, top, left + width - 1, top + height - 1], 1)
