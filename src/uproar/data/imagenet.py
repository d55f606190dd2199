"""ImageNet (ILSVRC 2012): training photos by class, validation photos with labels from one of four places, box XML.

Classes are numbered by their WordNet names in rising order, as trained networks have them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from uproar.data.catalogue import public_dataset
from uproar.data.cropping import CentreCrop
from uproar.data.locations import locate
from uproar.data.options import Count, Root, Shorter, Size
from uproar.data.photographs import (
    FileBoxes,
    FileList,
    class_folders,
    class_titles,
    list_pictures,
    photo_task,
    read_columns,
)
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput, one_line

_XML = ("bbox/val", "Annotations/CLS-LOC/val", "ILSVRC/Annotations/CLS-LOC/val", "Annotation/val")
_SOLUTION = ("LOC_val_solution.csv", "ILSVRC/LOC_val_solution.csv")
_WORDS = ("LOC_synset_mapping.txt", "ILSVRC/LOC_synset_mapping.txt")
_KIT = ("ILSVRC2012_devkit_t12/data", "devkit/data", "data")


@tasks.declare(images="1,281,167 + 50,000 photos", truth="boxes, where their XML files are there")
def imagenet(
    *, size: Size = 224, shorter: Shorter = 0, train: Count = None, test: Count = None, root: Root = None
) -> Task:
    """ILSVRC 2012 (Russakovsky et al. 2015); the labelled validation photos are the test split."""
    folder = locate("imagenet", root)
    data = _first(folder, public_dataset("imagenet").marks)
    assert data is not None, "this is how the folder was found"
    place = data.parent.relative_to(folder).as_posix()
    below = "" if place == "." else f"{place}/"
    wnids = class_folders(data)
    if not wnids:
        raise BadInput(f"{data} has no class folders such as n01440764.")
    labels = {wnid: i for i, wnid in enumerate(wnids)}
    first, second = FileList(folder), FileList(folder)
    for wnid, label in labels.items():
        first.add_folder(f"{below}train/{wnid}", label)
    boxes = _first(folder, _XML)
    _add_validation(second, f"{below}val", labels, boxes)
    if boxes is not None:
        second.boxed = _boxed_by(boxes, wnids, second)
    names = class_titles(wnids, _words(folder))
    return photo_task("imagenet", (first, second), names, CentreCrop(size, shorter), (train, test))


def _first(folder: Path, places: tuple[str, ...]) -> Path | None:
    return next((folder / place for place in places if (folder / place).exists()), None)


def _add_validation(listing: FileList, val: str, labels: dict[str, int], boxes: Path | None) -> None:
    """The validation photos: in class folders, or side by side with their labels elsewhere."""
    place = listing.folder / val
    if not place.is_dir():
        raise BadInput(f"There is no folder {place} with the validation photos.")
    folders = class_folders(place)
    for wnid in folders:
        if wnid not in labels:
            raise BadInput(f"The class {wnid} is in {place} but not in the training folders.")
        listing.add_folder(f"{val}/{wnid}", labels[wnid])
    if folders:
        return
    names = list_pictures(place)
    classes = _validation_labels(listing.folder, names, boxes)
    for name in names:
        own = classes.get(name.partition(".")[0])
        if own is None:
            raise BadInput(f"{place / name} has no label.")
        if own not in labels:
            raise BadInput(f"{place / name} is of the class {own}, which is not in the training folders.")
        listing.add(f"{val}/{name}", labels[own])


def _validation_labels(folder: Path, names: list[str], boxes: Path | None) -> dict[str, str]:
    """The class of each validation photo by name: from the solution table, the development kit or the box files."""
    solution = _first(folder, _SOLUTION)
    if solution is not None:
        with solution.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.reader(lines) if len(row) == 2][1:]
        return {name: prediction.split()[0] for name, prediction in rows if prediction.split()}
    kit = _first(folder, _KIT)
    if kit is not None and (kit / "ILSVRC2012_validation_ground_truth.txt").is_file():
        return _labels_of_kit(kit, names)
    if boxes is not None:
        stems = [name.partition(".")[0] for name in names]
        annotated = {stem: _objects(boxes / f"{stem}.xml")[0] for stem in stems}
        return {stem: objects[0][0] for stem, objects in annotated.items() if objects}
    raise BadInput(
        f"The validation photos of {folder} have no labels: sort them into class folders, or put "
        "ILSVRC2012_devkit_t12, LOC_val_solution.csv or the box files (bbox/val) beside them."
    )


def _labels_of_kit(kit: Path, names: list[str]) -> dict[str, str]:
    """The kit counts classes from 1, in an order of its own, and photos by name."""
    truth = kit / "ILSVRC2012_validation_ground_truth.txt"
    numbers = [number for (number,) in read_columns(truth, 1)]
    wnids = _wnids_of_kit(kit / "meta.mat")
    for number in numbers:
        if number not in wnids:
            raise BadInput(
                f"{truth} has the label {number}, but the classes of the kit are counted from "
                f"{min(wnids, key=int)} to {max(wnids, key=int)}."
            )
    if len(numbers) < len(names):
        raise BadInput(f"{truth} has {len(numbers)} labels, but there are {len(names)} photos.")
    return {f"ILSVRC2012_val_{i:08d}": wnids[number] for i, number in enumerate(numbers, 1)}


def _wnids_of_kit(file: Path) -> dict[str, str]:
    from scipy.io import loadmat  # loads slowly, and few need it

    try:
        synsets = loadmat(file, squeeze_me=True, struct_as_record=False)["synsets"]
        return {str(int(one.ILSVRC2012_ID)): str(one.WNID) for one in synsets if int(one.num_children) == 0}
    except Exception as error:  # a damaged file can fail in any way
        raise BadInput(f"{file} is not the table of the kit's classes ({one_line(error)}).") from None


def _words(folder: Path) -> dict[str, str]:
    place = _first(folder, _WORDS)
    return {} if place is None else {wnid: words for wnid, words in read_columns(place, 2)}


def _boxed_by(place: Path, wnids: list[str], listing: FileList) -> Callable[[str], FileBoxes | None]:
    """Finds the boxes of a photo's own class in its XML file; none where there is no file."""
    classes = dict(zip(listing.names, listing.labels, strict=True))

    def boxed(name: str) -> FileBoxes | None:
        file = place / f"{Path(name).stem}.xml"
        if not file.is_file():
            return None
        objects, size = _objects(file)
        own = wnids[classes[name]]
        return FileBoxes(tuple(box for wnid, box in objects if wnid == own), size)

    return boxed


Objects = list[tuple[str, tuple[float, float, float, float]]]


def _objects(file: Path) -> tuple[Objects, tuple[int, int]]:
    """The class and box of each object in a photo, and the photo's width and height."""

    def number(node: ElementTree.Element, name: str) -> float:
        return float(node.findtext(name, ""))

    try:
        top = ElementTree.parse(file).getroot()
        objects: Objects = []
        for one in top.iter("object"):
            box = one.find("bndbox")
            assert box is not None
            edges = (number(box, "xmin"), number(box, "ymin"), number(box, "xmax"), number(box, "ymax"))
            objects.append((one.findtext("name", ""), edges))
        return objects, (int(number(top, "size/width")), int(number(top, "size/height")))
    except (OSError, ElementTree.ParseError, ValueError, AssertionError) as error:
        raise BadInput(f"{file} is not a box file ({one_line(error)}).") from None
