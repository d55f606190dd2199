"""Food-101: photos by class, and lists of what is training and what is test."""

from __future__ import annotations

import json
from pathlib import Path

from uproar.data.cropping import CentreCrop
from uproar.data.locations import locate
from uproar.data.options import Count, Root, Shorter, Size
from uproar.data.photographs import FileList, photo_task, read_columns
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput


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
        for name in _listed(folder / "meta", split):
            label = name.partition("/")[0]
            if label not in numbers:
                raise BadInput(f"{folder}: {split} has {name}, but classes.txt has no class {label!r}.")
            listing.add(f"images/{name}.jpg", numbers[label])
    names = [name.replace("_", " ") for name in classes]
    return photo_task("food101", listings, names, CentreCrop(size, shorter), (train, test))


def _listed(meta: Path, split: str) -> list[str]:
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
