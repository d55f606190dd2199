"""What every data set is: images in [0, 1] with labels, in a train and a test split."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uproar.data.stream import Rows, Source, row_numbers
from uproar.errors import BadInput, BadShape
from uproar.guard import private_copy
from uproar.tensors import spans
from uproar.types import Images, Kind

NOWHERE = (0, 0, -1, -1)
"""The box of an image whose object is not known: no pixel lies in it."""

READ = 2**24
"""Values of images read at a time where a whole split is gone through."""

MOMENT_VALUES = 2**31
"""Values from which mean and deviation are taken at most: all images of most sets, 14,266 evenly spaced ones of a
larger set of photographs, whose mean is then off by about a thousandth."""


@dataclass(frozen=True, eq=False)
class SplitPart:
    """Which samples of a larger split these are: row numbers in it, and how many it has."""

    rows: Tensor
    whole: int


@dataclass(frozen=True)
class Split:
    """Images with labels; where the important pixels are known, also as masks or boxes.

    `labels` are the class of each image, whole numbers (n,); or which labels it has, 0 and 1, whole numbers (n, k); or
    values, floats (n,) or (n, k).
    `images` are floats in [0, 1] or bytes, which are read as n / 255: a tensor, or a `Source` that reads them when
    they are asked for. `masks` are (n, h, w) bool. `boxes` are (n, 4) integers x0, y0, x1, y1, the last column and row
    included, or (n, m, 4) where an image may have several; a box that ends before it begins holds no pixel.
    """

    name: str
    images: Tensor | Source
    labels: Tensor
    masks: Tensor | None = None
    boxes: Tensor | None = None
    subset: SplitPart | None = None
    """Where a limit keeps some samples: which of the whole split they are."""

    def __post_init__(self) -> None:
        if len(self.images.shape) != 4:
            raise BadShape(f"The {self.name} images must be (n, c, h, w), not {tuple(self.images.shape)}.")
        if len(self.labels) != len(self.images):
            raise BadShape(f"The {self.name} split has {len(self.images)} images but {len(self.labels)} labels.")
        if self.labels.dim() not in (1, 2):
            raise BadShape(f"The {self.name} labels must be (n,) or (n, k), not {tuple(self.labels.shape)}.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> Kind:
        """What the labels are: classes of which one is right, labels that are there or not, or values."""
        if self.labels.is_floating_point():
            return "regression"
        return "softmax" if self.labels.dim() == 1 else "sigmoid"

    @property
    def columns(self) -> Tensor:
        """Labels that are there or not, or values, one column each, (n, k)."""
        return self.labels[:, None] if self.labels.dim() == 1 else self.labels

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, rows, columns)."""
        c, h, w = self.images.shape[1:]
        return c, h, w

    @property
    def streams(self) -> bool:
        """Whether the images are read when they are asked for: then never ask for all at once."""
        return isinstance(self.images, Source)

    @property
    def rows_at_once(self) -> int:
        """How many images may be read at a time, whatever their size."""
        return max(1, min(4096, READ // math.prod(self.shape)))

    def read(self, rows: Rows) -> Images:
        """Some images as floats in [0, 1]."""
        images = self.images[rows]
        return images.float() / 255 if images.dtype == torch.uint8 else images

    def truth(self, rows: Rows) -> Tensor | None:
        """The important pixels of some images as (n, h, w) bool, where they are known: masks, else boxes."""
        return self.boxed(rows) if self.masks is None else self.masks[rows]

    def boxed(self, rows: Rows) -> Tensor | None:
        """The pixels in the boxes of some images as (n, h, w) bool, where boxes are known."""
        return None if self.boxes is None else box_pixels(self.boxes[rows], *self.shape[1:])

    def take(self, rows: Tensor | slice) -> Split:
        """Some of the samples as a split of their own."""
        taken: Callable = lambda column: None if column is None else column[rows]  # noqa: E731
        if isinstance(self.images, Source):
            images: Tensor | Source = self.images.take(row_numbers(rows, len(self)))
        else:
            images = self.images[rows]
        return Split(self.name, images, self.labels[rows], taken(self.masks), taken(self.boxes))


def box_pixels(boxes: Tensor, height: int, width: int) -> Tensor:
    """The pixels that lie in any box of an image, (n, h, w) bool.

    `boxes` are (n, 4) or (n, m, 4) integers x0, y0, x1, y1, the last column and row included; a box that ends before
    it begins holds no pixel.

    >>> int(box_pixels(torch.tensor([[1, 2, 3, 2]]), 5, 5).sum())
    3
    """
    row, column = torch.arange(height)[:, None], torch.arange(width)[None, :]
    inside = torch.zeros(len(boxes), height, width, dtype=torch.bool)
    for box in boxes.unsqueeze(1).flatten(1, -2).unbind(1):
        x0, y0, x1, y1 = (edge[:, None, None] for edge in box.unbind(1))
        inside |= (row >= y0) & (row <= y1) & (column >= x0) & (column <= x1)
    return inside


class CopiedSplit(Split):
    """A split for code of the user: whatever it gets from it is a copy."""

    def __init__(self, split: Split) -> None:
        vars(self)["_split"] = split

    def __len__(self) -> int:
        return len(vars(self)["_split"])

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)
        return private_copy(getattr(self.__dict__["_split"], name))


private_copy.register(Split, CopiedSplit)


@dataclass(frozen=True)
class Task:
    """A data set to be learned: two splits and the names of the classes, labels or values."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    sparse: bool = False
    """Whether classes may lack images: for a given model of many classes that is scored on a few photos."""
    notes: tuple[str, ...] = ()
    """What was decided that nobody asked for, such as a split, in sentences."""

    def __post_init__(self) -> None:
        if self.train.shape != self.test.shape:
            raise BadShape(f"{self.name}: train images are {self.train.shape} but test images {self.test.shape}.")
        for split in (self.train, self.test):
            self._check(split)

    def _check(self, split: Split) -> None:
        if len(split) == 0:
            raise BadInput(f"{self.name}: the {split.name} split has no images.")
        if split.kind != self.train.kind:
            raise BadInput(
                f"{self.name}: the labels of {self.train.name} are {self.train.kind}, of {split.name} {split.kind}."
            )
        if self.kind != "softmax":
            self._check_columns(split)
            return
        k = len(self.classes)
        low, high = int(split.labels.min()), int(split.labels.max())
        if low < 0 or high >= k:
            raise BadInput(
                f"{self.name}: {split.name} labels run from {low} to {high}, but there are {k} classes (0 to {k - 1})."
            )
        counts = torch.bincount(split.labels, minlength=k)
        if bool((counts == 0).any()) and not self.sparse:
            empty = int(counts.argmin())
            other = self.test if split is self.train else self.train
            elsewhere = bool((other.labels == empty).any())
            but = f", but {other.name} images" if elsewhere else ""
            raise BadInput(f"{self.name}: class {self.classes[empty]!r} has no {split.name} images{but}.")

    def _check_columns(self, split: Split) -> None:
        """Refuse labels or values that are not one column for each name, or cannot be learned."""
        columns = split.columns
        if columns.shape[1] != len(self.classes):
            raise BadShape(
                f"{self.name}: {split.name} labels have {columns.shape[1]} columns, but {len(self.classes)} names."
            )
        if self.kind == "regression" and not bool(columns.isfinite().all()):
            raise BadInput(f"{self.name}: {split.name} has values that are NaN or infinite.")
        if self.kind == "sigmoid" and not bool(((columns == 0) | (columns == 1)).all()):
            raise BadInput(f"{self.name}: several labels per image are 0 and 1, but {split.name} has others.")
        constant = (columns == columns[:1]).all(0)
        if bool(constant.any()) and not self.sparse:
            name = self.classes[int(constant.int().argmax())]
            raise BadInput(f"{self.name}: {name!r} is the same in all {split.name} images: there is nothing to learn.")

    @property
    def kind(self) -> Kind:
        """What its labels are, and so the outputs of its networks."""
        return self.train.kind

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, rows, columns) of every image."""
        return self.train.shape

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all images and labels: what 'the same data' means."""
        total = hashlib.sha256(repr((self.name, self.classes)).encode())
        for split in (self.train, self.test):
            _add_split(split, total)
        return total.hexdigest()[:40]

    @functools.cached_property
    def annotations(self) -> str:
        """A hash of what is known to be important, masks and boxes; empty where nothing is."""
        columns = [c for s in (self.train, self.test) for c in (s.masks, s.boxes)]
        if all(column is None for column in columns):
            return ""
        total = hashlib.sha256()
        for column in columns:
            total.update(repr(column is None).encode())
            if column is not None:
                _add(column, total)
        return total.hexdigest()[:40]

    @functools.cached_property
    def mean(self) -> Tensor:
        """The mean colour of the training images, (c,): what removed pixels become by default."""
        return self._moments[0]

    @functools.cached_property
    def std(self) -> Tensor:
        """The standard deviation of the training images per channel, (c,)."""
        return self._moments[1]

    @functools.cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return channel_moments(self.train)

    def limited(self, limit: int) -> Task:
        """The same task with at most `limit` training and `limit` test images, classes balanced."""
        return replace(self, train=balanced(self.train, limit), test=balanced(self.test, limit))


def channel_moments(split: Split) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of a split's images per channel, (c,) each."""
    most = max(1, MOMENT_VALUES // math.prod(split.shape))
    chosen = torch.linspace(0, len(split) - 1, min(most, len(split)), dtype=torch.float64).long()
    levels = np.arange(256) / 255
    total = torch.zeros(2, split.shape[0], dtype=torch.float64)
    for rows in spans(len(chosen), split.rows_at_once):
        batch = split.images[chosen[rows]]
        if batch.dtype == torch.uint8:  # counted, which is faster
            counts = np.stack([np.bincount(colour.reshape(-1).numpy(), minlength=256) for colour in batch.unbind(1)])
            total += torch.from_numpy(np.stack([counts @ levels, counts @ levels**2]))
        else:
            values = batch.double()
            total += torch.stack([values.sum((0, 2, 3)), values.square().sum((0, 2, 3))])
    count = len(chosen) * split.shape[1] * split.shape[2]
    mean = total[0] / count
    std = (total[1] / count - mean.square()).clamp_min(0).sqrt()
    return mean.float(), std.float()


def split_digest(split: Split) -> str:
    """A hash of the images and labels of a split."""
    total = hashlib.sha256()
    _add_split(split, total)
    return total.hexdigest()[:40]


def _add_split(split: Split, total: hashlib._Hash) -> None:
    if isinstance(split.images, Source):
        total.update(repr((split.images.shape, split.images.digest())).encode())
    for column in (split.images, split.labels):
        if isinstance(column, Tensor):
            _add(column, total)


def _add(column: Tensor, total: hashlib._Hash) -> None:
    total.update(repr((column.dtype, tuple(column.shape))).encode())
    total.update(column.contiguous().numpy().reshape(-1).view("uint8").data)


def balanced(split: Split, limit: int) -> Split:
    """At most `limit` images of a split, classes balanced; of one without classes the first."""
    if limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}.")
    if limit >= len(split):
        return split
    rows = balanced_rows(split.labels, limit) if split.kind == "softmax" else torch.arange(limit)
    return replace(split.take(rows), subset=SplitPart(rows, len(split)))


def balanced_rows(labels: Tensor, limit: int) -> Tensor:
    """Which `limit` samples to keep: the first of each class, then the second of each, and so on; in rising order."""
    by_class = torch.argsort(labels, stable=True)
    counts = torch.bincount(labels)
    first = (counts.cumsum(0) - counts)[labels[by_class]]
    turn = torch.empty_like(by_class)
    turn[by_class] = torch.arange(len(labels)) - first
    return torch.argsort(turn, stable=True)[:limit].sort().values
