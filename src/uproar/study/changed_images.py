"""Changed images: what a network is to see of a split, made when it is read where the split does not fit in memory."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from uproar.data import Split
from uproar.data.stream import Rows, row_numbers
from uproar.types import Images


class ChangedImages:
    """The images of a split, changed row by row: `change(rows)` gives those of some rows.

    Without a change they are the images themselves. A row does not depend on which rows are read with it.
    """

    def __init__(self, split: Split, change: Callable[[Tensor], Images] | None = None) -> None:
        self.split = split
        self.change = split.read if change is None else change

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, rows: Rows) -> Images:
        return self.change(row_numbers(rows, len(self)))


def changed_images(split: Split, change: Callable[[Tensor], Images] | None = None) -> Images | ChangedImages:
    """The images of a split, changed: all at once if they are held in memory, else when they are read."""
    lazy = ChangedImages(split, change)
    return lazy if split.streams else lazy[:]
