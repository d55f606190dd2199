"""Images that are read when they are asked for, not held: what lets a data set be larger than memory."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from uproar.batches import spans
from uproar.data.cropping import CentreCrop
from uproar.data.pixelcache import PixelCache, cache_folder
from uproar.errors import BadInput
from uproar.storage.backends import write_file

Rows = slice | Tensor | Sequence[int]


class Source(abc.ABC):
    """The images of a split, of one shape, read row by row. To make one, say `shape`, `read` and `digest`.

    Reading the same row gives the same pixels, in any process, order and company.
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int, int]:
        """(n, c, h, w)."""

    @abc.abstractmethod
    def read(self, rows: Tensor) -> Tensor:
        """The images of some rows (int64, each in 0..n-1, in any order, also repeated): bytes, or floats in [0, 1]."""

    @abc.abstractmethod
    def digest(self) -> str:
        """What tells these images from any others, found without decoding them."""

    def take(self, rows: Tensor) -> Source:
        """Some of the images as a source of their own."""
        return Subset(self, rows)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows) -> Tensor:
        return self.read(row_numbers(rows, len(self)))


def row_numbers(rows: Rows, n: int) -> Tensor:
    """The rows that an index of 0..n-1 means, as int64.

    >>> row_numbers(slice(1, None), 4), row_numbers([-1], 4)
    (tensor([1, 2, 3]), tensor([3]))
    """
    if isinstance(rows, slice):
        return torch.arange(*rows.indices(n))
    numbers = torch.as_tensor(rows)
    if numbers.dtype == torch.bool:
        return numbers.nonzero()[:, 0]
    numbers = numbers.long().reshape(-1)
    numbers = torch.where(numbers < 0, numbers + n, numbers)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < n:
        raise IndexError(f"rows run from 0 to {n - 1}")
    return numbers


class Subset(Source):
    """Some rows of another source."""

    def __init__(self, source: Source, rows: Tensor) -> None:
        self.source, self.rows = source, row_numbers(rows, len(source))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (len(self.rows), *self.source.shape[1:])

    def read(self, rows: Tensor) -> Tensor:
        return self.source.read(self.rows[rows])

    def digest(self) -> str:
        total = hashlib.sha256(self.source.digest().encode())
        total.update(self.rows.numpy().tobytes())
        return total.hexdigest()[:40]


class Pictures(Source):
    """Picture files, decoded by a few threads when they are read, and kept as bytes in the cache folder.

    What tells a set from another is what its files hold, in order, and the crop: not where the files are.
    """

    def __init__(
        self,
        paths: Iterable[str | Path],
        size: int,
        *,
        shorter: int = 0,
        threads: int | None = None,
        cache: bool = True,
    ) -> None:
        self.paths = tuple(os.fspath(path) for path in paths)
        if not self.paths:
            raise BadInput("There are no pictures: give at least one.")
        self.crop = CentreCrop(size, shorter)
        self.threads = threads or min(4, os.cpu_count() or 1)
        self.cache = cache
        self._pixels: PixelCache | None = None
        self._stamp = ""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.paths), 3, self.crop.size, self.crop.size

    def take(self, rows: Tensor) -> Pictures:
        """Some of the pictures."""
        chosen = [self.paths[i] for i in row_numbers(rows, len(self)).tolist()]
        return Pictures(chosen, self.crop.size, shorter=self.crop.shorter, threads=self.threads, cache=self.cache)

    def read(self, rows: Tensor) -> Tensor:
        wanted = rows.tolist()
        pixels = np.empty((len(wanted), *self.shape[1:]), np.uint8)

        def fetch(place: int) -> None:
            pixels[place] = self._picture(wanted[place])

        if len(wanted) == 1 or self.threads == 1:
            for place in range(len(wanted)):
                fetch(place)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(fetch, range(len(wanted))))
        return torch.from_numpy(pixels)

    def _picture(self, row: int) -> np.ndarray:
        cache = self._cache()
        pixels = cache.get(row)
        if pixels is None:
            pixels = self.crop.picture(Path(self.paths[row]))
            cache.put(row, pixels)
        return pixels

    def _cache(self) -> PixelCache:
        if self._pixels is None:
            folder = cache_folder() if self.cache else None
            path = folder / "pictures" / f"{self.stamp()}.pixels" if folder is not None else None
            self._pixels = PixelCache(path, self.shape[1:])
        return self._pixels

    def stamp(self) -> str:
        """What tells these files from others without opening them: places, sizes, times of change, crop."""
        if not self._stamp:
            total = hashlib.sha256(self.crop.key.encode())
            for path in self.paths:
                total.update(f"{os.path.abspath(path)}\0{_state(path)}\n".encode())
            self._stamp = total.hexdigest()[:40]
        return self._stamp

    def digest(self) -> str:
        """A hash of all files' contents, remembered in the cache folder until a file changes."""
        folder = cache_folder() if self.cache else None
        note = folder / "pictures" / f"{self.stamp()}.digest" if folder is not None else None
        with contextlib.suppress(OSError):
            if note is not None and len(known := note.read_text().strip()) == 40:
                return known
        total = hashlib.sha256(self.crop.key.encode())
        with ThreadPoolExecutor(self.threads) as pool:
            for rows in spans(len(self.paths), 1024):
                for one in pool.map(_hashed, self.paths[rows]):
                    total.update(one)
        digest = total.hexdigest()[:40]
        if note is not None:
            with contextlib.suppress(OSError):
                note.parent.mkdir(parents=True, exist_ok=True)
                write_file(note, digest.encode())
        return digest

    def __getstate__(self) -> dict[str, object]:
        """Without the open file: a process that gets a copy opens its own."""
        return {**self.__dict__, "_pixels": None}


def _state(path: str) -> str:
    try:
        state = os.stat(path)
    except OSError:
        raise BadInput(f"The picture {path} is not there.") from None
    return f"{state.st_size} {state.st_mtime_ns}"


def _hashed(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise BadInput(f"The picture {path} cannot be read: {error.strerror or error}.") from None
