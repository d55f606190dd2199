"""Sets of photographs: lists of files that are decoded when they are read, with boxes that follow the crop.

A file that cannot be decoded makes what needs it fail, with a sentence that names it; `uproar data verify NAME` finds
all such files.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import torch
from torch import Tensor

from uproar.data.locations import locate, public_dataset
from uproar.data.registry import Count, Only, Root, Shorter, Size, subsample, subsample_rows, tasks
from uproar.data.stream import CentreCrop, Pictures, Source, opened_picture
from uproar.data.task import NOWHERE, Split, Task
from uproar.errors import BadInput, BadOption, one_line
from uproar.registry import Entry, options_of

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")

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
            cropped: list[list[tuple[int, ...]]] = []  # without the boxes outside the frame
            for path, file in zip(paths, self.names, strict=True):
                boxed, size = self.boxed(file) or FileBoxes(())
                size = size or (_upright_size(path) if boxed else None)
                placed = (crop.box(box, *size) for box in boxed if size)
                cropped.append([box for box in placed if box is not None])
            most = max(1, *map(len, cropped))
            boxes = torch.tensor([some + [NOWHERE] * (most - len(some)) for some in cropped])
            boxes = boxes[:, 0] if most == 1 else boxes
        images = Pictures(paths, crop.size, shorter=crop.shorter)
        return Split(name, images, torch.tensor(self.labels), boxes=boxes)


def photo_task(
    name: str,
    listings: tuple[FileList, FileList],
    classes: Sequence[str],
    sparse: bool = False,
    *,
    size: Size = 224,
    shorter: Shorter = 0,
    train: Count = None,
    test: Count = None,
    root: Root = None,
) -> Task:
    """A task of photographs from the listings of its two splits, with so many images of each."""
    splits = []
    for split, listing, count in zip(("train", "test"), listings, (train, test), strict=True):
        rows = subsample_rows(name, split, torch.tensor(listing.labels), len(classes), count, sparse)
        splits.append(listing.take(rows.tolist()).split(split, CentreCrop(size, shorter)))
    return Task(name, splits[0], splits[1], tuple(classes), sparse)


def list_pictures(folder: Path) -> list[str]:
    """The picture files below a folder by name, hidden ones aside."""
    names = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(root, folder).replace(os.sep, "/")
        for name in sorted(files):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                names.append(name if below == "." else f"{below}/{name}")
    return names


def class_folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, hidden ones aside."""
    return sorted(f.name for f in os.scandir(folder) if f.is_dir() and not f.name.startswith("."))


