"""Maps beside their images: one row per image, one column per estimator, as PNG, SVG or a page."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from uproar.errors import BadInput, StoreError
from uproar.report.figures import Figure, PictureRow, Pictures, Tile, layer_notes
from uproar.report.images import as_bytes, map_colours, scaled_map
from uproar.report.printing import draw
from uproar.results.quality import NetworkQuality
from uproar.storage.backends import write_file

ENDINGS = (".png", ".svg", ".html")


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
        raise BadInput(f"A picture ends in {', '.join(ENDINGS)}, not {file.name!r}.")
    head = [] if quality is None else [quality.sentence, *([quality.warning] if quality.warning else [])]
    as_page = file.suffix == ".html"
    kind = "png" if as_page else file.suffix.removeprefix(".")
    rows = tuple(
        PictureRow(
            title.replace("\n", ", "),
            tuple(Tile(map_colours(scaled_map(own[place]))) for own in maps.values()),
            image=as_bytes(images[place]),
        )
        for place, title in enumerate(titles)
    )
    plot = Pictures(tuple(maps), rows, notes=layer_notes(maps, layers or {}))
    figure = Figure((plot,), 1, "maps", "" if as_page else " ".join(head))
    content = draw(figure, kinds=(kind,)).files[f"maps.{kind}"]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, _page(content, maps, head) if as_page else content)
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    return file


def _page(png: bytes, maps: Mapping[str, np.ndarray], head: Sequence[str]) -> bytes:
    picture = base64.b64encode(png).decode()
    names = html.escape(", ".join(maps))
    above = "".join(f"<p>{html.escape(text)}</p>" for text in head)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Maps</title>"
        "<body style='font-family:system-ui;margin:2rem'>"
        f"<h1>Maps: {names}</h1>{above}"
        "<p>Red speaks for the class, blue against it; each map is scaled alone.</p>"
        f"<img style='max-width:100%' alt='{names}' src='data:image/png;base64,{picture}'>"
        "</body></html>"
    ).encode()
