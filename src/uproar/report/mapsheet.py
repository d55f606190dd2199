"""Maps beside their images: one row per image, one column per estimator, over the picture in grey, as PNG or SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from uproar.errors import BadInput, BadShape, StoreError
from uproar.paths import write_file
from uproar.report.figures import Figure, PictureRow, Pictures, Tile, layer_notes
from uproar.report.files import require_libraries
from uproar.results.quality import NetworkQuality

ENDINGS = (".png", ".svg")
SHOWN = 8
"""Images that `show` draws, if nobody says how many."""


def write_map_sheet(
    path: str | Path,
    images: np.ndarray,
    maps: Mapping[str, np.ndarray],
    titles: Sequence[str],
    quality: NetworkQuality | None = None,
    layers: Mapping[str, str] | None = None,
) -> Path:
    """The images (n, c, h, w) beside their maps (n, h, w), red for and blue against, each scaled alone.

    `titles` stand beside the images, how good the network is above them, and the layers that methods look at, by
    method, below their names.
    """
    file = Path(path)
    if file.suffix not in ENDINGS:
        raise BadInput(f"A picture ends in {' or '.join(ENDINGS)}, not {file.name!r}.")
    head = [] if quality is None else [quality.sentence, *([quality.warning] if quality.warning else [])]
    content = _drawn(images, maps, titles, file.suffix.removeprefix("."), " ".join(head), layers)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, content)
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    return file


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
    own = {name: _array(each)[:limit] for name, each in named.items()}
    for name, each in own.items():
        if pixels.ndim != 4 or each.shape != (len(pixels), *pixels.shape[2:]):
            raise BadShape(
                f"Maps {name!r} of shape {each.shape} do not fit images of shape {pixels.shape}: "
                "images are (n, c, h, w), their maps (n, h, w)."
            )
    words = [f"image {place}" for place in range(len(pixels))] if titles is None else list(titles)[: len(pixels)]
    if len(words) < len(pixels):
        raise BadShape(f"There are {len(pixels)} images and {len(words)} titles: give one title per image.")
    return MapSheet(pixels, own, tuple(words))


@dataclass(frozen=True)
class MapSheet:
    """Images beside their maps; a notebook shows it as a picture."""

    images: np.ndarray
    maps: Mapping[str, np.ndarray]
    titles: tuple[str, ...]

    def save(self, path: str | Path) -> Path:
        """Write the picture to a .png or .svg file; its path."""
        return write_map_sheet(path, self.images, self.maps, self.titles)

    def __repr__(self) -> str:
        return f"<MapSheet of {len(self.images)} images: {', '.join(self.maps)}>"

    def _repr_png_(self) -> bytes:
        return _drawn(self.images, self.maps, self.titles)


def _array(values: Tensor | np.ndarray) -> np.ndarray:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def _drawn(
    images: np.ndarray,
    maps: Mapping[str, np.ndarray],
    titles: Sequence[str],
    kind: str = "png",
    head: str = "",
    layers: Mapping[str, str] | None = None,
) -> bytes:
    require_libraries("A picture of maps")
    from uproar.report.drawing import as_bytes, draw, overlaid, scaled_map  # plots load slowly

    rows = tuple(
        PictureRow(
            title.replace("\n", ", "),
            tuple(Tile(overlaid(scaled_map(own[place]), as_bytes(images[place]))) for own in maps.values()),
            image=as_bytes(images[place]),
        )
        for place, title in enumerate(titles)
    )
    plot = Pictures(tuple(maps), rows, notes=layer_notes(maps, layers or {}))
    return draw(Figure((plot,), 1, "maps"), kind, head)
