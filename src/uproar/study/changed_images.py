"""Changed images: what a network is to see of a split, made when it is read where the split does not fit in memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from uproar.data import Split
from uproar.data.stream import Rows, row_numbers
from uproar.removal import FillContext
from uproar.removal.fill import read_fill, sample_colour
from uproar.seeds import Draws
from uproar.study.settings import Inputs
from uproar.types import Images

MARGINALS = 2**26
"""Values of training images that are held for a fill that draws from them."""


class FillContexts:
    """The surroundings of the fill of a setting."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def around(self, draws: Draws) -> FillContext:
        """What the study's fill may know besides the images."""
        return FillContext(draws, self.inputs.task.mean, self._marginals, self._colour)

    @functools.cached_property
    def _marginals(self) -> Tensor | None:
        """Some training images, for the fill that draws pixels from them."""
        train = self.inputs.task.train
        if read_fill(self.inputs.setting.fill)[0].name != "resample":
            return None
        most = min(4096, len(train), max(1, MARGINALS // math.prod(self.inputs.task.shape)))
        return train.read(torch.linspace(0, len(train) - 1, most).long())

    @functools.cached_property
    def _colour(self) -> Tensor | None:
        """The mean colour of some training images, for the fill that wants no more of them."""
        entry, options = read_fill(self.inputs.setting.fill)
        if entry.name != "mean" or options["images"] is None:
            return None
        return sample_colour(self.inputs.task.train.read, len(self.inputs.task.train), options["images"])


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
