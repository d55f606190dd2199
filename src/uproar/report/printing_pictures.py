"""Images in rows and columns on a canvas: one mosaic of pixels with words around it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes

from uproar.report.canvas import Canvas, canvas, label_width
from uproar.report.figures import Figure, Pictures
from uproar.report.formatting import shortened
from uproar.report.images import as_colours

SIDE, GAP = 0.8, 0.08
"""A tile and the space beside it, in inches."""
FINEST = 96
"""Pixels along a tile, at least: small images are enlarged by a whole number, so that pixels stay square."""


def draw_pictures(figure: Figure) -> Canvas:
    """Names at the left, heads on top, the image itself in the first column, what is said of a tile above it."""
    (plot,) = (plot for plot in figure.plots if isinstance(plot, Pictures))
    heads = [wrap(shortened(name, 30), 15) for name in ("image", *plot.heads)]
    notes = ["", *(plot.notes or [""] * len(plot.heads))]
    heads = [head + wrap(shortened(note, 40), 17) for head, note in zip(heads, notes, strict=True)]
    top = 0.13 * max(map(len, heads)) + 0.1
    above = 0.2 if any(tile.words for row in plot.rows for tile in row.tiles) else 0.0
    names = max(label_width([row.label for row in plot.rows], 1.8), 0.3)
    pitch, step = SIDE + GAP, SIDE + GAP + above
    wide, tall = pitch * len(heads), step * len(plot.rows)
    foot = 0.35 if plot.subject else 0.1
    made = canvas(figure.title, max(names + wide + 0.1, 5.0), top + tall + foot)
    axes = made.inch_axes(names, foot, wide, top + tall)
    for column, lines in enumerate(heads):
        place = (column * pitch + SIDE / 2, top - 0.05)
        axes.text(*place, "\n".join(lines), ha="center", va="bottom", fontsize=7, linespacing=1.0)
    first = [plot.image if row.image is None else row.image for row in plot.rows]
    grid = [[as_colours(a), *(as_colours(t.pixels) for t in r.tiles)] for a, r in zip(first, plot.rows, strict=True)]
    _mosaic(axes, grid, top + above, step)
    for row, one in enumerate(plot.rows):
        y = top + row * step + above
        label = "\n".join(wrap(shortened(one.label, 60), 22))
        axes.text(-0.08, y + SIDE / 2, label, ha="right", va="center", fontsize=8)
        for column, tile in enumerate(one.tiles, 1):
            weight = "bold" if tile.best else "normal"
            x = column * pitch + SIDE / 2
            axes.text(x, y - 0.03, tile.words, ha="center", va="bottom", fontsize=7.5, fontweight=weight)
    caption = "; ".join(part for part in (plot.subject, plot.x_label) if part)
    made.text(names + wide / 2, 0.1, caption, ha="center", fontsize=8.5)
    return made


def _mosaic(axes: Axes, grid: Sequence[Sequence[np.ndarray | None]], top: float, step: float) -> None:
    """All tiles as one image: a figure with one image is drawn many times faster than with sixty."""
    pitch, density = SIDE + GAP, _density(grid)
    size = (round(len(grid) * step * density), round(len(grid[0]) * pitch * density), 4)
    pixels = np.zeros(size, dtype=np.uint8)
    for row, tiles in enumerate(grid):
        for column, tile in enumerate(tiles):
            if tile is not None:
                enlarged = _enlarged(tile, round(SIDE * density))
                y, x = round(row * step * density), round(column * pitch * density)
                pixels[y : y + len(enlarged), x : x + enlarged.shape[1], :3] = enlarged
                pixels[y : y + len(enlarged), x : x + enlarged.shape[1], 3] = 255
    right, bottom = size[1] / density, top + size[0] / density
    axes.imshow(pixels, extent=(0, right, bottom, top), interpolation="none", aspect="auto", clip_on=False)


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
    enlarged = np.array(tile[rows][:, columns])
    enlarged[[0, -1]] = 200
    enlarged[:, [0, -1]] = 200
    return enlarged
