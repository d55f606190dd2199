"""Canvases for made-up tasks: noise, bright parts on it, and which of these parts are the evidence of the class.

Everything is measured in cells of `size // 16` pixels, so that a larger image shows the same scene with larger parts.
A bright pixel is 0.6 + 0.4·v where the noise there is v: above all noise as long as `noise` is at most 0.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.photographs import NOWHERE
from uproar.data.task import Split, Task
from uproar.seeds import Draws

GLYPH = 5
"""Cells of a glyph's side."""

Size = Annotated[int, Field(ge=16, le=64)]
Channels = Literal[1, 3]
Count = Annotated[int, Field(ge=2)]
Noise = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Scene:
    """What all made-up tasks share: how large images are, how noisy, how many, and the seed of all draws."""

    size: int
    channels: int
    noise: float
    seed: int

    @property
    def cell(self) -> int:
        """Pixels of the side of a cell."""
        return self.size // 16

    @property
    def glyph(self) -> int:
        """Pixels of the side of a glyph."""
        return GLYPH * self.cell

    def enlarge(self, shapes: Tensor) -> Tensor:
        """Shapes in cells as shapes in pixels."""
        return shapes.repeat_interleave(self.cell, -2).repeat_interleave(self.cell, -1)

    def canvas(self, split: str, labels: Tensor) -> Canvas:
        """An empty canvas for each label."""
        draws = Draws.of(self.seed, len(labels), split)
        noise = self.noise * draws.uniform("planted background", self.channels, self.size, self.size)
        nothing = torch.zeros(len(labels), self.size, self.size, dtype=torch.bool)
        return Canvas(self, split, labels, draws, noise, nothing, nothing)

    def task(
        self, name: str, counts: tuple[int, int], classes: Sequence[str], paint: Callable[[Canvas], Canvas]
    ) -> Task:
        """A task whose train and test images are painted alike; the classes take turns."""
        splits = []
        for split, n in zip(("train", "test"), counts, strict=True):
            splits.append(paint(self.canvas(split, torch.arange(n) % len(classes))).split())
        return Task(name, splits[0], splits[1], tuple(classes))


def scene_and_counts(
    *,
    size: Size = 16,
    channels: Channels = 1,
    train: Count = 1024,
    test: Count = 256,
    noise: Noise = 0.5,
    seed: int = 0,
) -> tuple[Scene, tuple[int, int]]:
    """A scene and how many images of it are for training and test: the options of every made-up task."""
    return Scene(size, channels, noise, seed), (train, test)


@dataclass(frozen=True)
class Canvas:
    """Noise on which parts are painted; painting gives another canvas."""

    scene: Scene
    name: str
    """The split that it becomes."""
    labels: Tensor
    draws: Draws
    noise: Tensor
    bright: Tensor
    """Bright pixels, (n, h, w) bool."""
    evidence: Tensor
    """Pixels that tell the class, (n, h, w) bool."""
    boxes: tuple[Tensor, ...] = field(default=())
    """Around each part that is evidence, (n, 4)."""

    def __len__(self) -> int:
        return len(self.labels)

    def painted(self, shapes: Tensor, corners: Tensor) -> Canvas:
        """With a bright shape, (n, g, g) bool in pixels, in each image; it is no evidence."""
        return replace(self, bright=self.bright | self._placed(shapes, corners))

    def marked(self, shapes: Tensor, corners: Tensor) -> Canvas:
        """With these pixels as evidence, bright or not; an empty shape marks nothing."""
        placed = self._placed(shapes, corners)
        return replace(self, evidence=self.evidence | placed, boxes=(*self.boxes, _boxes_around(placed)))

    def planted(self, shapes: Tensor, corners: Tensor) -> Canvas:
        """With a bright shape that is evidence."""
        return self.painted(shapes, corners).marked(shapes, corners)

    def corners_in(self, purpose: str, columns: tuple[int, int] | None = None) -> Tensor:
        """A random place for a glyph in each image, (n, 2) row and column; `columns` bound where it may lie."""
        size, glyph = self.scene.size, self.scene.glyph
        left, right = columns or (0, size)
        room = torch.tensor([size - glyph + 1, right - left - glyph + 1])
        return (self.draws.uniform(purpose, 2) * room).long() + torch.tensor([0, left])

    def choice(self, purpose: str, count: int) -> Tensor:
        """A random whole number below `count` for each image."""
        return (self.draws.uniform(purpose) * count).long().clamp_max(count - 1)

    def split(self) -> Split:
        """The images, with masks of the evidence and boxes around its parts."""
        images = torch.where(self.bright[:, None], 0.6 + 0.4 * self.noise, self.noise)
        boxes = self.boxes[0] if len(self.boxes) == 1 else torch.stack(self.boxes, 1)
        return Split(self.name, images, self.labels, self.evidence, boxes)

    def _placed(self, shapes: Tensor, corners: Tensor) -> Tensor:
        placed = torch.zeros_like(self.bright)
        h, w = shapes.shape[1:]
        for one, shape, (row, column) in zip(placed, shapes, corners.tolist(), strict=True):
            one[row : row + h, column : column + w] = shape
        return placed


def _boxes_around(pixels: Tensor) -> Tensor:
    """The smallest box around the pixels of each image, (n, 4)."""
    boxes = torch.tensor(NOWHERE).repeat(len(pixels), 1)
    for i, one in enumerate(pixels):
        rows, columns = one.nonzero().T
        if len(rows):
            boxes[i] = torch.stack([columns.min(), rows.min(), columns.max(), rows.max()])
    return boxes


def places_on_grid(canvas: Canvas, purpose: str, count: int) -> list[Tensor]:
    """`count` different places for glyphs that do not overlap, in random order: corners (n, 2) each."""
    glyph, size = canvas.scene.glyph, canvas.scene.size
    across = size // glyph
    spare = size - across * glyph
    order = canvas.draws.permutations(purpose, across**2)[:, :count]
    shift = (canvas.draws.uniform(f"{purpose} shift", 2) * (spare + 1)).long()
    return [torch.stack([cell // across, cell % across], 1) * glyph + shift for cell in order.T]
