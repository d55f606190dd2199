"""Tiny-ImageNet: training images by class with boxes, and the validation images with a table of labels and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uproar.data.catalogue import known_set
from uproar.data.cropping import Framing
from uproar.data.locations import located
from uproar.data.options import Count, Only, Root, Size
from uproar.data.photographs import Boxed, Listing, class_titles, numbers, photo_task, rows_of
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
    folder = located(known_set("tiny-imagenet"), root)
    whole = [name for (name,) in rows_of(folder / "wnids.txt", 1)]
    classes = _kept(whole, only, folder)
    numbers_of = {name: i for i, name in enumerate(classes)}
    boxes: dict[str, Boxed] = {}
    listings = Listing(folder, boxed=boxes.get), Listing(folder, boxed=boxes.get)
    for wnid, label in numbers_of.items():
        listings[0].add_folder(f"train/{wnid}/images", label)
        table = folder / "train" / wnid / f"{wnid}_boxes.txt"
        for name, *box in rows_of(table, 5):
            boxes[f"train/{wnid}/images/{name}"] = _boxed(table, box)
    table = folder / "val" / "val_annotations.txt"
    for name, wnid, *box in rows_of(table, 6):
        if wnid not in whole:
            raise BadInput(f"{table}: {name} is of the class {wnid}, which wnids.txt does not have.")
        if wnid not in numbers_of:
            continue
        listings[1].add(f"val/images/{name}", numbers_of[wnid])
        boxes[f"val/images/{name}"] = _boxed(table, box)
    words = dict(rows_of(folder / "words.txt", 2)) if (folder / "words.txt").is_file() else {}
    names = class_titles(classes, words)
    return photo_task("tiny-imagenet", listings, names, Framing(size, size), (train, test))


def _kept(whole: Sequence[str], only: Sequence[str], folder: Path) -> Sequence[str]:
    """The classes asked for, of those there are; all where none are named."""
    missing = [name for name in only if name not in whole]
    if missing:
        raise BadOption(
            f"tiny-imagenet: only= names {', '.join(missing)}, but wnids.txt in {folder} has no such class."
        )
    return only or whole


def _boxed(table: Path, values: list[str]) -> Boxed:
    x0, y0, x1, y1 = numbers(table, values)
    return Boxed(((x0, y0, x1, y1),), (_SIDE, _SIDE))
