"""The paper's picture and the map gallery on paper: one mosaic of pixels with words around it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes

from uproar.report.formatting import percent, shortened
from uproar.report.pictures import Gallery, Panel, as_colours, map_colours
from uproar.report.print_layout import Sheet, room, sheet

SIDE, GAP, ABOVE = 0.8, 0.08, 0.2
"""A tile, the space beside it and the room for words above it, in inches."""
FINEST = 96
"""Pixels along a tile, at least: small images are enlarged by a whole number, so that pixels stay square."""


def draw_panel(figure: Panel) -> Sheet:
    """Rows of estimators, columns of fractions, the accuracy above each tile."""
    names = room([name for name, _, _ in figure.rows], 2.0)
    original = as_colours(figure.image)
    grid = [[original, *(as_colours(t.pixels) for t in tiles)] for _, _, tiles in figure.rows]
    step, pitch = SIDE + GAP + ABOVE, SIDE + GAP
    tall, wide = step * len(grid), pitch * (len(figure.fractions) + 1)
    made = sheet(figure.title, names + wide + 0.1, tall + 0.55)
    paper = made.paper(names, 0.5, wide, tall)
    mosaic(paper, grid, ABOVE, step)
    for row, (name, _, tiles) in enumerate(figure.rows):
        y = row * step + ABOVE
        paper.text(-0.08, y + SIDE / 2, shortened(name, 24), ha="right", va="center", fontsize=8.5)
        for column, tile in enumerate(tiles, 1):
            weight = "bold" if tile.best else "normal"
            paper.text(
                column * pitch + SIDE / 2,
                y - 0.04,
                percent(tile.accuracy),
                ha="center",
                va="bottom",
                fontsize=7.5,
                fontweight=weight,
            )
    for column, words in enumerate(["original", *(percent(t, 0) for t in figure.fractions)]):
        paper.text(column * pitch + SIDE / 2, tall, words, ha="center", va="top", fontsize=8.5)
    made.text(names + wide / 2, 0.1, f"{figure.subject}; {figure.x_label}", ha="center", fontsize=8.5)
    return made


def draw_gallery(figure: Gallery) -> Sheet:
    """Rows of images, columns of estimators; white is zero."""
    heads = [wrap(shortened(name, 30), 15) for name in ("image", *(e for e, _ in figure.estimators))]
    head = 0.13 * max(map(len, heads)) + 0.06
    pitch = SIDE + GAP
    wide, tall = pitch * len(heads), pitch * len(figure.rows)
    made = sheet(figure.title, max(wide + 0.2, 4.5), tall + head + 0.1)
    paper = made.paper(0.1, 0.05, wide, tall + head)
    for column, lines in enumerate(heads):
        paper.text(
            column * pitch + SIDE / 2,
            head - 0.05,
            "\n".join(lines),
            ha="center",
            va="bottom",
            fontsize=7,
            linespacing=1.0,
        )
    grid = [
        [as_colours(image), *(None if a is None else map_colours(a) for a in maps)] for _, image, maps in figure.rows
    ]
    mosaic(paper, grid, head, pitch)
    return made


def mosaic(paper: Axes, grid: Sequence[Sequence[np.ndarray | None]], top: float, step: float) -> None:
    """All tiles as one image: a figure with one image is drawn many times faster than with sixty."""
    pitch, density = SIDE + GAP, _density(grid)
    size = (round(len(grid) * step * density), round(len(grid[0]) * pitch * density), 3)
    pixels = np.full(size, 255, dtype=np.uint8)
    for row, tiles in enumerate(grid):
        for column, tile in enumerate(tiles):
            if tile is not None:
                shown = _enlarged(tile, round(SIDE * density))
                y, x = round(row * step * density), round(column * pitch * density)
                pixels[y : y + len(shown), x : x + shown.shape[1]] = shown
    right, bottom = size[1] / density, top + size[0] / density
    paper.imshow(pixels, extent=(0, right, bottom, top), interpolation="none", aspect="auto", clip_on=False)


def _density(grid: Sequence[Sequence[np.ndarray | None]]) -> float:
    """Pixels per inch of the mosaic."""
    largest = max((max(t.shape[:2]) for tiles in grid for t in tiles if t is not None), default=1)
    return largest * -(-FINEST // largest) / SIDE


def _enlarged(tile: np.ndarray, side: int) -> np.ndarray:
    """A tile whose longer side has so many pixels, each a crisp square, in a thin grey frame."""
    height, width = tile.shape[:2]
    scale = side / max(height, width)
    rows = np.minimum((np.arange(round(height * scale)) / scale).astype(int), height - 1)
    columns = np.minimum((np.arange(round(width * scale)) / scale).astype(int), width - 1)
    shown = tile[rows][:, columns].copy()
    shown[[0, -1]] = 200
    shown[:, [0, -1]] = 200
    return shown
