"""Any image set of Hugging Face `datasets`: `hf:uoft-cs/cifar10`. Pictures are decoded when they are read."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uproar.data.registry import Count, Shorter, subsample, tasks
from uproar.data.stream import CentreCrop, Source
from uproar.data.task import Split, Task
from uproar.errors import BadInput, one_line
from uproar.registry import Entry

PREFIX = "hf:"


@functools.cache
def hf_entry(name: str) -> Entry:
    """The task that reads the set `hf:NAME`."""
    short = name.removeprefix(PREFIX)
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
        both = _splits(short, config, learn, judge)
        columns = _columns(both["train"], image, label)
        names = getattr(both["train"].features[columns[1]], "names", None)
        classes = tuple(map(str, names or sorted(set(both["train"][columns[1]]) | set(both["test"][columns[1]]))))
        if size:
            crop = CentreCrop(size, shorter)
        else:
            width, height = both["train"][0][columns[0]].size
            if width != height:
                raise BadInput(f"The first picture is {width}×{height}; say to what size, e.g. size=224.")
            crop = CentreCrop(width, shorter or width)
        parts = [_split(part, rows, columns, classes, crop) for part, rows in both.items()]
        return subsample(Task(name, parts[0], parts[1], classes), train, test)

    read.__doc__ = f"The set {short} of Hugging Face datasets."
    return Entry("task", name, read, {"images": "pictures", "truth": "none"})


tasks.makers[PREFIX] = hf_entry


def _splits(name: str, config: str | None, learn: str, judge: str | None) -> dict[str, Any]:
    import datasets  # an extra, and slow

    try:
        held = datasets.load_dataset(name, config)
    except Exception as error:  # anything from a missing set to a missing network
        raise BadInput(f"hf:{name} cannot be loaded: {one_line(error)}") from None
    usual = next((split for split in ("test", "validation", "valid") if split in held), "test")
    wanted = {"train": learn, "test": judge or usual}
    for option, split in zip(("learn", "judge"), wanted.values(), strict=True):
        if split not in held:
            raise BadInput(f"hf:{name} has no split {split!r} but {', '.join(held)}; say which with {option}=…")
    return {part: held[split] for part, split in wanted.items()}


def _columns(rows: Any, image: str | None, label: str | None) -> tuple[str, str]:
    """The columns of pictures and labels: those given, or the first of their kind."""
    columns = []
    for given, kind, option in ((image, "Image", "image"), (label, "ClassLabel", "label")):
        typed = [name for name, value in rows.features.items() if type(value).__name__ == kind]
        column = given or next(iter(typed), option)
        if column not in rows.features:
            raise BadInput(f"There is no column {column!r} but {', '.join(rows.features)}; say which with {option}=…")
        columns.append(column)
    return columns[0], columns[1]


def _split(name: str, rows: Any, columns: tuple[str, str], classes: tuple[str, ...], crop: CentreCrop) -> Split:
    image, label = columns
    values = list(rows[label])
    named = getattr(rows.features[label], "names", None)
    numbers = {text: i for i, text in enumerate(classes)}
    labels = torch.tensor(values if named else [numbers[str(value)] for value in values])
    return Split(name, Rows(rows, image, crop), labels)


class Rows(Source):
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
        for place, row in enumerate(rows.tolist()):
            pixels[place] = self.crop.picture(*self._content(row))
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
