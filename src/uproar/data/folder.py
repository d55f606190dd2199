"""Pictures of the user's own: a folder per class, or a table of files and labels."""

from __future__ import annotations

import csv as tables
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from uproar.data.cropping import CentreCrop
from uproar.data.label_columns import LabelColumns, Row, flags, numbers, separated
from uproar.data.locations import roots
from uproar.data.options import Count, Shorter, Size
from uproar.data.photographs import (
    ENDINGS,
    FileBoxes,
    FileList,
    class_folders,
    excluded_files,
    parse_floats,
    photo_task,
)
from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.errors import BadInput, BadOption
from uproar.paths import user_path
from uproar.seeds import key

_TEST = ("test", "val", "valid", "validation")
_CORNERS = ("x0", "y0", "x1", "y1")


@tasks.declare("folder", images="your own pictures", truth="boxes, where the table has them")
def folder_task(
    *,
    root: str,
    csv: str | None = None,
    image: str = "image",
    label: str = "label",
    labels: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
    separator: str = "",
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
    one for each of several labels that a picture may have; `separator` parts several in the one column; `values`
    names columns of numbers, which are then learned.
    """
    place = folder_place(root)
    crop, counts = CentreCrop(size, shorter), (train, test)
    noted = _noted(share)
    if csv is not None:
        rows = _Rows.read(place, _table(place, csv), image, split)
        if labels or values or separator:
            columns = _label_columns(rows, label, labels, values, separator, bool(classes))
            listings, titles = _listed(place, rows, columns.rows, share, by_class=False), list(columns.names)
        else:
            texts = rows.texts(label, "label")
            known = _numbered(rows.file, texts, classes, first) if classes else _named(rows.file, texts)
            listings = _listed(place, rows, [known[text] for text in texts], share, by_class=not classes)
            titles = [str(i) for i in range(classes)] if classes else list(known)
        task = photo_task("folder", listings, titles, crop, counts, sparse=bool(classes))
        return noted(task) if rows.splits is None else task
    if labels or values or separator:
        raise BadOption("folder: labels=, values= and separator= say what the columns of a table are: give csv=….")
    if classes:
        raise BadOption("folder: classes=N needs a table (csv=…) whose labels are numbers.")
    two, titles, listings = _tree(place, share)
    task = photo_task("folder", listings, titles, crop, counts)
    return task if two else noted(task)


def _label_columns(
    rows: _Rows, label: str, labels: tuple[str, ...], values: tuple[str, ...], separator: str, numbered: bool
) -> LabelColumns:
    """Several labels or values of each picture."""
    given = [f"{name}=" for name, one in (("labels", labels), ("values", values), ("separator", separator)) if one]
    if len(given) > 1 or numbered:
        both = [*given, *(["classes="] if numbered else [])]
        raise BadOption(f"folder: {' and '.join(both)} say different things of the labels; give one of them.")
    if labels:
        return flags(rows.file, labels, lambda column: rows.texts(column, "labels"))
    if values:
        return numbers(rows.file, values, lambda column: rows.texts(column, "values"))
    return separated(rows.texts(label, "label", empty=True), separator)


def _noted(share: float) -> Callable[[Task], Task]:
    """What adds to a task that its split was made here, since the pictures have none."""

    def noted(task: Task) -> Task:
        test, total = len(task.test), len(task.train) + len(task.test)
        note = (
            f"The pictures have no split of their own: {test} of {total} were set aside as test images "
            f"(share={share:g}), which alone are explained and scored; the others are for training. Say how many with "
            "share=…, or which in a column split or in folders train and test."
        )
        return replace(task, notes=(note,))

    return noted


def _table(place: Path, csv: str) -> Path:
    """The table as it is named, seen from the working folder, or else inside the pictures' folder."""
    given = user_path(csv)
    if given.is_file():
        return given
    inside = place / given
    if not inside.is_file():
        raise BadInput(f"There is no table {csv}: it is neither {given.absolute()} nor {inside}.")
    return inside


def folder_place(root: str) -> Path:
    """The folder as given, or below one of the usual places."""
    given = user_path(root)
    for place in (given, *(data / given for data in roots())):
        if place.is_dir():
            return place.resolve()
    looked = ", ".join(str(place) for place in (Path(), *roots()))
    raise BadInput(f"There is no folder {root}; looked in {looked}.")


def _tree(place: Path, share: float) -> tuple[bool, list[str], tuple[FileList, FileList]]:
    """Whether there are folders for both splits, the classes, and the files of the splits."""
    second = next((name for name in _TEST if (place / name).is_dir()), None)
    if (place / "train").is_dir() and second is not None:
        return True, *_two_trees(place, second)
    classes = class_folders(place)
    if len(classes) < 2:
        raise BadInput(f"{place} has {len(classes)} class folders; a task needs at least two (or a table: csv=…).")
    whole = FileList(place)
    for number, name in enumerate(classes):
        whole.add_folder(name, number)
    return False, classes, _divided(whole, share)


def _two_trees(place: Path, second: str) -> tuple[list[str], tuple[FileList, FileList]]:
    classes = class_folders(place / "train")
    listings = FileList(place), FileList(place)
    for split, listing in zip(("train", second), listings, strict=True):
        for name in class_folders(place / split):
            if name not in classes:
                raise BadInput(
                    f"{place}: the class {name!r} is in {split} but not in train; a network cannot learn it."
                )
            listing.add_folder(f"{split}/{name}", classes.index(name))
    return classes, listings


def _divided(whole: FileList, share: float, by_class: bool = True) -> tuple[FileList, FileList]:
    """Some of each class, or of all, as test: at least one, and never all.

    Which ones is drawn by name, so that a file more or less moves hardly any other to the other side.
    """
    here = whole.without(excluded_files(whole.folder))
    groups: dict[int | Row, list[int]] = {}
    for row, label in enumerate(here.labels):
        groups.setdefault(label if by_class else 0, []).append(row)
    in_test: set[int] = set()
    for members in groups.values():
        count = min(max(1, round(share * len(members))), len(members) - 1)
        in_test.update(sorted(members, key=lambda i: key("folder", "split", here.names[i]))[:count])
    rows = range(len(here.names))
    first, second = ([i for i in rows if (i in in_test) is wanted] for wanted in (False, True))
    return here.take(first), here.take(second)


@dataclass
class _Rows:
    """A table of pictures, checked."""

    file: Path
    names: list[str]
    lines: list[dict[str, str]]
    header: list[str]
    splits: list[str] | None
    boxes: dict[str, FileBoxes] | None

    @classmethod
    def read(cls, place: Path, file: Path, image: str, split: str) -> _Rows:
        """The table, whose columns have these names."""
        try:
            with file.open(encoding="utf-8-sig", newline="") as lines:
                reader = tables.DictReader(lines)
                rows, header = list(reader), list(reader.fieldnames or ())
        except FileNotFoundError:
            raise BadInput(f"There is no table {file}.") from None
        except (OSError, UnicodeDecodeError, tables.Error) as error:
            raise BadInput(f"{file} cannot be read as a table: {error}.") from None
        _check_column(file, header, image, "image")
        names = [_file_in(place, file, row[image], n) for n, row in enumerate(rows, 2)]
        splits = [row[split] for row in rows] if split in header else None
        boxes = _boxes(file, names, rows) if set(_CORNERS) <= set(header) else None
        return cls(file, names, rows, header, splits, boxes)

    def texts(self, column: str, option: str, empty: bool = False) -> list[str]:
        """What stands in a column, which `option` names; an empty place is refused unless it may be `empty`."""
        _check_column(self.file, self.header, column, option)
        values = [(row[column] or "").strip() for row in self.lines]
        if "" in values and not empty:
            what = "label" if option == "label" else repr(column)
            raise BadInput(f"{self.file}, line {values.index('') + 2}: there is no {what}.")
        return values


def _check_column(file: Path, header: Sequence[str], name: str, option: str) -> None:
    if name not in header:
        raise BadInput(f"{file} has no column {name!r} but {', '.join(header)}; say which with {option}=…")


def _file_in(place: Path, table: Path, name: str | None, line: int) -> str:
    """The file a table names, with or without its ending, beside the table or in `images`."""
    for below in ("", "images/"):
        for ending in ("", *ENDINGS):
            candidate = f"{below}{name}{ending}"
            if name and (place / candidate).is_file():
                return candidate
    raise BadInput(f"{table}, line {line}: there is no picture {name!r} in {place}.")


def _boxes(file: Path, names: Sequence[str], rows: Sequence[dict[str, str]]) -> dict[str, FileBoxes]:
    boxes = {}
    for name, row in zip(names, rows, strict=True):
        if all(row[corner] for corner in _CORNERS):
            x0, y0, x1, y1 = parse_floats(file, [row[corner] for corner in _CORNERS])
            boxes[name] = FileBoxes(((x0, y0, x1, y1),))
    return boxes


def _named(file: Path, labels: Sequence[str]) -> dict[str, int]:
    """Labels as names of classes, in rising order; numbers by value."""
    distinct = set(labels)
    if len(distinct) < 2:
        raise BadInput(f"{file} has {len(distinct)} classes; a task needs at least two.")
    whole = all(label.isdigit() for label in distinct)
    return {name: i for i, name in enumerate(sorted(distinct, key=int if whole else None))}


def _numbered(file: Path, labels: Sequence[str], classes: int, first: int) -> dict[str, int]:
    """Labels as the numbers of a network's outputs."""
    last = first + classes - 1
    for line, label in enumerate(labels, 2):
        if not label.isdigit() or not first <= int(label) <= last:
            hint = " Are they counted from 1? Then give first=1." if label == str(classes) else ""
            raise BadInput(f"{file}, line {line}: the label {label!r} is not one of {first} to {last}.{hint}")
    return {label: int(label) - first for label in set(labels)}


def _listed(
    place: Path, rows: _Rows, labels: Sequence[int | Row], share: float, by_class: bool
) -> tuple[FileList, FileList]:
    boxed = None if rows.boxes is None else rows.boxes.get
    whole = FileList(place, boxed=boxed)
    for name, label in zip(rows.names, labels, strict=True):
        whole.add(name, label)
    if rows.splits is None:
        return _divided(whole, share, by_class)
    in_test = [_is_test(rows.file, line, split) for line, split in enumerate(rows.splits, 2)]
    parts = [[i for i, t in enumerate(in_test) if t is wanted] for wanted in (False, True)]
    return whole.take(parts[0]), whole.take(parts[1])


def _is_test(file: Path, line: int, split: str | None) -> bool:
    word = (split or "").strip().lower()
    if word not in ("train", *_TEST):
        raise BadInput(f"{file}, line {line}: the split must be train or test, not {split!r}.")
    return word != "train"
