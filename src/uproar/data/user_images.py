"""Images of the user's own: a folder of picture files, or an array file."""

from __future__ import annotations

import csv as tables
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from uproar.data.arrays import KINDS, read_arrays
from uproar.data.locations import roots
from uproar.data.photographs import ENDINGS, FileBoxes, FileList, class_folders, photo_task, read_box
from uproar.data.registry import Count, Shorter, Size, tasks
from uproar.data.stream import CentreCrop, opened_picture
from uproar.data.task import Split, Task
from uproar.errors import BadInput, BadOption, BadShape
from uproar.paths import user_path
from uproar.seeds import key

_TEST = ("test", "val", "valid", "validation")
_CORNERS = ("x0", "y0", "x1", "y1")
_FLAGS = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1}


@tasks.declare("folder", images="your own pictures", truth="boxes, where the table has them")
def folder_task(
    *,
    root: str,
    csv: str | None = None,
    image: str = "image",
    label: str = "label",
    labels: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
    split: str = "split",
    classes: Annotated[int, Field(ge=0)] = 0,
    first: Annotated[int, Field(ge=0, le=1)] = 0,
    share: Annotated[float, Field(gt=0, lt=1)] = 0.2,
    size: Size = 224,
    shorter: Shorter = 0,
    train: Count = None,
    test: Count = None,
) -> Task:
    """Your own pictures: a folder per class, or a table `csv` with a column of files and one of labels.

    Class folders may lie below train/ and test/ (or val/). A table may have columns `split`, x0, y0, x1, y1. Without a
    split, `share` of each class becomes the test split. `classes=N` says that labels are the numbers, counted from
    `first`, of the outputs of a given network; then not every class needs a picture. `labels` names columns of 0 and 1,
    one for each of several labels that a picture may have; `values` names columns of numbers, which are then learned.
    """
    folder = folder_place(root)
    options = {"labels=": labels, "values=": values, "classes=": classes}
    used = [option for option, value in options.items() if value]
    if csv is None and used:
        raise BadOption(f"folder: {used[0]} says what a table holds: it needs a table (csv=…).")
    if len(used) > 1:
        raise BadOption(f"folder: {' and '.join(used)} say different things of the labels; give one of them.")
    if csv is None:
        divided, titles, listings = _tree(folder, share)
    else:
        table = _Table(folder, csv)
        files = table.files(image)
        titles, of_files = list(labels or values), []
        if labels:
            of_files = table.rows(labels, "labels", _flag)
        elif values:
            of_files = table.rows(values, "values", _number)
        else:
            texts = table.texts(label, "label", empty=False)
            known = table.numbered(texts, classes, first) if classes else table.named(texts)
            titles = [str(i) for i in range(classes)] if classes else list(known)
            of_files = [known[text] for text in texts]
        whole = FileList(folder, boxed=table.boxes(files))
        for name, value in zip(files, of_files, strict=True):
            whole.add(name, value)
        divided = split in table.header
        listings = table.divided(whole, split) if divided else _divided(whole, share, by_class=not used)
    task = photo_task("folder", listings, titles, bool(classes), size=size, shorter=shorter, train=train, test=test)
    if divided:
        return task
    total = len(task.train) + len(task.test)
    note = (
        f"The pictures have no split of their own: {len(task.test)} of {total} were set aside as test images "
        f"(share={share:g}), which alone are explained and scored; the others are for training. Say how many with "
        "share=…, or which in a column split or in folders train and test."
    )
    return replace(task, notes=(note,))


def folder_place(root: str) -> Path:
    """The folder as given, or below one of the usual places."""
    named = user_path(root)
    for folder in (named, *(data / named for data in roots())):
        if folder.is_dir():
            return folder.resolve()
    looked = ", ".join(str(folder) for folder in (Path(), *roots()))
    raise BadInput(f"There is no folder {root}; looked in {looked}.")


def _tree(folder: Path, share: float) -> tuple[bool, list[str], tuple[FileList, FileList]]:
    """Whether there are folders for both splits, the classes, and the files of the splits."""
    second = next((name for name in _TEST if (folder / name).is_dir()), None)
    if (folder / "train").is_dir() and second is not None:
        classes = class_folders(folder / "train")
        train, test = FileList(folder), FileList(folder)
        if strange := sorted({*class_folders(folder / second)} - {*classes}):
            raise BadInput(
                f"{folder}: the class {strange[0]!r} is in {second} but not in train; a network cannot learn it."
            )
        for split, listing in (("train", train), (second, test)):
            for name in class_folders(folder / split):
                listing.add_folder(f"{split}/{name}", classes.index(name))
        return True, classes, (train, test)
    classes = class_folders(folder)
    if len(classes) < 2:
        raise BadInput(f"{folder} has {len(classes)} class folders; a task needs at least two (or a table: csv=…).")
    whole = FileList(folder)
    for number, name in enumerate(classes):
        whole.add_folder(name, number)
    return False, classes, _divided(whole, share)


