"""Arrays as text that a script hands to the page: columns of numbers as bytes, pictures as sheets in PNG.

Every file of data is a script, `received(name, content)`: a browser loads scripts from any server and from a folder on
disk alike, where it would refuse to fetch.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
from PIL import Image

NONE = 65535
"""In columns of two bytes: no number."""
THUMBNAIL = 48
"""Longest side of a picture in a list."""


def script(name: str, content: Any) -> bytes:
    """A file of data: a call that hands the content to the page. Numbers that are none become null."""
    text = json.dumps(_plain(content), allow_nan=False, separators=(",", ":"))
    return f"received({json.dumps(name)}, {text});\n".encode()


def _plain(content: Any) -> Any:
    """Content as JSON has it: NaN and infinity are null."""
    if isinstance(content, dict):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    return None if isinstance(content, float) and not np.isfinite(content) else content


def column(values: np.ndarray) -> dict[str, Any]:
    """Numbers as little-endian bytes, with their type and shape."""
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return {"type": values.dtype.name, "shape": list(values.shape), "bytes": _text(little.tobytes())}


def bits_column(bits: np.ndarray) -> dict[str, Any]:
    """Bits in thousandths, two bytes each; `NONE` for what is not a number."""
    finite = np.isfinite(bits)
    return column(
        np.where(finite, np.clip(np.round(1000 * np.where(finite, bits, 0)), 0, NONE - 1), NONE).astype(np.uint16)
    )


def sheet(pictures: np.ndarray) -> dict[str, Any]:
    """Pictures of bytes (n, h, w, 1 or 3) below each other in one PNG."""
    n, high, wide, channels = pictures.shape
    tall = np.ascontiguousarray(pictures).reshape(n * high, wide, channels)
    image = Image.fromarray(tall[..., 0] if channels == 1 else tall)
    content = io.BytesIO()
    image.save(content, "png", compress_level=6)
    return {"width": wide, "height": high, "count": n, "channels": channels, "png": _text(content.getvalue())}


def signed_bytes(maps: np.ndarray) -> np.ndarray:
    """Maps in [-1, 1] as bytes, (n, h, w, 1): 1 to 255 with 128 for zero, 0 for what is not a number."""
    finite = np.isfinite(maps)
    shifted = 128 + np.round(127 * np.clip(np.where(finite, maps, 0), -1, 1))
    return np.where(finite, shifted, 0).astype(np.uint8)[..., None]


def shrunk(pictures: np.ndarray) -> np.ndarray:
    """Pictures no larger than those in a list."""
    _, high, wide, channels = pictures.shape
    share = THUMBNAIL / max(high, wide)
    size = max(1, round(share * wide)), max(1, round(share * high))
    small = [Image.fromarray(one[..., 0] if channels == 1 else one).resize(size) for one in pictures]
    return np.stack([np.asarray(one).reshape(size[1], size[0], channels) for one in small])


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
