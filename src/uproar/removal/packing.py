"""One image's levels as few bytes: as many levels to a byte as fit, then deflated.

Six levels go three to a byte, which is a ninth less than three bits each, and leaves bytes whose repetitions deflate
finds. On maps of photographs this is smaller and faster to read than deflating bits or single levels (docs/scale.md).
The checksum in each piece tells when it is not what was written.
"""

from __future__ import annotations

import functools
import zlib

import numpy as np

from uproar.errors import Damaged


def pack_levels(levels: np.ndarray, kinds: int) -> bytes:
    """Levels 0..kinds-1 of one image, (f,) bytes, as few bytes."""
    places = _places(kinds)
    padded = np.pad(levels, (0, -len(levels) % len(places)))
    words = (padded.reshape(-1, len(places)) * places).sum(1, dtype=np.uint8)
    return zlib.compress(words.tobytes(), 6)


def unpack_levels(content: bytes, kinds: int, features: int) -> np.ndarray:
    """The levels of one image again, (f,) bytes; `Damaged` if the bytes are not what was written."""
    try:
        words = np.frombuffer(zlib.decompress(content), np.uint8)
    except zlib.error as error:
        raise Damaged(f"the levels of an image cannot be read ({error})") from None
    levels = _digits(kinds)[words].reshape(-1)
    if not 0 <= len(levels) - features < len(_places(kinds)):
        raise Damaged(f"an image has {features} levels, but {len(levels)} were kept")
    return levels[:features]


@functools.lru_cache
def _places(kinds: int) -> np.ndarray:
    """What a digit in each place of a byte counts.

    >>> [len(_places(kinds)) for kinds in (2, 3, 4, 6, 7, 16, 17)]
    [8, 5, 4, 3, 2, 2, 1]
    """
    count = max(k for k in range(1, 9) if max(2, kinds) ** k <= 256)
    return np.array([max(2, kinds) ** k for k in range(count)], np.uint8)


@functools.lru_cache
def _digits(kinds: int) -> np.ndarray:
    """The levels in every possible byte, (256, levels per byte)."""
    words = np.arange(256)[:, None]
    return (words // _places(kinds) % max(2, kinds)).astype(np.uint8)
