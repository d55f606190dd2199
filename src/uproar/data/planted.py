"""Made-up images whose important pixels are known: a glyph on noise, and the glyph alone decides the class."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.photographs import NOWHERE
from uproar.data.registry import tasks
from uproar.data.task import Split, Task
from uproar.registry import options_of
from uproar.seeds import Draws, generator

# canvases for made-up tasks: noise, bright parts on it, and which of these parts are the evidence of the class
# Everything is measured in cells of `size // 16` pixels, so that a larger image shows the same scene with larger
# parts. A bright pixel is 0.6 + 0.4·v where the noise there is v: above all noise as long as `noise` is at most 0.6.


GLYPH = 5
"""Cells of a glyph's side."""

Size = Annotated[int, Field(ge=16, le=64)]
Channels = Literal[1, 3]
Count = Annotated[int, Field(ge=2)]
Noise = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Scene:
    """What all made-up tasks share: how large images are, how many, how noisy, and the seed of all draws."""

    size: int
    channels: int
    train: int
    test: int
    noise: float
    seed: int
    cell: int
    """Pixels of the side of a cell."""

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

    def task(self, name: str, classes: Sequence[str], paint: Callable[[Canvas], Canvas]) -> Task:
        """A task whose train and test images are painted alike; the classes take turns."""
        counts = {"train": self.train, "test": self.test}
        splits = [paint(self.canvas(split, torch.arange(n) % len(classes))).split() for split, n in counts.items()]
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
    return Scene(size, channels, train, test, noise, seed, size // 16)


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
        boxes = torch.tensor(NOWHERE).repeat(len(placed), 1)
        for i, pixels in enumerate(placed):
            rows, columns = pixels.nonzero().T
            if len(rows):
                boxes[i] = torch.stack([columns.min(), rows.min(), columns.max(), rows.max()])
        return replace(self, evidence=self.evidence | placed, boxes=(*self.boxes, boxes))

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
        for image, shape, (row, column) in zip(placed, shapes, corners.tolist(), strict=True):
            image[row : row + h, column : column + w] = shape
        return placed


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
    scene, glyphs = Scene(size, channels, train, test, noise, seed, cell=1), glyph_shapes(classes)

    def paint(canvas: Canvas) -> Canvas:
        corners = canvas.corners_in("planted corner")
        row, column = corners.T
        square = torch.stack([column, row, column + GLYPH - 1, row + GLYPH - 1], 1)
        return replace(canvas.planted(glyphs[canvas.labels], corners), boxes=(square,))

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


# made-up tasks whose evidence is a shape: at a fixed place, by its place, told twice


Classes = Annotated[int, Field(ge=2, le=16)]


@tasks.declare("planted-fixed", images="made up: a glyph in the middle, on noise", truth="masks and boxes")
@options_of(scene_of)
def planted_fixed(*, classes: Classes = 4, **options: Any) -> Task:
    """A bright glyph that tells the class, always in the middle: the evidence never moves.

    The evidence is the square of the glyph: which of its pixels are dark tells the class as well, and the square is the
    same for all classes.
    """
    scene = scene_of(**options)
    glyphs = scene.enlarge(glyph_shapes(classes))

    def paint(canvas: Canvas) -> Canvas:
        middle = torch.full((len(canvas), 2), (scene.size - scene.glyph) // 2)
        square = torch.ones(len(canvas), scene.glyph, scene.glyph, dtype=torch.bool)
        return canvas.painted(glyphs[canvas.labels], middle).marked(square, middle)

    return scene.task("planted-fixed", [f"glyph {i}" for i in range(classes)], paint)


@tasks.declare("planted-place", images="made up: one glyph in a quarter, on noise", truth="masks and boxes")
@options_of(scene_of)
def planted_place(**options: Any) -> Task:
    """The same bright glyph in one of the four quarters, which tells the class, or nowhere: class 0 is empty.

    Images of class 0 have no evidence that could be marked, and count as undefined in metrics of known pixels.
    """
    scene = scene_of(**options)
    glyph = scene.enlarge(glyph_shapes(1))

    def paint(canvas: Canvas) -> Canvas:
        n, half = len(canvas), scene.size // 2
        room = half - scene.glyph + 1
        inside = (canvas.draws.uniform("planted place", 2) * room).long()
        quarter = (canvas.labels - 1).clamp_min(0)
        corners = torch.stack([quarter // 2, quarter % 2], 1) * half + inside
        shapes = glyph.repeat(n, 1, 1) & (canvas.labels > 0)[:, None, None]
        return canvas.planted(shapes, corners)

    places = ("nowhere", "upper left", "upper right", "lower left", "lower right")
    return scene.task("planted-place", places, paint)


@tasks.declare("planted-redundant", images="made up: two glyphs that say the same, on noise", truth="masks and boxes")
@options_of(scene_of)
def planted_redundant(*, classes: Classes = 4, **options: Any) -> Task:
    """Two glyphs, one in each half, and either alone tells the class: what is left of one replaces the other."""
    scene = scene_of(**options)
    left, right = scene.enlarge(glyph_shapes(2 * classes)).split(classes)

    def paint(canvas: Canvas) -> Canvas:
        first = canvas.corners_in("planted left", (0, scene.size // 2))
        second = canvas.corners_in("planted right", (scene.size // 2, scene.size))
        return canvas.planted(left[canvas.labels], first).planted(right[canvas.labels], second)

    return scene.task("planted-redundant", [f"glyphs {i}" for i in range(classes)], paint)


# images of parts at fixed places for networks whose weights are set by hand: which parts each uses is known exactly
# The image is a grid of 4×4 squares of four cells each. Part A lies in the left square of the second row, B in its
# right one, C and D elsewhere. A rule is a function of some parts; the others come and go by chance and tell nothing.


GRID = 4
"""Squares of a side of the image."""
PLACES = (4, 7, 13, 2)
"""The squares of the parts A, B, C, D, counted row by row."""

RuleName = Literal["linear", "and", "or", "xor", "saturating"]


@dataclass(frozen=True)
class Rule:
    """How the class follows from the parts that a network uses, the first ones of PLACES."""

    uses: int
    holds: Callable[..., bool]
    """Class 1, from the presence of each used part."""

    @property
    def answers(self) -> dict[int, list[tuple[bool, ...]]]:
        """By class, what can be there of the used parts."""
        every = list(itertools.product((False, True), repeat=self.uses))
        return {k: [parts for parts in every if self.holds(*parts) == bool(k)] for k in (0, 1)}


RULES: dict[str, Rule] = {
    "linear": Rule(3, lambda a, b, c: 2 * a + b - 2 * c > 0.5),
    "and": Rule(2, lambda a, b: a and b),
    "or": Rule(2, lambda a, b: a or b),
    "xor": Rule(2, lambda a, b: a != b),
    "saturating": Rule(1, lambda a: a),
}


@tasks.declare(
    "hand-set", images="made up: bright squares on noise", truth="masks and boxes of the parts that the rule uses"
)
@options_of(scene_of, train=64)
def hand_set(*, rule: RuleName = "and", **options: Any) -> Task:
    """Parts that are there or not, and a class that is a rule of some of them: for the model `hand-set` of that rule.

    `linear` is 2A + B − 2C > ½; `saturating` is A, which the network reads in a way that gradients do not show.
    """
    scene = scene_of(**options)
    side = GRID * scene.cell
    corners = [(side * (place // GRID), side * (place % GRID)) for place in PLACES]

    def paint(canvas: Canvas) -> Canvas:
        # what the rule uses fits the class, the rest is drawn
        answers, uses = RULES[rule].answers, RULES[rule].uses
        drawn = {k: canvas.choice(f"hand-set parts of class {k}", len(answers[k])).tolist() for k in (0, 1)}
        used = [answers[k][drawn[k][row]] for row, k in enumerate(canvas.labels.tolist())]
        others = [canvas.choice(f"hand-set other part {number}", 2).bool() for number in range(uses, len(PLACES))]
        present = [*torch.tensor(used).T, *others]
        square = torch.ones(len(canvas), side, side, dtype=torch.bool)
        for number, corner in enumerate(corners):
            at = torch.tensor([corner]).repeat(len(canvas), 1)
            canvas = canvas.painted(square & present[number][:, None, None], at)
            canvas = canvas.marked(square, at) if number < uses else canvas
        return canvas

    return scene.task(f"hand-set({rule})", ("no", "yes"), paint)
