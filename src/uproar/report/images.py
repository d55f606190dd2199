"""Images and maps as bytes: the colours of a map, and what a page shows."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

LARGEST = 112
"""Longest side of a picture on the page; small images are kept pixel for pixel."""


def map_colours(values: np.ndarray) -> np.ndarray:
    """A map in [-1, 1] as (h, w, 3) bytes: blue below zero, white at zero, red above, grey for NaN."""
    import matplotlib as mpl  # tables are made without it

    values = np.asarray(values, dtype=float)
    shades = mpl.colormaps["RdBu_r"]((np.clip(np.nan_to_num(values), -1, 1) + 1) / 2, bytes=True)
    colours = np.array(shades)[..., :3]
    colours[~np.isfinite(values)] = 128
    return colours


def scaled_map(values: np.ndarray) -> np.ndarray:
    """A map divided by its own largest size."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return np.asarray(values / largest if largest > 0 else values)


def as_colours(pixels: np.ndarray | None) -> np.ndarray | None:
    """Bytes as (h, w, 3), whatever the image was; None stays None."""
    if pixels is None:
        return None
    pixels = np.asarray(pixels, dtype=np.uint8)
    return np.repeat(pixels[:, :, None], 3, 2) if pixels.ndim == 2 else pixels


def as_bytes(image: np.ndarray) -> np.ndarray:
    """An image (c, h, w) in [0, 1] as bytes: (h, w, 3) for three channels, else (h, w)."""
    pixels = np.clip(np.nan_to_num(np.asarray(image, dtype=float)), 0, 1)
    shown = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels.mean(0)
    return np.asarray(np.round(255 * shown), dtype=np.uint8)


def data_address(pixels: np.ndarray) -> str:
    """Bytes (h, w) or (h, w, 3) as an address that holds them; large ones are shrunk, since hundreds are shown."""
    image = Image.fromarray(np.ascontiguousarray(pixels, dtype=np.uint8))
    content, kind = io.BytesIO(), "png"
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST))
        kind = "jpeg"
    image.save(content, kind, **({"quality": 88} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
