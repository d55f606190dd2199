"""A sheet of maps: one row per image, one column per estimator, as PNG, SVG or a page."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.figure import Figure

from uproar.errors import BadInput, StoreError
from uproar.results.quality import NetworkQuality
from uproar.storage.backends import write_file

ENDINGS = (".png", ".svg", ".html")


def write_map_sheet(
    path: str | Path,
    images: np.ndarray,
    maps: Mapping[str, np.ndarray],
    titles: Sequence[str],
    quality: NetworkQuality | None = None,
) -> Path:
    """The images (n, c, h, w) beside their maps (n, h, w), red for and blue against, each scaled alone.

    `titles` stand beside the images; how good the network is stands above them.
    """
    file = Path(path)
    if file.suffix not in ENDINGS:
        raise BadInput(f"A picture ends in {', '.join(ENDINGS)}, not {file.name!r}.")
    head = [] if quality is None else [quality.sentence, *([quality.warning] if quality.warning else [])]
    as_page = file.suffix == ".html"
    figure = _drawn(images, maps, titles, [] if as_page else head)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, _page(figure, maps, head) if as_page else _saved(figure, file.suffix))
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    return file


def _drawn(images: np.ndarray, maps: Mapping[str, np.ndarray], titles: Sequence[str], head: Sequence[str]) -> Figure:
    rows, columns = len(images), len(maps) + 1
    wide = max(1.5 * columns, 4.0)
    lines = [line for words in head for line in wrap(words, int(wide * 15))]
    figure = Figure(figsize=(wide, 1.5 * rows + 0.5 + 0.16 * len(lines)), layout="constrained")
    if lines:
        figure.suptitle("\n".join(lines), x=0.02, ha="left", fontsize=8, parse_math=False)
    axes = figure.subplots(rows, columns, squeeze=False)
    for row, title in enumerate(titles):
        pixels = images[row].transpose(1, 2, 0).clip(0, 1)
        grey = pixels.shape[2] != 3
        axes[row][0].imshow(pixels.mean(2) if grey else pixels, cmap="gray", vmin=0, vmax=1)
        words = "\n".join(line for part in title.split("\n") for line in wrap(part, 24))
        axes[row][0].set_ylabel(words, fontsize=8, parse_math=False)
        for column, (name, a) in enumerate(maps.items(), 1):
            top = float(np.abs(a[row]).max()) or 1.0
            axes[row][column].imshow(a[row], cmap="RdBu_r", vmin=-top, vmax=top)
            if row == 0:
                axes[row][column].set_title(name, fontsize=8, parse_math=False)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    return figure


def _saved(figure: Figure, ending: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending.removeprefix("."), dpi=150)
    return buffer.getvalue()


def _page(figure: Figure, maps: Mapping[str, np.ndarray], head: Sequence[str]) -> bytes:
    picture = base64.b64encode(_saved(figure, ".png")).decode()
    names = html.escape(", ".join(maps))
    above = "".join(f"<p>{html.escape(words)}</p>" for words in head)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Maps</title>"
        "<body style='font-family:system-ui;margin:2rem'>"
        f"<h1>Maps: {names}</h1>{above}"
        "<p>Red speaks for the class, blue against it; each map is scaled alone.</p>"
        f"<img style='max-width:100%' alt='{names}' src='data:image/png;base64,{picture}'>"
        "</body></html>"
    ).encode()
