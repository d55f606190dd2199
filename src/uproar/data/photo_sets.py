"""Public sets of photographs in their official layouts: CUB-200-2011, Birdsnap, Food-101, Tiny-ImageNet.

Lists and tables beside the photos say the classes, the splits and, for three of them, the boxes. Birdsnap is a list of
addresses, and many photos are gone from the web: those that are not on the disk are left out.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from uproar.data.cropping import CentreCrop
from uproar.data.locations import locate
from uproar.data.options import Count, Only, Root, Shorter, Size
from uproar.data.photographs import FileBoxes, FileList, class_titles, parse_floats, photo_task, read_columns
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput, BadOption

PHOTOS = ("download/images", "images", ".")
"""Where the photos may lie below the set's folder, the place of the official script first."""

_SIDE = 64
"""Pixels on each side of the pictures of Tiny-ImageNet."""


@tasks.declare(images="5,994 + 5,794 photos", truth="boxes")
def cub200(
    *, size: Size = 224, shorter: Shorter = 0, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """200 species of birds (Wah et al. 2011) with boxes, the official split; photos are decoded when read."""
    folder = locate("cub200", root)
    ids = {number: i for i, (number, _) in enumerate(read_columns(folder / "classes.txt", 2))}
    classes = [_bird_name(name) for _, name in read_columns(folder / "classes.txt", 2)]
    names = dict(read_columns(folder / "images.txt", 2))
    labels = dict(read_columns(folder / "image_class_labels.txt", 2))
    in_train = dict(read_columns(folder / "train_test_split.txt", 2))
    boxed = _cub_boxes(folder / "bounding_boxes.txt", names)
    listings = FileList(folder, boxed=boxed), FileList(folder, boxed=boxed)
    for number, name in names.items():
        if number not in labels or number not in in_train:
            raise BadInput(f"{folder}: image {number} ({name}) has no label or no split.")
        if labels[number] not in ids:
            raise BadInput(
                f"{folder}: image {number} has the label {labels[number]}, but classes.txt has "
                f"{min(ids, key=int)} to {max(ids, key=int)}."
            )
        listings[in_train[number] != "1"].add(f"images/{name}", ids[labels[number]])
    return photo_task("cub200", listings, classes, CentreCrop(size, shorter), (train, test))


def _bird_name(name: str) -> str:
    return name.partition(".")[2].replace("_", " ") or name


def _cub_boxes(file: Path, names: dict[str, str]) -> Callable[[str], FileBoxes | None]:
    """By name: left, top, width and height in the file become the corners of the box."""
    boxes: dict[str, FileBoxes] = {}
    for number, *values in read_columns(file, 5):
        x, y, width, height = parse_floats(file, values)
        if number in names:
            boxes[f"images/{names[number]}"] = FileBoxes(((x, y, x + width - 1, y + height - 1),))
    return boxes.get


@tasks.declare(images="up to 47,386 + 2,443 photos", truth="boxes")
def birdsnap(
    *, size: Size = 224, shorter: Shorter = 0, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """500 species of birds (Berg et al. 2014) with boxes; photos that were not found on the web are left out."""
    folder = locate("birdsnap", root)
    species = {row["id"]: row["common"] for row in read_table(folder / "species.txt", ("id", "common"))}
    rows = read_table(folder / "images.txt", ("path", "species_id", "bb_x1", "bb_y1", "bb_x2", "bb_y2"))
    in_test = {row["path"] for row in read_table(folder / "test_images.txt", ("path",))}
    place = _photo_folder(folder, [row["path"] for row in rows])
    boxed: dict[str, FileBoxes] = {}
    listings = FileList(folder, boxed=boxed.get), FileList(folder, boxed=boxed.get)
    ids = {number: i for i, number in enumerate(species)}
    for row in rows:
        if row["species_id"] not in ids:
            raise BadInput(
                f"{folder}: {row['path']} has the species {row['species_id']}, but species.txt has "
                f"{', '.join([*ids][:3])} …"
            )
        name = row["path"] if place == "." else f"{place}/{row['path']}"
        listing = listings[row["path"] in in_test]
        listing.add(name, ids[row["species_id"]])
        box = parse_floats(folder / "images.txt", [row[f"bb_{edge}"] for edge in ("x1", "y1", "x2", "y2")])
        boxed[name] = FileBoxes(((box[0], box[1], box[2], box[3]),))
    here = tuple(part.without({n for n in part.names if not (folder / n).is_file()}) for part in listings)
    classes = list(species.values())
    return photo_task("birdsnap", (here[0], here[1]), classes, CentreCrop(size, shorter), (train, test))


def _photo_folder(folder: Path, paths: list[str]) -> str:
    for place in PHOTOS:
        if any((folder / place / path).is_file() for path in paths):
            return place
    raise BadInput(
        f"{folder} has the lists of Birdsnap but none of its photos in {' or '.join(PHOTOS[:2])}; "
        "`uproar data get birdsnap` downloads those that are still on the web."
    )


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
def food101(
    *, size: Size = 224, shorter: Shorter = 0, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """101 dishes (Bossard et al. 2014), the official lists; photos are decoded when read."""
    folder = locate("food101", root)
    classes = [name for (name,) in read_columns(folder / "meta" / "classes.txt", 1)]
    numbers = {name: i for i, name in enumerate(classes)}
    listings = FileList(folder), FileList(folder)
    for split, listing in zip(("train", "test"), listings, strict=True):
        for name in _food_names(folder / "meta", split):
            label = name.partition("/")[0]
            if label not in numbers:
                raise BadInput(f"{folder}: {split} has {name}, but classes.txt has no class {label!r}.")
            listing.add(f"images/{name}.jpg", numbers[label])
    names = [name.replace("_", " ") for name in classes]
    return photo_task("food101", listings, names, CentreCrop(size, shorter), (train, test))


def _food_names(meta: Path, split: str) -> list[str]:
    """The names of a split, from the text list or the same list as JSON."""
    if (meta / f"{split}.txt").is_file():
        return [name for (name,) in read_columns(meta / f"{split}.txt", 1)]
    try:
        held = json.loads((meta / f"{split}.json").read_text(encoding="utf-8"))
        return [str(name) for names in held.values() for name in names]
    except FileNotFoundError:
        raise BadInput(f"There is neither {split}.txt nor {split}.json in {meta}.") from None
    except (ValueError, AttributeError, TypeError):
        raise BadInput(f"{meta / f'{split}.json'} is not a JSON list of names by class.") from None


@tasks.declare("tiny-imagenet", images="100,000 + 10,000 colour 64×64", truth="boxes")
def tiny_imagenet(
    *, only: Only = (), size: Size = _SIDE, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """200 classes of ImageNet at 64×64 with boxes; the labelled validation images are the test split.

    `only=[n01641577, n02106662]` keeps these classes, in this order.
    """
    folder = locate("tiny-imagenet", root)
    whole = [name for (name,) in read_columns(folder / "wnids.txt", 1)]
    classes = _selected_classes(whole, only, folder)
    numbers_of = {name: i for i, name in enumerate(classes)}
    boxes: dict[str, FileBoxes] = {}
    listings = FileList(folder, boxed=boxes.get), FileList(folder, boxed=boxes.get)
    for wnid, label in numbers_of.items():
        listings[0].add_folder(f"train/{wnid}/images", label)
        table = folder / "train" / wnid / f"{wnid}_boxes.txt"
        for name, *box in read_columns(table, 5):
            boxes[f"train/{wnid}/images/{name}"] = _tiny_box(table, box)
    table = folder / "val" / "val_annotations.txt"
    for name, wnid, *box in read_columns(table, 6):
        if wnid not in whole:
            raise BadInput(f"{table}: {name} is of the class {wnid}, which wnids.txt does not have.")
        if wnid not in numbers_of:
            continue
        listings[1].add(f"val/images/{name}", numbers_of[wnid])
        boxes[f"val/images/{name}"] = _tiny_box(table, box)
    words = dict(read_columns(folder / "words.txt", 2)) if (folder / "words.txt").is_file() else {}
    names = class_titles(classes, words)
    return photo_task("tiny-imagenet", listings, names, CentreCrop(size, size), (train, test))


def _selected_classes(whole: Sequence[str], only: Sequence[str], folder: Path) -> Sequence[str]:
    """The classes asked for, of those there are; all where none are named."""
    missing = [name for name in only if name not in whole]
    if missing:
        raise BadOption(
            f"tiny-imagenet: only= names {', '.join(missing)}, but wnids.txt in {folder} has no such class."
        )
    return only or whole


def _tiny_box(table: Path, values: list[str]) -> FileBoxes:
    x0, y0, x1, y1 = parse_floats(table, values)
    return FileBoxes(((x0, y0, x1, y1),), (_SIDE, _SIDE))
