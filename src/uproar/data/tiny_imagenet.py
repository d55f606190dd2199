"""Tiny-ImageNet: training images by class with boxes, and the validation images with a table of labels and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uproar.data.cropping import CentreCrop
from uproar.data.locations import locate
from uproar.data.options import Count, Only, Root, Size
from uproar.data.photographs import FileBoxes, FileList, class_titles, parse_floats, photo_task, read_columns
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput, BadOption

_SIDE = 64


@tasks.declare("tiny-imagenet", images="100,000 + 10,000 colour 64×64", truth="boxes")
def tiny_imagenet(
    *, only: Only = (), size: Size = _SIDE, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """200 classes of ImageNet at 64×64 with boxes; the labelled validation images are the test split.

    `only=[n01641577, n02106662]` keeps these classes, in this order.
    """
    folder = locate("tiny-imagenet", root)
    whole = [name for (name,) in read_columns(folder / "wnids.txt", 1)]
    classes = _kept(whole, only, folder)
    numbers_of = {name: i for i, name in enumerate(classes)}
    boxes: dict[str, FileBoxes] = {}
    listings = FileList(folder, boxed=boxes.get), FileList(folder, boxed=boxes.get)
    for wnid, label in numbers_of.items():
        listings[0].add_folder(f"train/{wnid}/images", label)
        table = folder / "train" / wnid / f"{wnid}_boxes.txt"
        for name, *box in read_columns(table, 5):
            boxes[f"train/{wnid}/images/{name}"] = _boxed(table, box)
    table = folder / "val" / "val_annotations.txt"
    for name, wnid, *box in read_columns(table, 6):
        if wnid not in whole:
            raise BadInput(f"{table}: {name} is of the class {wnid}, which wnids.txt does not have.")
        if wnid not in numbers_of:
            continue
        listings[1].add(f"val/images/{name}", numbers_of[wnid])
        boxes[f"val/images/{name}"] = _boxed(table, box)
    words = dict(read_columns(folder / "words.txt", 2)) if (folder / "words.txt").is_file() else {}
    names = class_titles(classes, words)
    return photo_task("tiny-imagenet", listings, names, CentreCrop(size, size), (train, test))


def _kept(whole: Sequence[str], only: Sequence[str], folder: Path) -> Sequence[str]:
    """The classes asked for, of those there are; all where none are named."""
    missing = [name for name in only if name not in whole]
    if missing:
        raise BadOption(
            f"tiny-imagenet: only= names {', '.join(missing)}, but wnids.txt in {folder} has no such class."
        )
    return only or whole


def _boxed(table: Path, values: list[str]) -> FileBoxes:
    x0, y0, x1, y1 = parse_floats(table, values)
    return FileBoxes(((x0, y0, x1, y1),), (_SIDE, _SIDE))