def class_titles(names: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The first word known for each class; one that two classes share is distinguished by the class's own name.

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


def number_of(name: str, numbers: Mapping[str, int], where: str) -> int:
    """The number of a class that a list names; one that the set does not have is refused."""
    if name not in numbers:
        raise BadInput(f"{where}: there is no class {name!r} but {', '.join([*numbers][:3])} …")
    return numbers[name]


def read_box(file: Path, values: Sequence[str], size: tuple[int, int] | None = None) -> FileBoxes:
    """The one box of a file, whose edges a list gives."""
    x0, y0, x1, y1 = parse_floats(file, values)
    return FileBoxes(((x0, y0, x1, y1),), size)


def _upright_size(path: str) -> tuple[int, int]:
    """Width and height of a picture as it is meant to be seen, from the head of the file."""
    with opened_picture(Path(path)) as picture:
        width, height = picture.size
        turned = picture.getexif().get(0x0112) in range(5, 9)  # orientations that swap width and height
    return (height, width) if turned else (width, height)


# imageNet (ILSVRC 2012): training photos by class, validation photos with labels from one of three places, box XML
# Classes are numbered by their WordNet names in rising order, as trained networks have them.


_XML = ("bbox/val", "Annotations/CLS-LOC/val", "ILSVRC/Annotations/CLS-LOC/val", "Annotation/val")
_SOLUTION = ("LOC_val_solution.csv", "ILSVRC/LOC_val_solution.csv")
_WORDS = ("LOC_synset_mapping.txt", "ILSVRC/LOC_synset_mapping.txt")
_KIT = tuple(
    f"{prefix}data/ILSVRC2012_validation_ground_truth.txt" for prefix in ("ILSVRC2012_devkit_t12/", "devkit/", "")
)


@tasks.declare(images="1,281,167 + 50,000 photos", truth="boxes, where their XML files are there")
@options_of(photo_task)
def imagenet(**options: Any) -> Task:
    """ILSVRC 2012 (Russakovsky et al. 2015); the labelled validation photos are the test split."""
    folder = locate("imagenet", options["root"])
    data = _first(folder, public_dataset("imagenet").marks)
    assert data is not None, "this is how the folder was found"
    inner = data.parent.relative_to(folder).as_posix()
    below = "" if inner == "." else f"{inner}/"
    wnids = class_folders(data)
    if not wnids:
        raise BadInput(f"{data} has no class folders such as n01440764.")
    labels = {wnid: i for i, wnid in enumerate(wnids)}
    first, second = FileList(folder), FileList(folder)
    for wnid, label in labels.items():
        first.add_folder(f"{below}train/{wnid}", label)
    _add_validation(second, f"{below}val", labels)
    boxes = _first(folder, _XML)
    if boxes is not None:
        class_of = {name: wnids[label] for name, label in zip(second.names, second.labels, strict=True)}

        def boxed(name: str) -> FileBoxes | None:
            file = boxes / f"{Path(name).stem}.xml"
            if not file.is_file():
                return None
            objects, size = _objects(file)
            return FileBoxes(tuple(box for wnid, box in objects if wnid == class_of[name]), size)

        second.boxed = boxed
    titles = _first(folder, _WORDS)
    names = class_titles(wnids, {} if titles is None else dict(read_columns(titles, 2)))
    return photo_task("imagenet", (first, second), names, **options)


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def _add_validation(listing: FileList, val: str, labels: dict[str, int]) -> None:
    """The validation photos: in class folders, or side by side with their labels elsewhere."""
    folder = listing.folder / val
    if not folder.is_dir():
        raise BadInput(f"There is no folder {folder} with the validation photos.")
    folders = class_folders(folder)
    for wnid in folders:
        listing.add_folder(f"{val}/{wnid}", number_of(wnid, labels, str(folder)))
    if not folders:
        classes = _validation_labels(listing.folder)
        for name in list_pictures(folder):
            wnid = classes.get(name.partition(".")[0], "")
            listing.add(f"{val}/{name}", number_of(wnid, labels, str(folder / name)))


def _validation_labels(folder: Path) -> dict[str, str]:
    """The class of each validation photo by name: from the solution table or the development kit."""
    solution = _first(folder, _SOLUTION)
    if solution is not None:
        with solution.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.reader(lines) if len(row) == 2][1:]
        return {name: prediction.split()[0] for name, prediction in rows if prediction.split()}
    truth = _first(folder, _KIT)
    if truth is None:
        raise BadInput(
            f"The validation photos of {folder} have no labels: sort them into class folders, or put "
            "ILSVRC2012_devkit_t12 or LOC_val_solution.csv beside them."
        )
    # the kit counts classes from 1, in an order of its own, and photos by name
    wnids = _wnids_of_kit(truth.parent / "meta.mat")
    numbers = [number for (number,) in read_columns(truth, 1)]
    return {f"ILSVRC2012_val_{i:08d}": wnids.get(number, number) for i, number in enumerate(numbers, 1)}


def _wnids_of_kit(file: Path) -> dict[str, str]:
    from scipy.io import loadmat  # loads slowly, and few need it

    try:
        synsets = loadmat(file, squeeze_me=True, struct_as_record=False)["synsets"]
        return {str(int(synset.ILSVRC2012_ID)): str(synset.WNID) for synset in synsets if int(synset.num_children) == 0}
    except Exception as error:  # a damaged file can fail in any way
        raise BadInput(f"{file} is not the table of the kit's classes ({one_line(error)}).") from None


