"""Sets of photographs: lists of files that are decoded when they are read, with boxes that follow the crop.

A file that cannot be decoded makes what needs it fail, with a sentence that names it. `uproar data verify NAME
--leave-out` finds all such files and lists them in `left-out.txt` in the set's folder; files listed there are
no part of the task any more.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import torch
from PIL import Image, UnidentifiedImageError

from uproar.data.cropping import CentreCrop
from uproar.data.options import subsample_rows
from uproar.data.stream import Pictures
from uproar.data.task import Split, Task
from uproar.errors import BadInput

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
EXCLUSION_LIST = "left-out.txt"
"""The list of files of a set that are left out, one name per line."""

NOWHERE = (0, 0, -1, -1)
"""The box of an image whose object is not known: no pixel lies in it."""

_TURNED = range(5, 9)
"""EXIF orientations that swap width and height."""


Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in the pixels of a file, last column and row included."""


class FileBoxes(NamedTuple):
    """The boxes of a file, and its width and height where they are known."""

    boxes: tuple[Box, ...]
    size: tuple[int, int] | None = None


@dataclass
class FileList:
    """Files of one split by name below a folder, with labels, and boxes where `boxed` finds them by name."""

    folder: Path
    names: list[str] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    """Of each file: the number of its class, or a tuple of labels 0 and 1, or of values."""
    boxed: Callable[[str], FileBoxes | None] | None = None

    def add(self, name: str, label: int | tuple[float, ...]) -> None:
        """One more file; a name from a list must stay below the folder."""
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise BadInput(f"A list in {self.folder} names {name!r}, which is outside of it.")
        self.names.append(name)
        self.labels.append(label)

    def add_folder(self, name: str, label: int) -> None:
        """All pictures below a folder, by name; an empty folder is refused."""
        files = list_pictures(self.folder / name)
        if not files:
            raise BadInput(f"The class folder {self.folder / name} has no pictures; fill it or remove it.")
        self.names += [f"{name}/{file}" for file in files]
        self.labels += [label] * len(files)

    def without(self, names: set[str]) -> FileList:
        """The listing without some files."""
        kept = [i for i, name in enumerate(self.names) if name not in names]
        return self.take(kept)

    def take(self, rows: Sequence[int]) -> FileList:
        """Some of the files."""
        names, labels = [self.names[i] for i in rows], [self.labels[i] for i in rows]
        return FileList(self.folder, names, labels, self.boxed)

    def split(self, name: str, crop: CentreCrop) -> Split:
        """The files as images that are decoded when they are read."""
        paths = [os.path.join(self.folder, file) for file in self.names]
        if not paths:
            raise BadInput(f"{self.folder}: the {name} split has no images.")
        boxes = None
        if self.boxed is not None:
            named = zip(paths, self.names, strict=True)
            boxes_of_files = [_cropped(path, self.boxed(name), crop) for path, name in named]
            most = max(1, *(len(some) for some in boxes_of_files))
            boxes = torch.tensor([some + [NOWHERE] * (most - len(some)) for some in boxes_of_files])
            boxes = boxes[:, 0] if most == 1 else boxes
        images = Pictures(paths, crop.size, shorter=crop.shorter)
        return Split(name, images, torch.tensor(self.labels), boxes=boxes)


def photo_task(
    name: str,
    listings: tuple[FileList, FileList],
    classes: Sequence[str],
    crop: CentreCrop,
    counts: tuple[int | None, int | None],
    sparse: bool = False,
) -> Task:
    """A task of photographs from the listings of its two splits, with so many images of each."""
    splits = []
    for split, listing, count in zip(("train", "test"), listings, counts, strict=True):
        here = listing.without(excluded_files(listing.folder))
        labels = torch.tensor(here.labels)
        rows = subsample_rows(name, split, labels, len(classes), count, sparse)
        splits.append(here.take(rows.tolist()).split(split, crop))
    return Task(name, splits[0], splits[1], tuple(classes), sparse)


def excluded_files(folder: Path) -> set[str]:
    """The names of files that were found unreadable and are left out."""
    try:
        lines = (folder / EXCLUSION_LIST).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return set()
    return {line for line in lines if line and not line.startswith("#")}


def list_pictures(folder: Path) -> list[str]:
    """The picture files below a folder by name, hidden ones aside."""
    names = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(place, folder).replace(os.sep, "/")
        for name in sorted(files):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                names.append(name if below == "." else f"{below}/{name}")
    return names


def class_folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, hidden ones aside."""
    return sorted(f.name for f in os.scandir(folder) if f.is_dir() and not f.name.startswith("."))


def class_titles(names: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The first word known for each class; one that two classes share is told apart by the class's own name.

    >>> class_titles(["n1", "n2", "n3"], {"n1": "crane, a bird", "n2": "crane, a machine", "n3": "kite"})
    ['crane (n1)', 'crane (n2)', 'kite']
    """
    first = [words.get(name, name).partition(",")[0] for name in names]
    shared = {title for title, count in Counter(first).items() if count > 1}
    return [f"{t} ({n})" if t in shared else t for t, n in zip(first, names, strict=True)]


def read_columns(file: Path, columns: int) -> list[list[str]]:
    """The lines of a list, each split at white space into so many columns; the last may hold spaces."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BadInput(f"There is no {file.name} in {file.parent}.") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not a text file.") from None
    rows = [line.split(None, columns - 1) for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != columns:
            raise BadInput(f"{file}, entry {number}: expected {columns} columns, not {row}.")
    return rows


def parse_floats(file: Path, values: Sequence[str]) -> tuple[float, ...]:
    """Values of a list as numbers."""
    try:
        return tuple(float(value) for value in values)
    except ValueError:
        raise BadInput(f"{file}: expected numbers, not {' '.join(values)!r}.") from None


def _cropped(path: str, boxed: FileBoxes | None, crop: CentreCrop) -> list[tuple[int, ...]]:
    """The boxes of a file where the crop puts them, without those outside the frame."""
    if boxed is None or not boxed.boxes:
        return []
    width, height = boxed.size or _upright_size(path)
    wide, high = crop.scaled(width, height)
    left, top = crop.corner(wide, high)

    def seen(low: float, high: float, scale: float, start: int) -> bool:
        return (high + 1) * scale > start and low * scale < start + crop.size

    return [
        crop.box(box, width, height)
        for box in boxed.boxes
        if seen(box[0], box[2], wide / width, left) and seen(box[1], box[3], high / height, top)
    ]


def _upright_size(path: str) -> tuple[int, int]:
    """Width and height of a picture as it is meant to be seen, from the head of the file."""
    try:
        with Image.open(path) as picture:
            width, height = picture.size
            turned = picture.getexif().get(0x0112) in _TURNED
    except FileNotFoundError:
        raise BadInput(f"The picture {path} is not there.") from None
    except (UnidentifiedImageError, OSError) as error:
        raise BadInput(f"{path} cannot be read as a picture ({error}).") from None
    return (height, width) if turned else (width, height)
