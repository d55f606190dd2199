"""Made-up tasks about what surrounds the evidence: a texture among dots, a background that goes with the class."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.planted import glyph_shapes
from uproar.data.registry import tasks
from uproar.data.scenes import Canvas, scene_and_counts
from uproar.data.task import Task
from uproar.registry import options_of

_PATCH = 8
"""Cells of the side of a textured patch."""
TEXTURES = ("rows", "columns", "squares", "diagonals")


def textures() -> Tensor:
    """Four patterns of 8×8 cells, half of them bright, (4, 8, 8) bool; stripes and squares are two cells wide."""
    row, column = torch.arange(_PATCH)[:, None], torch.arange(_PATCH)[None, :]
    rows, columns = row // 2 % 2 + 0 * column, column // 2 % 2 + 0 * row
    return torch.stack([rows, columns, rows ^ columns, (row + column) // 2 % 2]).bool()


@tasks.declare("planted-texture", images="made up: a textured patch among random dots", truth="masks and boxes")
@options_of(scene_and_counts, train=2048)
def planted_texture(**options: Any) -> Task:
    """Bright dots everywhere, half of all cells; in a patch of 8×8 cells they form the texture that tells the class.

    No brightness tells anything, only how the dots of the patch lie; the patch moves.
    """
    scene, counts = scene_and_counts(**options)
    patterns = scene.enlarge(textures())
    patch = _PATCH * scene.cell

    def paint(canvas: Canvas) -> Canvas:
        cells = -(-scene.size // scene.cell)
        dots = scene.enlarge(canvas.draws.uniform("planted dots", cells, cells) < 0.5)[:, : scene.size, : scene.size]
        corners = (canvas.draws.uniform("planted patch", 2) * (scene.size - patch + 1)).long()
        square = torch.ones(len(canvas), patch, patch, dtype=torch.bool)
        canvas = canvas.marked(square, corners)
        canvas = replace(canvas, bright=dots & ~canvas.evidence)
        return canvas.painted(patterns[canvas.labels], corners)

    return scene.task("planted-texture", counts, TEXTURES, paint)


@tasks.declare("planted-background", images="made up: a glyph on noise of some brightness", truth="masks and boxes")
@options_of(scene_and_counts)
def planted_background(
    *,
    classes: Annotated[int, Field(ge=2, le=8)] = 4,
    correlation: Annotated[float, Field(ge=0, le=1)] = 0.9,
    **options: Any,
) -> Task:
    """A moving glyph tells the class; in training the brightness around it does too, in a share of the images.

    With probability `correlation` the background of a training image has the brightness of its class, else that of a
    random one; of a test image always that of a random one. The glyph is the only evidence that holds in both.
    """
    scene, counts = scene_and_counts(**options)
    glyphs = scene.enlarge(glyph_shapes(classes))

    def paint(canvas: Canvas) -> Canvas:
        share = correlation if canvas.name == "train" else 0.0
        follows = canvas.draws.uniform("planted follows") < share
        level = torch.where(follows, canvas.labels, canvas.choice("planted level", classes))
        # the range of the noise is divided among the classes: brighter for later ones
        low = scene.noise * level / classes
        shaded = low[:, None, None, None] + canvas.noise / classes
        return replace(canvas, noise=shaded).planted(glyphs[canvas.labels], canvas.corners_in("planted corner"))

    return scene.task("planted-background", counts, [f"glyph {i}" for i in range(classes)], paint)