def _divided(whole: FileList, share: float, by_class: bool = True) -> tuple[FileList, FileList]:
    """Some of each class, or of all, as test: at least one, and never all.

    Which ones is drawn by name, so that a file more or less moves hardly any other to the other side.
    """
    groups: dict[Any, list[int]] = {}
    for row, label in enumerate(whole.labels):
        groups.setdefault(label if by_class else 0, []).append(row)
    in_test: set[int] = set()
    for members in groups.values():
        count = min(max(1, round(share * len(members))), len(members) - 1)
        in_test.update(sorted(members, key=lambda i: key("folder", "split", whole.names[i]))[:count])
    rows = range(len(whole.names))
    return whole.take([i for i in rows if i not in in_test]), whole.take([i for i in rows if i in in_test])


class _Table:
    """A table of pictures; lines are counted as in the file, whose first is the header."""

    def __init__(self, folder: Path, csv: str) -> None:
        """The table as it is named, seen from the working folder, or else inside the pictures' folder."""
        self.folder = folder
        self.file = user_path(csv) if user_path(csv).is_file() else folder / user_path(csv)
        if not self.file.is_file():
            raise BadInput(f"There is no table {csv}: it is neither {user_path(csv).absolute()} nor {self.file}.")
        try:
            with self.file.open(encoding="utf-8-sig", newline="") as lines:
                reader = tables.DictReader(lines)
                self.lines, self.header = list(reader), list(reader.fieldnames or ())
        except (OSError, UnicodeDecodeError, tables.Error) as error:
            raise BadInput(f"{self.file} cannot be read as a table: {error}.") from None

    def texts(self, name: str, option: str, empty: bool = True) -> list[str]:
        """What stands in a column, which `option` names; an empty place is refused unless it may be `empty`."""
        if name not in self.header:
            columns = ", ".join(self.header)
            raise BadInput(f"{self.file} has no column {name!r} but {columns}; say which with {option}=…")
        texts = [(row[name] or "").strip() for row in self.lines]
        if "" in texts and not empty:
            what = "label" if option == "label" else repr(name)
            raise BadInput(f"{self.file}, line {texts.index('') + 2}: there is no {what}.")
        return texts

    def files(self, image: str) -> list[str]:
        """The files it names, with or without their ending, beside the table or in `images`."""
        files = []
        for line, name in enumerate(self.texts(image, "image"), 2):
            candidates = (f"{below}{name}{ending}" for below in ("", "images/") for ending in ("", *ENDINGS))
            file = next((path for path in candidates if name and (self.folder / path).is_file()), None)
            if file is None:
                raise BadInput(f"{self.file}, line {line}: there is no picture {name or None!r} in {self.folder}.")
            files.append(file)
        return files

    def rows(self, columns: Sequence[str], option: str, read: Callable[[str, str], float]) -> list[Any]:
        """Several columns of each picture, read as numbers."""
        table = [self.texts(column, option, empty=False) for column in columns]
        rows = []
        for line, texts in enumerate(zip(*table, strict=True), 2):
            try:
                rows.append(tuple(map(read, columns, texts)))
            except ValueError as error:
                raise BadInput(f"{self.file}, line {line}: {error}.") from None
        return rows

    def named(self, labels: Sequence[str]) -> dict[str, int]:
        """Labels as names of classes, in rising order; numbers by value."""
        if len(set(labels)) < 2:
            raise BadInput(f"{self.file} has {len(set(labels))} classes; a task needs at least two.")
        return {name: i for i, name in enumerate(_rising(labels))}

    def numbered(self, labels: Sequence[str], classes: int, first: int) -> dict[str, int]:
        """Labels as the numbers of a network's outputs."""
        last = first + classes - 1
        for line, label in enumerate(labels, 2):
            if not label.isdigit() or not first <= int(label) <= last:
                hint = " Are they counted from 1? Then give first=1." if label == str(classes) else ""
                raise BadInput(f"{self.file}, line {line}: the label {label!r} is not one of {first} to {last}.{hint}")
        return {label: int(label) - first for label in set(labels)}

    def boxes(self, files: Sequence[str]) -> Callable[[str], FileBoxes | None] | None:
        """Finds the box of a file, where the table has the four columns."""
        if not set(_CORNERS) <= set(self.header):
            return None
        boxes = {}
        for name, row in zip(files, self.lines, strict=True):
            if all(corners := [row[corner] for corner in _CORNERS]):
                boxes[name] = read_box(self.file, corners)
        return boxes.get

    def divided(self, whole: FileList, split: str) -> tuple[FileList, FileList]:
        """The files of the two splits, as a column says."""
        parts: tuple[list[int], list[int]] = ([], [])
        for row, text in enumerate(self.texts(split, "split")):
            word = text.lower()
            if word not in ("train", *_TEST):
                raise BadInput(f"{self.file}, line {row + 2}: the split must be train or test, not {text!r}.")
            parts[word != "train"].append(row)
        return whole.take(parts[0]), whole.take(parts[1])


