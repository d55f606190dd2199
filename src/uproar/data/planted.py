"""Made-up images whose important pixels are known: bright shapes on noise, and some of them alone decide the class."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.registry import tasks
from uproar.data.task import NOWHERE, Split, Task
from uproar.registry import options_of
from uproar.seeds import Draws, generator

GLYPH = 5
"""Cells of a glyph's side."""

Size = Annotated[int, Field(ge=16, le=64)]
Channels = Literal[1, 3]
Count = Annotated[int, Field(ge=2)]
Noise = Annotated[float, Field(ge=0, le=1)]
Classes = Annotated[int, Field(ge=2, le=16)]

Painted = tuple[Tensor, Tensor, Tensor]
"""Bright pixels and pixels that tell the class, (n, h, w) bool each, and boxes around the latter."""


@dataclass(frozen=True)
class Scene:
    """What all made-up tasks share: how large images are, how many, how noisy, and the seed of all draws."""

    size: int
    channels: int
    train: int
    test: int
    noise: float
    seed: int

    @property
    def cell(self) -> int:
        """Pixels of the side of a cell, in which shapes are measured: larger images have larger parts."""
        return self.size // 16

    def enlarged(self, shapes: Tensor) -> Tensor:
        """Shapes in cells as shapes in pixels."""
        return shapes.repeat_interleave(self.cell, -2).repeat_interleave(self.cell, -1)

    def placed(self, shapes: Tensor, corners: Tensor) -> Tensor:
        """A shape (n, g, g) in each image with its upper left pixel at row and column, as pixels (n, h, w) bool."""
        pixels = torch.zeros(len(shapes), self.size, self.size, dtype=torch.bool)
        h, w = shapes.shape[1:]
        for image, shape, (row, column) in zip(pixels, shapes, corners.tolist(), strict=True):
            image[row : row + h, column : column + w] = shape
        return pixels

    def task(self, name: str, classes: Sequence[str], paint: Callable[[Tensor, Draws], Painted]) -> Task:
        """A task whose classes take turns; `paint` says what is bright for some labels.

        A bright pixel is 0.6 + 0.4·v where the noise there is v: above all noise as long as `noise` is at most 0.6.
        """
        splits = []
        for split, n in (("train", self.train), ("test", self.test)):
            labels, draws = torch.arange(n) % len(classes), Draws.of(self.seed, n, split)
            noise = self.noise * draws.uniform("planted background", self.channels, self.size, self.size)
            bright, evidence, boxes = paint(labels, draws)
            images = torch.where(bright[:, None], 0.6 + 0.4 * noise, noise)
            splits.append(Split(split, images, labels, evidence, boxes))
        return Task(name, splits[0], splits[1], tuple(classes))


def scene_of(
    *,
    size: Size = 16,
    channels: Channels = 1,
    train: Count = 1024,
    test: Count = 256,
    noise: Noise = 0.5,
    seed: int = 0,
) -> Scene:
    """The scene of these options, which every made-up task has."""
    return Scene(size, channels, train, test, noise, seed)


def squares(corners: Tensor, side: int) -> Tensor:
    """The boxes of squares with their upper left pixels at row and column, (n, 4)."""
    row, column = corners.T
    return torch.stack([column, row, column + side - 1, row + side - 1], 1)


@tasks.declare(images="made up: a 5×5 glyph on noise", truth="masks and boxes")
def planted(
    *,
    size: Annotated[int, Field(ge=GLYPH, le=1024)] = 16,
    classes: Annotated[int, Field(ge=2, le=64)] = 4,
    channels: Annotated[int, Field(ge=1, le=64)] = 1,
    train: Count = 1024,
    test: Count = 256,
    noise: Noise = 0.5,
    seed: int = 0,
) -> Task:
    """A bright glyph at a random place on uniform noise; only the glyph's pixels tell the class."""
    scene, glyphs = Scene(size, channels, train, test, noise, seed), glyph_shapes(classes)

    def paint(labels: Tensor, draws: Draws) -> Painted:
        corners = (draws.uniform("planted corner", 2) * (size - GLYPH + 1)).long()
        glyph = scene.placed(glyphs[labels], corners)
        return glyph, glyph, squares(corners, GLYPH)

    return scene.task("planted", [f"glyph {i}" for i in range(classes)], paint)


def glyph_shapes(classes: int) -> Tensor:
    """Distinct 5×5 shapes with nine bright pixels each, (classes, 5, 5) bool."""
    shapes: list[Tensor] = []
    trial = 0
    while len(shapes) < classes:
        order = torch.randperm(GLYPH**2, generator=generator("planted", "glyph", trial))
        shape = torch.zeros(GLYPH**2, dtype=torch.bool)
        shape[order[:9]] = True
        # at least four of nine pixels differ, so that no two classes are nearly the same
        if all(int((shape & other).sum()) <= 5 for other in shapes) or trial > 1000:
            shapes.append(shape)
        trial += 1
    return torch.stack(shapes).view(classes, GLYPH, GLYPH)


