"""The paper's picture and the map gallery as plain data: one test image in many hands."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np

from uproar.report.figures import some, x_label
from uproar.report.formatting import clean, known
from uproar.report.slices import Section
from uproar.report.style import Style
from uproar.report.titles import gallery_title, picture_title
from uproar.results.study import Picture


@dataclass(frozen=True)
class Tile:
    """The image as one estimator and fraction leave it, with the accuracy reached on such images."""

    pixels: np.ndarray | None
    accuracy: float | None
    best: bool
    """Whether no estimator of the column does better."""


@dataclass(frozen=True)
class Panel:
    """Rows are estimators, columns are fractions."""

    name: str
    title: str
    reading: str
    protocol: str
    subject: str
    x_label: str
    image: np.ndarray
    fractions: tuple[float, ...]
    rows: tuple[tuple[str, Style, tuple[Tile, ...]], ...]


@dataclass(frozen=True)
class Gallery:
    """Images and their maps in [-1, 1]; a map that is not there is None."""

    name: str
    title: str
    reading: str
    estimators: tuple[tuple[str, Style], ...]
    rows: tuple[tuple[str, np.ndarray, tuple[np.ndarray | None, ...]], ...]


def panel_figures(section: Section) -> list[Panel]:
    """One panel per picture and protocol, the pictures of a protocol together."""
    there = {p for picture in section.pictures for p, _, _ in picture.changed}
    protocols = [p for p in section.table["protocol"].unique() if p in there]
    return [
        _panel(section, picture, protocol, place)
        for protocol in protocols
        for place, picture in enumerate(section.pictures, 1)
        if any(p == protocol for p, _, _ in picture.changed)
    ]


def _panel(section: Section, picture: Picture, protocol: str, place: int) -> Panel:
    tiles = {(clean(e), t): a for (p, e, t), a in picture.changed.items() if p == protocol}
    names = _ordered(section, [e for e, _ in tiles])
    fractions = sorted({t for _, t in tiles})
    reach = {(e, t): section.accuracy(protocol, e, t) for e in names for t in fractions}
    best = {t: _best([reach[e, t] for e in names], section.higher_is_better[protocol]) for t in fractions}
    rows = tuple(
        (
            e,
            section.looks[e],
            tuple(Tile(tiles.get((e, t)), some(reach[e, t]), reach[e, t] == best[t]) for t in fractions),
        )
        for e in names
    )
    keeps = section.higher_is_better[protocol]
    reading = (
        f"Above each image: test accuracy of networks trained on images changed this way, "
        f"mean over replicates. {'Higher' if keeps else 'Lower'} is better; the best of each column is "
        "bold. The image itself comes from the first replicate."
    )
    stem = protocol.replace(":", "-")
    return Panel(
        f"{stem}-picture-{place}",
        picture_title(section, protocol, fractions),
        reading,
        protocol,
        clean(picture.caption),
        x_label(section, protocol),
        picture.image,
        tuple(fractions),
        rows,
    )


def gallery_figure(section: Section) -> Gallery | None:
    """All maps of all pictures; None when there are none."""
    shown = [p for p in section.pictures if p.maps]
    if not shown:
        return None
    maps = [{clean(e): a for e, a in picture.maps.items()} for picture in shown]
    names = _ordered(section, [e for by_name in maps for e in by_name])
    signed = [e for e in names if any(e in m and float(np.nanmin(m[e])) < 0 for m in maps)]
    reading = (
        "Red: positive, ranked first; white: zero; blue: negative, ranked last. Each map is scaled by "
        "its own largest size, so colours compare the pixels of one map, not one map with another."
    )
    rows = tuple(
        (clean(picture.caption), picture.image, tuple(by_name.get(e) for e in names))
        for picture, by_name in zip(shown, maps, strict=True)
    )
    estimators = tuple((e, section.looks[e]) for e in names)
    return Gallery("maps", gallery_title(signed, len(names)), reading, estimators, rows)


def _ordered(section: Section, names: list[str]) -> list[str]:
    """Best first as elsewhere; those without a number yet follow in the order of the study."""
    there = set(names)
    order = dict.fromkeys([*section.estimators, *section.looks])
    return [e for e in order if e in there]


def _best(values: list[float], highest: bool) -> float:
    real = [v for v in values if known(v)]
    return (max(real) if highest else min(real)) if real else float("nan")


def as_colours(pixels: np.ndarray | None) -> np.ndarray | None:
    """Bytes as (h, w, 3), whatever the image was; None stays None."""
    if pixels is None:
        return None
    pixels = np.asarray(pixels, dtype=np.uint8)
    return np.repeat(pixels[:, :, None], 3, 2) if pixels.ndim == 2 else pixels


def map_colours(values: np.ndarray) -> np.ndarray:
    """A map in [-1, 1] as (h, w, 3) bytes: blue below zero, white at zero, red above, grey for NaN."""
    values = np.asarray(values, dtype=float)
    shades = mpl.colormaps["RdBu_r"]((np.clip(np.nan_to_num(values), -1, 1) + 1) / 2, bytes=True)
    colours = np.array(shades)[..., :3]
    colours[~np.isfinite(values)] = 128
    return colours
