"""Images as a network is to see them, made when they are read: what lets a network learn more than fits in memory."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from uproar.data import Split
from uproar.data.stream import Rows, row_numbers
from uproar.types import Images


class Shown:
    """The images of a split, changed row by row: `change(rows)` gives those of some rows.

    Without a change they are shown as they are. Any row is the same in any company.
    """

    def __init__(self, split: Split, change: Callable[[Tensor], Images] | None = None) -> None:
        self.split = split
        self.change = split.read if change is None else change

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, rows: Rows) -> Images:
        return self.change(row_numbers(rows, len(self)))


def shown(split: Split, change: Callable[[Tensor], Images] | None = None) -> Images | Shown:
    """The images of a split, changed: all at once if they are held in memory, else when they are read."""
    lazy = Shown(split, change)
    return lazy if split.streams else lazy[:]
