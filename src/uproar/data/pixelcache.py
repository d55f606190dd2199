"""Decoded pixels on disk: decoding a photo costs forty times as much as reading its bytes.

One file per set of pictures, one record of fixed length per picture: its bytes, then a mark and a checksum. A record
is written by a single call and believed only if its checksum fits, so that any number of processes may read and write
the same file at once without a lock, and a run killed at any moment loses nothing but the record under way. The
file is sparse: it grows as pictures are read.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import zlib
from pathlib import Path

import numpy as np

from uproar.data.locations import platform_cache
from uproar.paths import user_path

VARIABLE = "UPROAR_CACHE"
"""The environment variable that names the cache folder, or switches it off (`off`)."""

_MARK = b"px01"


def cache_folder() -> Path | None:
    """Where things that can be made again are kept; None if that is switched off.

    `UPROAR_CACHE`, or the platform's folder for such things.
    """
    given = os.environ.get(VARIABLE, "").strip()
    if given.lower() in ("off", "no", "0", "none"):
        return None
    return user_path(given) if given else platform_cache()


class PixelCache:
    """The decoded pictures of one set; without a path nothing is kept."""

    def __init__(self, path: Path | None, shape: tuple[int, int, int]) -> None:
        self.path, self.shape = path, shape
        self._bytes = int(np.prod(shape))
        self._handle: int | None = None
        self._opening = threading.Lock()

    def get(self, row: int) -> np.ndarray | None:
        """The pixels of a picture, if they are there and sound."""
        handle = self._open()
        if handle is None:
            return None
        length = self._bytes + 8
        try:
            record = os.pread(handle, length, row * length)
        except OSError:
            return None
        pixels, tail = record[: self._bytes], record[self._bytes :]
        if tail[:4] != _MARK or tail[4:] != _checksum(pixels):
            return None
        return np.frombuffer(pixels, np.uint8).reshape(self.shape)

    def put(self, row: int, pixels: np.ndarray) -> None:
        """Keep the pixels of a picture; if that cannot be done, say so once and go on without."""
        handle = self._open()
        if handle is None:
            return
        content = pixels.tobytes()
        record = content + _MARK + _checksum(content)
        try:
            if os.pwrite(handle, record, row * len(record)) < len(record):
                raise OSError(28, "No space left on device")
        except OSError as error:
            self._give_up(error)

    def _open(self) -> int | None:
        with self._opening:
            if self._handle is None and self.path is not None:
                try:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
                except OSError as error:
                    self._give_up(error)
            return self._handle

    def _give_up(self, error: OSError) -> None:
        warnings.warn(
            f"Decoded pictures can no longer be kept in {self.path} ({error.strerror or error}): they are decoded "
            f"each time they are needed. Make room, or name another folder with {VARIABLE}.",
            stacklevel=2,
        )
        self.close()
        self.path = None

    def close(self) -> None:
        """Give the file back."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")