def _objects(file: Path) -> tuple[list[tuple[str, Box]], tuple[int, int]]:
    """The class and box of each object in a photo, and the photo's width and height."""
    try:
        top = ElementTree.parse(file).getroot()
        objects: list[tuple[str, Box]] = []
        for thing in top.iter("object"):
            x0, y0, x1, y1 = (float(thing.findtext(f"bndbox/{edge}", "")) for edge in ("xmin", "ymin", "xmax", "ymax"))
            objects.append((thing.findtext("name", ""), (x0, y0, x1, y1)))
        return objects, (int(float(top.findtext("size/width", ""))), int(float(top.findtext("size/height", ""))))
    except (OSError, ElementTree.ParseError, ValueError) as error:
        raise BadInput(f"{file} is not a box file ({one_line(error)}).") from None


# public sets of photographs in their official layouts: CUB-200-2011, Birdsnap, Food-101, Tiny-ImageNet
# Lists and tables beside the photos say the classes, the splits and, for three of them, the boxes. Birdsnap is a list
# of addresses, and many photos are gone from the web: those that are not on the disk are left out.


PHOTOS = ("download/images", "images", ".")
"""Where the photos may lie below the set's folder, the place of the official script first."""

_SIDE = 64
"""Pixels on each side of the pictures of Tiny-ImageNet."""


@tasks.declare(images="5,994 + 5,794 photos", truth="boxes")
@options_of(photo_task)
def cub200(**options: Any) -> Task:
    """200 species of birds (Wah et al. 2011) with boxes, the official split; photos are decoded when read."""
    folder = locate("cub200", options["root"])
    listed = dict(read_columns(folder / "classes.txt", 2))
    ids = {number: i for i, number in enumerate(listed)}
    classes = [name.partition(".")[2].replace("_", " ") or name for name in listed.values()]
    names = dict(read_columns(folder / "images.txt", 2))
    labels = dict(read_columns(folder / "image_class_labels.txt", 2))
    in_train = dict(read_columns(folder / "train_test_split.txt", 2))
    boxes: dict[str, FileBoxes] = {}
    for number, *values in read_columns(folder / "bounding_boxes.txt", 5):
        x, y, width, height = parse_floats(folder / "bounding_boxes.txt", values)
        if number in names:
            boxes[f"images/{names[number]}"] = FileBoxes(((x, y, x + width - 1, y + height - 1),))
    listings = FileList(folder, boxed=boxes.get), FileList(folder, boxed=boxes.get)
    for number, name in names.items():
        if number not in labels or number not in in_train:
            raise BadInput(f"{folder}: image {number} ({name}) has no label or no split.")
        label = number_of(labels[number], ids, f"{folder}, image {number}")
        listings[in_train[number] != "1"].add(f"images/{name}", label)
    return photo_task("cub200", listings, classes, **options)


@tasks.declare(images="up to 47,386 + 2,443 photos", truth="boxes")
@options_of(photo_task)
def birdsnap(**options: Any) -> Task:
    """500 species of birds (Berg et al. 2014) with boxes; photos that were not found on the web are left out."""
    folder = locate("birdsnap", options["root"])
    species = {row["id"]: row["common"] for row in read_table(folder / "species.txt", ("id", "common"))}
    rows = read_table(folder / "images.txt", ("path", "species_id", "bb_x1", "bb_y1", "bb_x2", "bb_y2"))
    in_test = {row["path"] for row in read_table(folder / "test_images.txt", ("path",))}
    paths = [row["path"] for row in rows]
    root = next((below for below in PHOTOS if any((folder / below / path).is_file() for path in paths)), None)
    if root is None:
        raise BadInput(
            f"{folder} has the lists of Birdsnap but none of its photos in {' or '.join(PHOTOS[:2])}; "
            "`uproar data get birdsnap` downloads those that are still on the web."
        )
    boxed: dict[str, FileBoxes] = {}
    listings = FileList(folder, boxed=boxed.get), FileList(folder, boxed=boxed.get)
    ids = {number: i for i, number in enumerate(species)}
    for row in rows:
        name = row["path"] if root == "." else f"{root}/{row['path']}"
        listing = listings[row["path"] in in_test]
        listing.add(name, number_of(row["species_id"], ids, f"{folder / 'images.txt'}, {row['path']}"))
        boxed[name] = read_box(folder / "images.txt", [row[f"bb_{edge}"] for edge in ("x1", "y1", "x2", "y2")])
    present = [[i for i, name in enumerate(files.names) if (folder / name).is_file()] for files in listings]
    train, test = (files.take(rows) for files, rows in zip(listings, present, strict=True))
    return photo_task("birdsnap", (train, test), list(species.values()), **options)


