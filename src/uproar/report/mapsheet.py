"""Maps beside their images: one row per image, one column per estimator, over the picture in grey, as PNG or SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from uproar.errors import BadInput, BadShape
from uproar.report.figures import Figure, PictureRow, Pictures, Tile
from uproar.report.files import require_libraries, write_files

KINDS = ("png", "svg")
SHOWN = 8
"""Images that `show` draws, if nobody says how many."""


@dataclass(frozen=True)
class MapSheet:
    """Images (n, c, h, w) beside their maps (n, h, w), red for and blue against, each scaled alone; a notebook shows
    it as a picture."""

    images: np.ndarray
    maps: Mapping[str, np.ndarray]
    titles: Sequence[str]
    """Beside the images."""
    heading: str = ""
    layers: Mapping[str, str] = field(default_factory=dict)
    """By method, the layers that it looks at, which stand below its name."""

    def save(self, path: str | Path) -> Path:
        """Write the picture to a .png or .svg file; its path."""
        file = Path(path)
        kind = file.suffix.removeprefix(".")
        if kind not in KINDS:
            raise BadInput(f"A picture ends in .png or .svg, not {file.name!r}.")
        return write_files({file.name: self._drawn(kind)}, file.parent) / file.name

    def __repr__(self) -> str:
        return f"<MapSheet of {len(self.images)} images: {', '.join(self.maps)}>"

    def _repr_png_(self) -> bytes:
        return self._drawn("png")

    def _drawn(self, kind: str) -> bytes:
        require_libraries("A picture of maps")
        from uproar.report.drawing import as_bytes, draw, overlaid, scaled_map  # plots load slowly

        rows = []
        for index, title in enumerate(self.titles):
            image = as_bytes(self.images[index])
            tiles = (Tile(overlaid(scaled_map(values[index]), image)) for values in self.maps.values())
            rows.append(PictureRow(title.replace("\n", ", "), tuple(tiles), image))
        named = {name: self.layers.get(name, "") for name in self.maps}
        heads = (f"{name}\n{'layers' if ', ' in at else 'layer'} {at}" if at else name for name, at in named.items())
        return draw(Figure((Pictures(tuple(heads), tuple(rows)),)), kind, self.heading)


def show(
    images: Tensor | np.ndarray,
    maps: Tensor | np.ndarray | Mapping[str, Tensor | np.ndarray],
    titles: Sequence[str] | None = None,
    *,
    limit: int = SHOWN,
) -> MapSheet:
    """Images (n, c, h, w) beside their maps (n, h, w), or several maps by name: a notebook shows them as a picture.

    Red speaks for the class, blue against it, and each map is scaled alone. `titles` stand beside the images, of which
    the first `limit` are drawn; `.save("maps.png")` (or .svg) writes them to a file.

    >>> show(np.zeros((2, 1, 4, 4)), {"grad": np.ones((2, 4, 4))})
    <MapSheet of 2 images: grad>
    """
    pixels = _array(images)[:limit]
    named = maps if isinstance(maps, Mapping) else {"map": maps}
    first = {name: _array(each)[:limit] for name, each in named.items()}
    for name, each in first.items():
        if pixels.ndim != 4 or each.shape != (len(pixels), *pixels.shape[2:]):
            raise BadShape(
                f"Maps {name!r} of shape {each.shape} do not fit images of shape {pixels.shape}: "
                "images are (n, c, h, w), their maps (n, h, w)."
            )
    words = [f"image {index}" for index in range(len(pixels))] if titles is None else list(titles)[: len(pixels)]
    if len(words) < len(pixels):
        raise BadShape(f"There are {len(pixels)} images and {len(words)} titles: give one title per image.")
    return MapSheet(pixels, first, words)


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
