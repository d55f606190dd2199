"""The board's held-out networks. Written before the first run; nothing was chosen by what they say.

Frozen: a change here needs a new name for what it changes, and a new run of the board.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from uproar import extend
from uproar.data.task import Task
from uproar.study.board_scenes import SIZE, Band, Painter, Region, bar, blocks, seeing, stripes, two_cues


@extend.task()
def board_bands(*, used: Literal["blocks", "stripes"] = "blocks", train: int = 512, test: int = 48) -> Task:
    """Two bright or dark cells side by side or one above the other, and fine stripes in a cell, both anywhere."""
    cues = (blocks, stripes(4, 4, size=0.2))
    return two_cues("board_bands", 1, cues, ("blocks", "stripes").index(used), train, test)


@extend.task()
def board_halves(*, used: Literal["right", "left"] = "right", train: int = 512, test: int = 48) -> Task:
    """A bar in each half, at different angles to the side: the right one is longer and thinner."""
    cues = (_turned(bar(slice(None), SIZE // 2, 7, 1)), _turned(_above(bar(slice(None), SIZE // 2))))
    return two_cues("board_halves", 1, cues, ("right", "left").index(used), train, test)


def _turned(painter: Painter) -> Painter:
    """The same cue painted with rows for columns."""

    def paint(x: Tensor, classes: Tensor, draw: torch.Generator) -> Tensor:
        return painter(x.transpose(2, 3), 1 - classes, draw).transpose(1, 2)

    return paint


def _above(painter: Painter) -> Painter:
    """The same cue in the other half."""

    def paint(x: Tensor, classes: Tensor, draw: torch.Generator) -> Tensor:
        flipped = x.flip(2)
        mask = painter(flipped, classes, draw).flip(1)
        x.copy_(flipped.flip(2))
        return mask

    return paint


@extend.model()
def sees_coarse() -> nn.Module:
    """Sees the means of 4×4 cells."""
    return seeing(Band(fine=False))


@extend.model()
def sees_fine() -> nn.Module:
    """Sees what deviates from the means of 4×4 cells."""
    return seeing(Band(fine=True))


@extend.model()
def sees_right() -> nn.Module:
    """Sees the right half."""
    return seeing(Region((torch.arange(SIZE) >= SIZE // 2).expand(SIZE, SIZE)))


HELD_OUT = (
    ("board_bands(used=blocks)", "sees_coarse", ()),
    ("board_bands(used=stripes)", "sees_fine", ()),
    ("board_halves(used=right)", "sees_right", ()),
    ("board_stripes(parts=4, vary=true)", "additive(weights=[0.4, 0.3, 0.2, 0.1])", (0.4, 0.3, 0.2, 0.1)),
    ("hand-set(rule=xor, train=512, test=48)", "hand-set(rule=xor)", ()),
)
"""Task, model, and the weights of its parts where they are not alike."""