@tasks.declare("planted-fixed", images="made up: a glyph in the middle, on noise", truth="masks and boxes")
@options_of(scene_of)
def planted_fixed(*, classes: Classes = 4, **options: Any) -> Task:
    """A bright glyph that tells the class, always in the middle: the evidence never moves.

    The evidence is the square of the glyph: which of its pixels are dark tells the class as well, and the square is the
    same for all classes.
    """
    scene = scene_of(**options)
    glyphs, side = scene.enlarged(glyph_shapes(classes)), GLYPH * scene.cell

    def paint(labels: Tensor, draws: Draws) -> Painted:
        middle = torch.full((len(labels), 2), (scene.size - side) // 2)
        square = torch.ones(len(labels), side, side, dtype=torch.bool)
        return scene.placed(glyphs[labels], middle), scene.placed(square, middle), squares(middle, side)

    return scene.task("planted-fixed", [f"glyph {i}" for i in range(classes)], paint)


@tasks.declare("planted-place", images="made up: one glyph in a quarter, on noise", truth="masks and boxes")
@options_of(scene_of)
def planted_place(**options: Any) -> Task:
    """The same bright glyph in one of the four quarters, which tells the class, or nowhere: class 0 is empty.

    Images of class 0 have no evidence that could be marked, and count as undefined in metrics of known pixels.
    """
    scene = scene_of(**options)
    (glyph,) = glyph_shapes(1)
    rows, columns = glyph.nonzero().T
    tight = scene.cell * torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])

    def paint(labels: Tensor, draws: Draws) -> Painted:
        half, present = scene.size // 2, labels > 0
        inside = (draws.uniform("planted place", 2) * (half - GLYPH * scene.cell + 1)).long()
        quarter = (labels - 1).clamp_min(0)
        corners = torch.stack([quarter // 2, quarter % 2], 1) * half + inside
        bright = scene.placed(scene.enlarged(glyph & present[:, None, None]), corners)
        boxes = corners.flip(1).repeat(1, 2) + tight - torch.tensor([0, 0, 1, 1])
        return bright, bright, torch.where(present[:, None], boxes, torch.tensor(NOWHERE))

    places = ("nowhere", "upper left", "upper right", "lower left", "lower right")
    return scene.task("planted-place", places, paint)


# images of parts at fixed places for networks whose weights are set by hand: which parts each uses is known exactly
# The image is a grid of 4×4 squares of four cells each. Part A lies in the left square of the second row, B in its
# right one, C and D elsewhere. A rule is a function of some parts; the others come and go by chance and tell nothing.


GRID = 4
"""Squares of a side of the image."""
PLACES = (4, 7, 13, 2)
"""The squares of the parts A, B, C, D, counted row by row."""

RuleName = Literal["linear", "and", "or", "xor", "saturating"]
RULES: dict[str, tuple[int, Callable[..., bool]]] = {
    "linear": (3, lambda a, b, c: 2 * a + b - 2 * c > 0.5),
    "and": (2, lambda a, b: a and b),
    "or": (2, lambda a, b: a or b),
    "xor": (2, lambda a, b: a != b),
    "saturating": (1, lambda a: a),
}
"""How many parts a network uses, the first ones of PLACES, and whether it is class 1, from the presence of each."""


@tasks.declare(
    "hand-set", images="made up: bright squares on noise", truth="masks and boxes of the parts that the rule uses"
)
@options_of(scene_of, train=64)
def hand_set(*, rule: RuleName = "and", **options: Any) -> Task:
    """Parts that are there or not, and a class that is a rule of some of them: for the model `hand-set` of that rule.

    `linear` is 2A + B − 2C > ½; `saturating` is A, which the network reads in a way that gradients do not show.
    """
    scene = scene_of(**options)
    side, (uses, holds) = GRID * scene.cell, RULES[rule]
    presences = list(itertools.product((False, True), repeat=uses))
    answers = {k: [parts for parts in presences if holds(*parts) == bool(k)] for k in (0, 1)}

    def paint(labels: Tensor, draws: Draws) -> Painted:
        def drawn(purpose: str, count: int) -> Tensor:
            return (draws.uniform(purpose) * count).long().clamp_max(count - 1)

        # what the rule uses fits the class, the rest is drawn
        chosen = {k: drawn(f"hand-set parts of class {k}", len(answers[k])).tolist() for k in (0, 1)}
        used = torch.tensor([answers[k][chosen[k][row]] for row, k in enumerate(labels.tolist())])
        others = [drawn(f"hand-set other part {number}", 2).bool() for number in range(uses, len(PLACES))]
        square = torch.ones(len(labels), side, side, dtype=torch.bool)
        bright = evidence = torch.zeros(len(labels), scene.size, scene.size, dtype=torch.bool)
        boxes = []
        for number, present in enumerate([*used.T, *others]):
            corners = side * torch.tensor([divmod(PLACES[number], GRID)]).repeat(len(labels), 1)
            bright = bright | scene.placed(square & present[:, None, None], corners)
            if number < uses:
                evidence = evidence | scene.placed(square, corners)
                boxes.append(squares(corners, side))
        return bright, evidence, boxes[0] if uses == 1 else torch.stack(boxes, 1)

    return scene.task(f"hand-set({rule})", ("no", "yes"), paint)
