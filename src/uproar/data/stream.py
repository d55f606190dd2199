"""Images that are read when they are asked for, not held: what lets a data set be larger than memory."""

from __future__ import annotations

import abc
import contextlib
import errno
import hashlib
import os
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from uproar.data.locations import platform_cache
from uproar.errors import BadInput
from uproar.paths import user_path, write_file
from uproar.tensors import spans

# one picture file as the square of bytes that a network sees: scaled, then cut from the middle


@dataclass(frozen=True)
class CentreCrop:
    """The shorter side is scaled to `shorter`, then the middle `size` × `size` pixels are kept.

    Bilinear with antialiasing, sizes rounded as the usual evaluation transforms of photo networks do, so that the
    accuracies stated for such networks hold here. A smaller picture is enlarged.
    """

    size: int
    shorter: int = 0
    """0: the usual 256 for 224, in proportion."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise BadInput(f"A picture is at least 1 pixel wide, not {self.size}.")
        if self.shorter == 0:
            object.__setattr__(self, "shorter", round(self.size * 256 / 224))
        if self.shorter < self.size:
            raise BadInput(
                f"The shorter side cannot be scaled to {self.shorter} and then give {self.size} pixels; "
                f"let it be at least {self.size}."
            )

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """The width and height of a picture after scaling."""
        if width <= height:
            return self.shorter, max(self.shorter, int(self.shorter * height / width))
        return max(self.shorter, int(self.shorter * width / height)), self.shorter

    def corner(self, width: int, height: int) -> tuple[int, int]:
        """Left and top of what is kept of a scaled picture."""
        return round((width - self.size) / 2), round((height - self.size) / 2)

    @property
    def key(self) -> str:
        """What enters the digest of cropped images: equal for equal crops, in all versions of this package."""
        return f"Framing(size={self.size}, shorter={self.shorter})"

    def box(self, box: tuple[float, float, float, float], width: int, height: int) -> tuple[int, ...] | None:
        """A box x0, y0, x1, y1 of a picture (last column and row included) in the pixels of the crop.

        What lies outside is cut off; of a box that lies wholly outside nothing is left.
        """
        wide, high = self.scaled(width, height)
        left, top = self.corner(wide, high)
        x0, y0, x1, y1 = box
        starts = x0 * wide / width - left, y0 * high / height - top
        ends = (x1 + 1) * wide / width - left, (y1 + 1) * high / height - top
        if min(ends) <= 0 or max(starts) >= self.size:
            return None
        edges = (*starts, *(end - 1 for end in ends))
        return tuple(min(max(round(edge), 0), self.size - 1) for edge in edges)

    def picture(self, path: Path, content: bytes | None = None) -> np.ndarray:
        """A picture file as (3, size, size) bytes, turned upright as its EXIF data say; `content` if it was read."""
        with opened_picture(path, content) as file:
            upright = _rgb(ImageOps.exif_transpose(file))
        wide, high = self.scaled(*upright.size)
        left, top = self.corner(wide, high)
        scaled = upright.resize((wide, high), Image.Resampling.BILINEAR)
        kept = scaled.crop((left, top, left + self.size, top + self.size))
        return np.ascontiguousarray(np.asarray(kept).transpose(2, 0, 1))


@contextlib.contextmanager
def opened_picture(path: Path, content: bytes | None = None) -> Iterator[Image.Image]:
    """A picture file; one that cannot be read, here or inside, is refused in one sentence that names it."""
    if path.is_fifo():
        raise BadInput(f"{path} cannot be decoded (it is a named pipe); replace the file or leave it out.")
    try:
        with Image.open(path if content is None else BytesIO(content)) as picture:
            yield picture
    except FileNotFoundError:
        raise BadInput(f"The picture {path} is not there.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = str(error).strip().rstrip(".")
        raise BadInput(f"{path} cannot be decoded ({reason}); replace the file or leave it out.") from None


def _rgb(picture: Image.Image) -> Image.Image:
    """Any picture in three colours; 16 bits are scaled to 8, where plain conversion would cut them off."""
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture).astype(np.float64)
        if values.max(initial=0) > 255:
            values = values / 257
        picture = Image.fromarray(values.round().clip(0, 255).astype(np.uint8))
    picture.load()
    return picture.convert("RGB")


# decoded pixels on disk: decoding a photo costs forty times as much as reading its bytes
# One sparse file per set of pictures, one record per picture: its bytes, a mark and a checksum. A record is written by
# one call and believed only if its checksum fits, so that any number of processes may read and write the file at once
# without a lock, and a run killed at any moment loses nothing but the record under way.


VARIABLE = "UPROAR_CACHE"
"""The environment variable that names the cache folder, or switches it off (`off`)."""

_MARK = b"px01"


def cache_folder() -> Path | None:
    """Where things that can be computed again are kept; None if that is switched off.

    `UPROAR_CACHE`, or the platform's folder for such things.
    """
    named = os.environ.get(VARIABLE, "").strip()
    if named.lower() in ("off", "no", "0", "none"):
        return None
    return user_path(named) if named else platform_cache()


class PixelCache:
    """The decoded pictures of one set; without a path, or where it cannot be written, nothing is kept."""

    def __init__(self, path: Path | None, shape: tuple[int, int, int]) -> None:
        self.path, self.shape = path, shape
        self._length = int(np.prod(shape)) + 8
        self._handle: int | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                self._give_up(error)

    def get(self, row: int) -> np.ndarray | None:
        """The pixels of a picture, if they are there and sound."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                record = os.pread(self._handle, self._length, row * self._length)
                pixels, tail = record[:-8], record[-8:]
                if tail == _MARK + zlib.crc32(pixels).to_bytes(4, "big"):
                    return np.frombuffer(pixels, np.uint8).reshape(self.shape)
        return None

    def put(self, row: int, pixels: np.ndarray) -> None:
        """Keep the pixels of a picture; if that cannot be done, say so once and go on without."""
        if self._handle is None:
            return
        content = pixels.tobytes()
        record = content + _MARK + zlib.crc32(content).to_bytes(4, "big")
        try:
            if os.pwrite(self._handle, record, row * self._length) < self._length:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        warnings.warn(
            f"Decoded pictures can no longer be kept in {self.path} ({error.strerror or error}): they are decoded each "
            f"time they are needed. Make room, or name another folder with {VARIABLE}.",
            stacklevel=3,
        )
        self.close()

    def close(self) -> None:
        """Give the file back."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        self.close()


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


def digest_of(*parts: str | Tensor) -> str:
    """A hash of texts and of the bytes of tensors."""
    total = hashlib.sha256()
    for item in parts:
        total.update(item.encode() if isinstance(item, str) else item.contiguous().numpy().tobytes())
    return total.hexdigest()[:40]


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
        return digest_of(self.source.digest(), self.rows)


class Pictures(Source):
    """Picture files, decoded by a few threads when they are read, and kept as bytes in the cache folder.

    What tells a set from another is what its files hold, in order, and the crop: not where the files are.
    """

    def __init__(self, paths: Iterable[str | Path], size: int, *, shorter: int = 0, threads: int | None = None) -> None:
        self.paths = tuple(os.fspath(path) for path in paths)
        if not self.paths:
            raise BadInput("There are no pictures: give at least one.")
        self.crop = CentreCrop(size, shorter)
        self.threads = threads or min(4, os.cpu_count() or 1)
        self._pixels: PixelCache | None = None
        self._stamp = ""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.paths), 3, self.crop.size, self.crop.size

    def take(self, rows: Tensor) -> Pictures:
        """Some of the pictures."""
        chosen = [self.paths[i] for i in row_numbers(rows, len(self)).tolist()]
        return Pictures(chosen, self.crop.size, shorter=self.crop.shorter, threads=self.threads)

    def read(self, rows: Tensor) -> Tensor:
        if self._pixels is None:
            self._pixels = PixelCache(self._kept("pixels"), self.shape[1:])
        cache, wanted = self._pixels, rows.tolist()
        pixels = np.empty((len(wanted), *self.shape[1:]), np.uint8)

        def fetch(position: int) -> None:
            row = wanted[position]
            picture = cache.get(row)
            if picture is None:
                picture = self.crop.picture(Path(self.paths[row]))
                cache.put(row, picture)
            pixels[position] = picture

        with ThreadPoolExecutor(self.threads) if min(len(wanted), self.threads) > 1 else nullcontext() as pool:
            list((map if pool is None else pool.map)(fetch, range(len(wanted))))
        return torch.from_numpy(pixels)

    def _kept(self, kind: str) -> Path | None:
        """Where something about these files is kept."""
        folder = cache_folder()
        return None if folder is None else folder / "pictures" / f"{self.stamp()}.{kind}"

    def stamp(self) -> str:
        """What tells these files from others without opening them: places, sizes, times of change, crop."""
        if not self._stamp:
            states = (f"{os.path.abspath(path)}\0{_state(path)}\n" for path in self.paths)
            self._stamp = digest_of(self.crop.key, *states)
        return self._stamp

    def digest(self) -> str:
        """A hash of all files' contents, remembered in the cache folder until a file changes."""
        note = self._kept("digest")
        with contextlib.suppress(OSError):
            if note is not None and len(known := note.read_text().strip()) == 40:
                return known
        total = hashlib.sha256(self.crop.key.encode())
        with ThreadPoolExecutor(self.threads) as pool:
            for rows in spans(len(self.paths), 1024):
                for content in pool.map(_hashed, self.paths[rows]):
                    total.update(content)
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