def _rising(labels: Iterable[str]) -> list[str]:
    """Distinct labels in rising order; numbers by value."""
    distinct = set(labels)
    return sorted(distinct, key=int if all(label.isdigit() for label in distinct) else None)


def _flag(column: str, text: str) -> float:
    if text.lower() not in _FLAGS:
        raise ValueError(f"the label {column!r} must be 0 or 1, not {text!r}")
    return _FLAGS[text.lower()]


def _number(column: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{column!r} must be a number, not {text!r}") from None


NamedImages = tuple[Tensor, list[str], Tensor | None]
"""Images with their names, and labels where there are any."""


def read_images(
    path: str | Path, limit: int | None = None, size: int | None = None, mixed: int | None = None
) -> NamedImages:
    """Images as floats in [0, 1], (n, c, h, w), with names, and labels where a file holds them; at most `limit`.

    A folder gives its picture files by name, which must be of one size, or are scaled and cut to `size` × `size`
    pixels. Where it has none, but folders of pictures, these are the classes, numbered by name, which take turns. An
    array file gives `images`, or its only array: (n, c, h, w), (n, h, w, c) or (n, h, w), bytes or floats in [0, 1].

    With a seed in `mixed`, what comes by name or in the order of a file comes in a random order instead, classes
    by turns where there are labels: files are often sorted by class, and the first ones are then no sample.
    """
    source = user_path(path)
    if source.is_dir():
        pictures = _in_folder(source)
        if mixed is not None and pictures[0][1] is None:
            pictures = [pictures[i] for i in _mixed(len(pictures), None, mixed)]
        pictures = pictures[:limit]
        classes = [label for _, label in pictures if label is not None]
        return *_stacked([file for file, _ in pictures], size), torch.tensor(classes) if classes else None
    if source.suffix in KINDS:
        if size is not None:
            raise BadInput(f"--size is for pictures; {source.name} holds arrays, which are taken as they are.")
        x, names, labels = _from_arrays(source)
        rows = (list(range(len(x))) if mixed is None else _mixed(len(x), labels, mixed))[:limit]
        return x[rows], [names[i] for i in rows], None if labels is None else labels[rows]
    if source.suffix.lower() in ENDINGS and source.is_file():
        return *_stacked([source], size), None
    if not source.exists():
        raise BadInput(f"There is no file or folder {path}.")
    raise BadInput(f"{path} is neither a folder of pictures nor a picture nor one of {', '.join(KINDS)}.")


def _mixed(n: int, labels: Tensor | None, seed: int | None) -> list[int]:
    """Rows in a random order; where each has a class, the classes take turns.

    >>> [int(label) for label in torch.tensor([5, 5, 5, 7])[_mixed(4, torch.tensor([5, 5, 5, 7]), 0)]]
    [5, 7, 5, 5]
    """
    order = np.random.default_rng(seed).permutation(n).tolist()
    if labels is None or labels.ndim != 1:
        return order
    by_class: dict[int, list[int]] = {}
    for row in order:
        by_class.setdefault(int(labels[row]), []).append(row)
    turns = zip_longest(*(by_class[label] for label in sorted(by_class)))
    return [row for turn in turns for row in turn if row is not None]


def count_images(path: str | Path) -> int:
    """How many images a folder or file has, without decoding pictures."""
    source = user_path(path)
    if source.is_dir():
        return len(_in_folder(source))
    return len(_from_arrays(source)[0]) if source.suffix in KINDS else 1


def classes_in(path: str | Path) -> tuple[str, ...]:
    """The names of the folders of pictures in a folder without pictures; none of anything else."""
    source = user_path(path)
    return () if not source.is_dir() or _pictures(source) else tuple(_class_folders(source))


def labels_in_table(csv: str | Path, pictures: Sequence[str]) -> tuple[list[str], Tensor]:
    """The labels of pictures in a table with the columns image (the names of their files) and label: (names, numbers).

    Names are in rising order, numbers by value.
    """
    table = _Table(user_path(csv).parent, str(csv))
    labels = table.texts("label", "label", empty=False)
    by_picture = {Path(name).stem: label for name, label in zip(table.texts("image", "image"), labels, strict=True)}
    missing = [name for name in pictures if name not in by_picture]
    if missing:
        raise BadInput(f"{csv} has no label for {len(missing)} of {len(pictures)} pictures, such as {missing[0]}.")
    names = _rising(by_picture[name] for name in pictures)
    return names, torch.tensor([names.index(by_picture[name]) for name in pictures])


def _in_folder(folder: Path) -> list[tuple[Path, int | None]]:
    """The pictures of a folder, or by turns those of its class folders, each with its label where there is one."""
    files: list[tuple[Path, int | None]] = [(file, None) for file in _pictures(folder)]
    if not files:
        by_class = [[(file, k) for file in files] for k, files in enumerate(_class_folders(folder).values())]
        files = [file for turn in zip_longest(*by_class) for file in turn if file is not None]
    if not files:
        raise BadInput(f"There are no pictures ({', '.join(ENDINGS)}) in {folder}, nor in folders in it.")
    return files


def _class_folders(folder: Path) -> dict[str, list[Path]]:
    """The pictures of every folder in a folder, by name; of none where there are no pictures at all."""
    inner = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    pictures = {f.name: _pictures(f) for f in inner}
    return pictures if any(pictures.values()) else {}


def _pictures(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in ENDINGS and not f.is_fifo())


def _stacked(files: list[Path], size: int | None) -> tuple[Tensor, list[str]]:
    """Picture files as one tensor, cut to a size, or as they are if all are of one size; and their names."""
    if size is not None:
        crop = CentreCrop(size)
        pixels = [crop.picture(file) for file in files]
    else:
        pixels = []
        for file in files:
            with opened_picture(file) as picture:
                pixels.append(np.asarray(picture.convert("RGB")).transpose(2, 0, 1))
    first = {f"{image.shape[2]}x{image.shape[1]}": file.name for file, image in zip(files, pixels, strict=True)}
    if len(first) > 1:
        seen = [f"{name} is {size}" for size, name in list(first.items())[:3]]
        more = f" and {len(first) - 3} more" if len(first) > 3 else ""
        raise BadShape(
            f"The pictures have {len(first)} sizes ({', '.join(seen)}{more}), and a network sees one: give --size 224 "
            "to scale each and keep the middle 224x224 pixels."
        )
    return torch.from_numpy(np.stack(pixels)).float() / 255, [file.stem for file in files]


def _from_arrays(file: Path) -> NamedImages:
    arrays = read_arrays(file)
    if "images" not in arrays and len(arrays) != 1:
        raise BadInput(f"{file.name} holds {', '.join(arrays)}; one of its arrays must be called 'images'.")
    x = arrays.get("images", next(iter(arrays.values())))
    if x.dtype.kind not in "fiub":
        raise BadInput(f"The images in {file.name} are numbers, not {x.dtype}.")
    if x.ndim == 3:
        x = x[:, None]
    if x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or not len(x):
        raise BadShape(f"The images in {file.name} must be (n, c, h, w), not {x.shape}.")
    pixels = torch.from_numpy(np.ascontiguousarray(x)).float()
    if not pixels.isfinite().all():
        raise BadInput(f"The images in {file.name} have NaN or infinite pixels.")
    if x.dtype == np.uint8:
        pixels = pixels / 255
    labels = torch.from_numpy(arrays["labels"].astype(np.int64)) if "labels" in arrays else None
    return pixels, [str(i) for i in range(len(pixels))], labels


WAYS = "a folder with one folder of pictures per class, or an array file with 'images' and 'labels'"
"""How training images are given."""


def read_training_images(path: str | Path, shape: tuple[int, int, int], labelled: bool = True) -> Split:
    """Training images of shape (c, h, w) with their labels; where these are not needed and not there, all are 0.

    Classes are numbered by the names of their folders in rising order, as the outputs of the network are. Pictures are
    scaled and cut to the shape, and decoded when they are read.
    """
    source = user_path(path)
    if source.is_dir():
        classes, (_, height, width) = class_folders(source), shape
        if labelled and len(classes) < 2:
            raise BadInput(f"{source} has {len(classes)} class folders: give {WAYS}.")
        if height != width:
            raise BadInput(
                f"The images are {height}x{width} pixels, and pictures are cut to squares: give the training images as "
                "an array file with 'images' and 'labels'."
            )
        files = FileList(source)
        for number, name in enumerate(classes if len(classes) > 1 else ["."]):
            files.add_folder(name, number)
        split = files.split("train", CentreCrop(height))
    elif source.suffix in KINDS:
        x, _, labels = read_images(source)
        if labelled and labels is None:
            raise BadInput(f"{path} holds no 'labels': give {WAYS}.")
        split = Split("train", x, torch.zeros(len(x), dtype=torch.long) if labels is None else labels)
    else:
        fault = "is neither a folder nor an array file" if source.exists() else "is not there"
        raise BadInput(f"{path}, for the training images, {fault}: give {WAYS}.")
    if split.shape != shape:
        raise BadShape(
            f"The training images in {path} are {split.shape} (channels, rows, columns), the images {shape}."
        )
    return split
