"""Made-up tasks whose evidence is a shape: at a fixed place, by its place, told twice, among distractors."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field

from uproar.data.planted import glyph_shapes
from uproar.data.registry import tasks
from uproar.data.scenes import Canvas, places_on_grid, scene_and_counts
from uproar.data.task import Task
from uproar.registry import options_of

Classes = Annotated[int, Field(ge=2, le=16)]


@tasks.declare("planted-fixed", images="made up: a glyph in the middle, on noise", truth="masks and boxes")
@options_of(scene_and_counts)
def planted_fixed(*, classes: Classes = 4, **options: Any) -> Task:
    """A bright glyph that tells the class, always in the middle: the evidence never moves.

    The evidence is the square of the glyph: which of its pixels are dark tells the class as well, and the square is the
    same for all classes.
    """
    scene, counts = scene_and_counts(**options)
    glyphs = scene.enlarge(glyph_shapes(classes))

    def paint(canvas: Canvas) -> Canvas:
        middle = torch.full((len(canvas), 2), (scene.size - scene.glyph) // 2)
        square = torch.ones(len(canvas), scene.glyph, scene.glyph, dtype=torch.bool)
        return canvas.painted(glyphs[canvas.labels], middle).marked(square, middle)

    return scene.task("planted-fixed", counts, [f"glyph {i}" for i in range(classes)], paint)


@tasks.declare("planted-place", images="made up: one glyph in a quarter, on noise", truth="masks and boxes")
@options_of(scene_and_counts)
def planted_place(**options: Any) -> Task:
    """The same bright glyph in one of the four quarters, which tells the class, or nowhere: class 0 is empty.

    Images of class 0 have no evidence that could be marked, and count as undefined in metrics of known pixels.
    """
    scene, counts = scene_and_counts(**options)
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
    return scene.task("planted-place", counts, places, paint)


@tasks.declare("planted-redundant", images="made up: two glyphs that say the same, on noise", truth="masks and boxes")
@options_of(scene_and_counts)
def planted_redundant(*, classes: Classes = 4, **options: Any) -> Task:
    """Two glyphs, one in each half, and either alone tells the class: what is left of one replaces the other."""
    scene, counts = scene_and_counts(**options)
    left, right = scene.enlarge(glyph_shapes(2 * classes)).split(classes)

    def paint(canvas: Canvas) -> Canvas:
        first = canvas.corners_in("planted left", (0, scene.size // 2))
        second = canvas.corners_in("planted right", (scene.size // 2, scene.size))
        return canvas.planted(left[canvas.labels], first).planted(right[canvas.labels], second)

    return scene.task("planted-redundant", counts, [f"glyphs {i}" for i in range(classes)], paint)


@tasks.declare(
    "planted-distractors", images="made up: a glyph among others as bright, on noise", truth="masks and boxes"
)
@options_of(scene_and_counts)
def planted_distractors(
    *, classes: Classes = 4, distractors: Annotated[int, Field(ge=1, le=8)] = 2, **options: Any
) -> Task:
    """A glyph that tells the class among other glyphs, as bright and as large, that tell nothing.

    The distractors are drawn, for each image and independently of its class, from as many shapes as there are classes.
    """
    scene, counts = scene_and_counts(**options)
    telling, other = scene.enlarge(glyph_shapes(2 * classes)).split(classes)

    def paint(canvas: Canvas) -> Canvas:
        own, *others = places_on_grid(canvas, "planted places", 1 + distractors)
        for number, corners in enumerate(others):
            canvas = canvas.painted(other[canvas.choice(f"planted distractor {number}", classes)], corners)
        return canvas.planted(telling[canvas.labels], own)

    return scene.task("planted-distractors", counts, [f"glyph {i}" for i in range(classes)], paint)
