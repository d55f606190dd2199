"""A sheet of maps: one row per image, one column per estimator, as PNG, SVG or a page."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from uproar.errors import BadInput, StoreError
from uproar.place import write_file

ENDINGS = (".png", ".svg", ".html")


def write_map_sheet(
    path: str | Path, images: np.ndarray, maps: Mapping[str, np.ndarray], titles: Sequence[str]
) -> Path:
    """The images (n, c, h, w) beside their maps (n, h, w), red for and blue against, each scaled alone."""
    file = Path(path)
    if file.suffix not in ENDINGS:
        raise BadInput(f"A picture ends in {', '.join(ENDINGS)}, not {file.name!r}.")
    figure = _drawn(images, maps, titles)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        as_page = file.suffix == ".html"
        write_file(file, _page(figure, maps) if as_page else _saved(figure, file.suffix))
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    return file


def _drawn(images: np.ndarray, maps: Mapping[str, np.ndarray], titles: Sequence[str]) -> Figure:
    rows, columns = len(images), len(maps) + 1
    figure = Figure(figsize=(1.5 * columns, 1.5 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for row, title in enumerate(titles):
        pixels = images[row].transpose(1, 2, 0).clip(0, 1)
        grey = pixels.shape[2] != 3
        axes[row][0].imshow(pixels.mean(2) if grey else pixels, cmap="gray", vmin=0, vmax=1)
        axes[row][0].set_ylabel(title)
        for column, (name, a) in enumerate(maps.items(), 1):
            top = float(np.abs(a[row]).max()) or 1.0
            axes[row][column].imshow(a[row], cmap="RdBu_r", vmin=-top, vmax=top)
            if row == 0:
                axes[row][column].set_title(name, fontsize=8)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    return figure


def _saved(figure: Figure, ending: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending.removeprefix("."), dpi=150)
    return buffer.getvalue()


def _page(figure: Figure, maps: Mapping[str, np.ndarray]) -> bytes:
    picture = base64.b64encode(_saved(figure, ".png")).decode()
    names = html.escape(", ".join(maps))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Maps</title>"
        "<body style='font-family:system-ui;margin:2rem'>"
        f"<h1>Maps: {names}</h1>"
        "<p>Red speaks for the class, blue against it; each map is scaled alone.</p>"
        f"<img style='max-width:100%' alt='{names}' src='data:image/png;base64,{picture}'>"
        "</body></html>"
    ).encode()
