"""The board's networks of real pictures: clothes of the package, of which a network by construction sees one part.

Written before the first run; nothing was chosen by what they say.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar import extend
from uproar.data import load
from uproar.data.task import Split, Task
from uproar.seeds import generator
from uproar.study.board_scenes import CELL, Band, Channel, Region, seeing

SIDE = 24
"""Pixels of the side of an image."""
CLOTHES = ("trouser", "dress", "coat", "sneaker", "bag")
VISIBLE = 0.1
"""The brightness of a pixel, or the size of its detail, from which it counts as a part of the clothing."""


@extend.task()
def board_clothes(
    *, seen: Literal["quarter", "colour", "detail"] = "quarter", train: int = 512, test: int = 48
) -> Task:
    """Real pictures of clothes, several in an image; the label is that of the one that is seen.

    `quarter`: four side by side; `colour`: one in red, one in green and one in blue, each anywhere; `detail`: the fine
    detail of one on the coarse shape of another. The known pixels are those of the piece of clothing that is seen.
    """
    clothes = load("fashion-small")
    numbers = torch.tensor([[name.lower() for name in clothes.classes].index(name) for name in CLOTHES])
    splits = []
    for source, n in ((clothes.train, train), (clothes.test, test)):
        draw = generator("board", f"clothes {seen}", source.name)
        rows = torch.isin(source.labels, numbers).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=draw)]
        size = SIDE if seen == "detail" else SIDE // 2
        pictures = F.interpolate(source.read(rows), size=(size, size), mode="area")[:, 0]
        used = torch.arange(n) % len(rows)
        others = torch.randint(len(rows), (3, n), generator=draw)
        x, mask = COMPOSED[seen](pictures[used], pictures[others], draw)
        labels = torch.searchsorted(numbers, source.labels[rows[used]])
        splits.append(Split(source.name, x, labels, mask))
    return Task(f"board_clothes_{seen}", splits[0], splits[1], CLOTHES)


def _quarters(used: Tensor, others: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Four pictures side by side, the used one upper right."""
    image = torch.cat([torch.cat([others[0], used], 2), torch.cat([others[1], others[2]], 2)], 1)
    return image[:, None], F.pad(used > VISIBLE, (SIDE // 2, 0, 0, SIDE // 2))


def _colours(used: Tensor, others: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Three pictures in three colours, each anywhere, the used one in red."""
    x = torch.zeros(len(used), 3, SIDE, SIDE)
    for colour, pictures in enumerate((used, others[0], others[1])):
        for image, picture in zip(x[:, colour], pictures, strict=True):
            row, column = torch.randint(SIDE // 2 + 1, (2,), generator=draw).tolist()
            image[row : row + SIDE // 2, column : column + SIDE // 2] = picture
    return x, x[:, 0] > VISIBLE


def _detail(used: Tensor, others: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """The detail of the used picture on the coarse shape of another."""
    band = Band(fine=True)
    detail, coarse = band(used[:, None]), others[0][:, None] - band(others[0][:, None])
    return (0.25 + 0.5 * (coarse + detail)).clamp(0, 1), detail[:, 0].abs() > VISIBLE


COMPOSED = {"quarter": _quarters, "colour": _colours, "detail": _detail}


@extend.model()
def sees_quarter() -> nn.Module:
    """Sees the upper right quarter."""
    half = torch.arange(SIDE) < SIDE // 2
    return seeing(Region(half[:, None] & ~half), 1, len(CLOTHES), (SIDE, SIDE))


@extend.model()
def sees_red() -> nn.Module:
    """Sees the red of the colours."""
    return seeing(Channel(0), 1, len(CLOTHES), (SIDE, SIDE))


@extend.model()
def sees_detail() -> nn.Module:
    """Sees what deviates from the means of 4×4 cells."""
    return seeing(Band(fine=True), 1, len(CLOTHES), (SIDE, SIDE))


assert SIDE % CELL == 0

NATURAL = (
    ("board_clothes(seen=quarter)", "sees_quarter", ()),
    ("board_clothes(seen=colour)", "sees_red", ()),
    ("board_clothes(seen=detail)", "sees_detail", ()),
)
"""Task, model, and the weights of its parts where they are not alike."""
