"""Caltech-UCSD Birds 200-2011: lists of images, labels, boxes and the split, beside the photos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from uproar.data.cropping import CentreCrop
from uproar.data.locations import locate
from uproar.data.options import Count, Root, Shorter, Size
from uproar.data.photographs import FileBoxes, FileList, parse_floats, photo_task, read_columns
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput


@tasks.declare(images="5,994 + 5,794 photos", truth="boxes")
def cub200(
    *, size: Size = 224, shorter: Shorter = 0, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """200 species of birds (Wah et al. 2011) with boxes, the official split; photos are decoded when read."""
    folder = locate("cub200", root)
    ids = {number: i for i, (number, _) in enumerate(read_columns(folder / "classes.txt", 2))}
    classes = [_title(name) for _, name in read_columns(folder / "classes.txt", 2)]
    names = dict(read_columns(folder / "images.txt", 2))
    labels = dict(read_columns(folder / "image_class_labels.txt", 2))
    in_train = dict(read_columns(folder / "train_test_split.txt", 2))
    boxed = _boxes(folder / "bounding_boxes.txt", names)
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


def _title(name: str) -> str:
    return name.partition(".")[2].replace("_", " ") or name


def _boxes(file: Path, names: dict[str, str]) -> Callable[[str], FileBoxes | None]:
    """By name: left, top, width and height in the file become the corners of the box."""
    boxes: dict[str, FileBoxes] = {}
    for number, *values in read_columns(file, 5):
        x, y, width, height = parse_floats(file, values)
        if number in names:
            boxes[f"images/{names[number]}"] = FileBoxes(((x, y, x + width - 1, y + height - 1),))
    return boxes.get
