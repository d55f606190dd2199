"""Made-up tasks whose class is a function of parts: both must be there, exactly one must be, one must be missing.

Each part is one of two shapes, as bright and as large, so that no brightness tells anything. The evidence is both
parts in every image: the class is a function of the two, and what is left without them says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from uproar.data.planted import glyph_shapes
from uproar.data.registry import tasks
from uproar.data.scenes import Canvas, Scene, scene_and_counts
from uproar.data.task import Task
from uproar.registry import options_of


@tasks.declare("planted-conjunction", images="made up: two glyphs on noise", truth="masks and boxes")
@options_of(scene_and_counts)
def planted_conjunction(*, moving: bool = True, **options: Any) -> Task:
    """Class 1 where two parts are both there; in class 0 one of them, left or right by chance, is another shape."""
    scene, counts = scene_and_counts(**options)

    def shapes(canvas: Canvas) -> tuple[Tensor, Tensor]:
        complete, missing = canvas.labels == 1, canvas.choice("planted missing part", 2)
        return (~complete & (missing == 0)).long(), (~complete & (missing == 1)).long()

    return _two_parts("planted-conjunction", scene, counts, ("not both", "both"), shapes, moving)


@tasks.declare("planted-xor", images="made up: two glyphs on noise", truth="masks and boxes")
@options_of(scene_and_counts, train=2048)
def planted_xor(*, moving: bool = False, **options: Any) -> Task:
    """Two parts of two shapes each; the class is whether exactly one of them is the second: one part tells nothing.

    The parts stay in the middle of their halves unless they are `moving`, which small networks hardly learn.
    """
    scene, counts = scene_and_counts(**options)

    def shapes(canvas: Canvas) -> tuple[Tensor, Tensor]:
        first = canvas.choice("planted first part", 2)
        return first, first ^ canvas.labels

    return _two_parts("planted-xor", scene, counts, ("alike", "different"), shapes, moving)


def _two_parts(
    name: str,
    scene: Scene,
    counts: tuple[int, int],
    classes: tuple[str, str],
    shapes: Callable[[Canvas], tuple[Tensor, Tensor]],
    moving: bool,
) -> Task:
    """A part in each half of the image; `shapes` says which of its two shapes each has."""
    left, right = scene.enlarge(glyph_shapes(4)).split(2)

    half = scene.size // 2

    def place(canvas: Canvas, purpose: str, columns: tuple[int, int]) -> Tensor:
        if moving:
            return canvas.corners_in(purpose, columns)
        middle = torch.tensor([scene.size - scene.glyph, sum(columns) - scene.glyph]) // 2
        return middle.repeat(len(canvas), 1)

    def paint(canvas: Canvas) -> Canvas:
        first, second = shapes(canvas)
        canvas = canvas.planted(left[first], place(canvas, "planted left", (0, half)))
        return canvas.planted(right[second], place(canvas, "planted right", (half, scene.size)))

    return scene.task(name, counts, classes, paint)


@tasks.declare("planted-absence", images="made up: glyphs in the corners, on noise", truth="masks and boxes")
@options_of(scene_and_counts)
def planted_absence(**options: Any) -> Task:
    """Class 1 where the glyph in the upper left corner is missing; those in the other corners come and go by chance.

    The evidence is the place of the glyph in both classes: in class 1 there is nothing but noise to be seen there.
    """
    scene, counts = scene_and_counts(**options)
    glyph = scene.enlarge(glyph_shapes(1))

    def paint(canvas: Canvas) -> Canvas:
        everywhere = glyph.repeat(len(canvas), 1, 1)
        here = torch.full((len(canvas), 2), scene.cell)
        far = scene.size - scene.glyph - scene.cell
        for number, corner in enumerate(((scene.cell, far), (far, scene.cell), (far, far))):
            there = canvas.choice(f"planted other corner {number}", 2).bool()
            canvas = canvas.painted(everywhere & there[:, None, None], torch.tensor([corner]).repeat(len(canvas), 1))
        present = everywhere & (canvas.labels == 0)[:, None, None]
        return canvas.painted(present, here).marked(everywhere, here)

    return scene.task("planted-absence", counts, ("there", "missing"), paint)