def read_table(file: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a table with tabs between the columns and their names in the first line."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t"))
    except FileNotFoundError:
        raise BadInput(f"There is no {file.name} in {file.parent}.") from None
    for number, row in enumerate(rows, 2):
        for column in columns:
            if not row.get(column):
                raise BadInput(f"{file}, line {number}: there is no {column!r}.")
    return rows


@tasks.declare(images="75,750 + 25,250 photos", truth="none")
@options_of(photo_task)
def food101(**options: Any) -> Task:
    """101 dishes (Bossard et al. 2014), the official lists; photos are decoded when read."""
    folder = locate("food101", options["root"])
    classes = [name for (name,) in read_columns(folder / "meta" / "classes.txt", 1)]
    numbers = {name: i for i, name in enumerate(classes)}
    listings = FileList(folder), FileList(folder)
    for split, listing in zip(("train", "test"), listings, strict=True):
        for (name,) in read_columns(folder / "meta" / f"{split}.txt", 1):
            label = number_of(name.partition("/")[0], numbers, f"{folder}, {split}.txt")
            listing.add(f"images/{name}.jpg", label)
    names = [name.replace("_", " ") for name in classes]
    return photo_task("food101", listings, names, **options)


@tasks.declare("tiny-imagenet", images="100,000 + 10,000 colour 64×64", truth="boxes")
def tiny_imagenet(
    *, only: Only = (), size: Size = _SIDE, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """200 classes of ImageNet at 64×64 with boxes; the labelled validation images are the test split.

    `only=[n01641577, n02106662]` keeps these classes, in this order.
    """
    folder = locate("tiny-imagenet", root)
    whole = [name for (name,) in read_columns(folder / "wnids.txt", 1)]
    if missing := [name for name in only if name not in whole]:
        raise BadOption(
            f"tiny-imagenet: only= names {', '.join(missing)}, but wnids.txt in {folder} has no such class."
        )
    classes = only or whole
    numbers_of = {name: i for i, name in enumerate(classes)}
    boxes: dict[str, FileBoxes] = {}
    listings = FileList(folder, boxed=boxes.get), FileList(folder, boxed=boxes.get)
    for wnid, label in numbers_of.items():
        listings[0].add_folder(f"train/{wnid}/images", label)
        table = folder / "train" / wnid / f"{wnid}_boxes.txt"
        for name, *box in read_columns(table, 5):
            boxes[f"train/{wnid}/images/{name}"] = read_box(table, box, (_SIDE, _SIDE))
    table = folder / "val" / "val_annotations.txt"
    for name, wnid, *box in read_columns(table, 6):
        if wnid in numbers_of or wnid not in whole:
            listings[1].add(f"val/images/{name}", number_of(wnid, numbers_of, f"{table}, {name}"))
            boxes[f"val/images/{name}"] = read_box(table, box, (_SIDE, _SIDE))
    words = dict(read_columns(folder / "words.txt", 2)) if (folder / "words.txt").is_file() else {}
    names = class_titles(classes, words)
    return photo_task("tiny-imagenet", listings, names, size=size, shorter=size, train=train, test=test)


# any image set of Hugging Face `datasets`: `hf:uoft-cs/cifar10`


@functools.cache
def hf_entry(name: str) -> Entry:
    """The task that reads the set `hf:NAME`."""
    short = name.removeprefix("hf:")
    if not short:
        raise BadInput("hf: needs the name of a set, e.g. hf:uoft-cs/cifar10.")
    if importlib.util.find_spec("datasets") is None:
        raise BadInput(f"{name} needs the package datasets: pip install 'uproar[hf]'.")

    def read(
        *,
        config: str | None = None,
        learn: str = "train",
        judge: str | None = None,
        image: str | None = None,
        label: str | None = None,
        size: int = 0,
        shorter: Shorter = 0,
        train: Count = None,
        test: Count = None,
    ) -> Task:
        parts = _hf_splits(short, config, learn, judge)
        first = parts[0]
        pictures, labels = _column(first, image, "Image", "image"), _column(first, label, "ClassLabel", "label")
        names = getattr(first.features[labels], "names", None)
        classes = tuple(map(str, names or sorted({value for rows in parts for value in rows[labels]})))
        width, height = (size, size) if size else first[0][pictures].size
        if width != height:
            raise BadInput(f"The first picture is {width}×{height}; say to what size, e.g. size=224.")
        crop = CentreCrop(width, shorter if size else shorter or width)
        splits = []
        for split, rows in zip(("train", "test"), parts, strict=True):
            numbers = list(rows[labels]) if names else [classes.index(str(value)) for value in rows[labels]]
            splits.append(Split(split, HuggingFacePictures(rows, pictures, crop), torch.tensor(numbers)))
        return subsample(Task(name, splits[0], splits[1], classes), train, test)

    read.__doc__ = f"The set {short} of Hugging Face datasets."
    return Entry("task", name, read, {"images": "pictures", "truth": "none"})


tasks.makers["hf:"] = hf_entry


def _hf_splits(name: str, config: str | None, learn: str, judge: str | None) -> list[Any]:
    import datasets  # an extra, and slow

    try:
        held = datasets.load_dataset(name, config)
    except Exception as error:  # anything from a missing set to a missing network
        raise BadInput(f"hf:{name} cannot be loaded: {one_line(error)}") from None
    usual = next((split for split in ("test", "validation", "valid") if split in held), "test")
    wanted = {"learn": learn, "judge": judge or usual}
    for option, split in wanted.items():
        if split not in held:
            raise BadInput(f"hf:{name} has no split {split!r} but {', '.join(held)}; say which with {option}=…")
    return [held[split] for split in wanted.values()]


def _column(rows: Any, choice: str | None, kind: str, option: str) -> str:
    """The column that was given, or the first of its kind."""
    typed = [name for name, value in rows.features.items() if type(value).__name__ == kind]
    column = choice or next(iter(typed), option)
    if column not in rows.features:
        raise BadInput(f"There is no column {column!r} but {', '.join(rows.features)}; say which with {option}=…")
    return column


class HuggingFacePictures(Source):
    """The pictures of a column, as files that are decoded when they are read."""

    def __init__(self, rows: Any, column: str, crop: CentreCrop) -> None:
        import datasets

        self.rows = rows.cast_column(column, datasets.Image(decode=False))
        self.column, self.crop = column, crop

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.rows), 3, self.crop.size, self.crop.size

    def read(self, rows: Tensor) -> Tensor:
        pixels = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for position, row in enumerate(rows.tolist()):
            pixels[position] = self.crop.picture(*self._content(row))
        return torch.from_numpy(pixels)

    def digest(self) -> str:
        total = hashlib.sha256(self.crop.key.encode())
        for row in range(len(self.rows)):
            total.update(hashlib.sha256(self._content(row)[1]).digest())
        return total.hexdigest()[:40]

    def _content(self, row: int) -> tuple[Path, bytes]:
        held = self.rows[row][self.column]
        name = Path(held["path"] or f"picture {row}")
        return name, held["bytes"] if held["bytes"] is not None else name.read_bytes()
