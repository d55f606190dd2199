"""Birdsnap: tables of species, images with boxes, and the test images; the photos themselves as far as they were found.

The set is a list of addresses, and many photos are gone from the web: those that are not on the disk are left out.
"""

from __future__ import annotations

import csv
from pathlib import Path

from uproar.data.cropping import CentreCrop
from uproar.data.locations import locate
from uproar.data.options import Count, Root, Shorter, Size
from uproar.data.photographs import FileBoxes, FileList, parse_floats, photo_task
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput

PHOTOS = ("download/images", "images", ".")
"""Where the photos may lie below the set's folder, the place of the official script first."""


@tasks.declare(images="up to 47,386 + 2,443 photos", truth="boxes")
def birdsnap(
    *, size: Size = 224, shorter: Shorter = 0, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """500 species of birds (Berg et al. 2014) with boxes; photos that were not found on the web are left out."""
    folder = locate("birdsnap", root)
    species = {row["id"]: row["common"] for row in table(folder / "species.txt", ("id", "common"))}
    rows = table(folder / "images.txt", ("path", "species_id", "bb_x1", "bb_y1", "bb_x2", "bb_y2"))
    in_test = {row["path"] for row in table(folder / "test_images.txt", ("path",))}
    place = _place(folder, [row["path"] for row in rows])
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


def _place(folder: Path, paths: list[str]) -> str:
    for place in PHOTOS:
        if any((folder / place / path).is_file() for path in paths):
            return place
    raise BadInput(
        f"{folder} has the lists of Birdsnap but none of its photos in {' or '.join(PHOTOS[:2])}; "
        "`uproar data get birdsnap` downloads those that are still on the web."
    )


def table(file: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
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
