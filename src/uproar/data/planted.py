"""Made-up images whose important pixels are known: a glyph on noise, and the glyph alone decides the class."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.registry import tasks
from uproar.data.task import Split, Task
from uproar.seeds import Draws, generator

_GLYPH = 5
"""Glyphs are 5×5 pixels: small beside a 16×16 image, large enough for many distinct shapes."""


@tasks.declare(images="made up: a 5×5 glyph on noise", truth="masks and boxes")
def planted(
    *,
    size: Annotated[int, Field(ge=_GLYPH)] = 16,
    classes: Annotated[int, Field(ge=2, le=64)] = 4,
    channels: Annotated[int, Field(ge=1)] = 1,
    train: Annotated[int, Field(ge=2)] = 1024,
    test: Annotated[int, Field(ge=2)] = 256,
    noise: Annotated[float, Field(ge=0, le=1)] = 0.5,
    seed: int = 0,
) -> Task:
    """A bright glyph at a random place on uniform noise; only the glyph's pixels tell the class."""
    glyphs = glyph_shapes(classes)
    return Task(
        "planted",
        _split("train", train, glyphs, size, channels, noise, seed),
        _split("test", test, glyphs, size, channels, noise, seed),
        tuple(f"glyph {i}" for i in range(classes)),
    )


def glyph_shapes(classes: int) -> Tensor:
    """Distinct 5×5 shapes with nine bright pixels each, (classes, 5, 5) bool."""
    shapes: list[Tensor] = []
    trial = 0
    while len(shapes) < classes:
        order = torch.randperm(_GLYPH**2, generator=generator("planted", "glyph", trial))
        shape = torch.zeros(_GLYPH**2, dtype=torch.bool)
        shape[order[:9]] = True
        # at least four of nine pixels differ, so that no two classes are nearly the same
        if all(int((shape & other).sum()) <= 5 for other in shapes) or trial > 1000:
            shapes.append(shape)
        trial += 1
    return torch.stack(shapes).view(classes, _GLYPH, _GLYPH)


def _split(name: str, n: int, glyphs: Tensor, size: int, channels: int, noise: float, seed: int) -> Split:
    labels = torch.arange(n) % len(glyphs)
    draws = Draws.of(seed, n, name)
    images = noise * draws.uniform("planted background", channels, size, size)
    corners = (draws.uniform("planted corner", 2) * (size - _GLYPH + 1)).long()
    masks = torch.zeros(n, size, size, dtype=torch.bool)
    for i, (row, column) in enumerate(corners.tolist()):
        masks[i, row : row + _GLYPH, column : column + _GLYPH] = glyphs[labels[i]]
    images = torch.where(masks[:, None], 0.6 + 0.4 * images, images)
    row, column = corners.T
    boxes = torch.stack([column, row, column + _GLYPH - 1, row + _GLYPH - 1], 1)
    return Split(name, images, labels, masks, boxes)
