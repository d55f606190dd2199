"""Options that many tasks have, and how a part of a set is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from uproar.data.task import Split, Task, balanced_rows
from uproar.errors import BadOption

Count = Annotated[int, Field(ge=1)] | None
"""How many images of a split are used, the same number of each class as far as possible; none means all."""


def _several(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) == 1 or len(set(names)) < len(names):
        raise ValueError("must name at least two classes, each once")
    return names


Only = Annotated[tuple[str, ...], AfterValidator(_several)]
"""Which classes of a set are used, in this order; none means all."""

Root = str | None
"""Where the set lies; none means the usual places."""

Size = Annotated[int, Field(ge=8)]
"""Pixels on each side of a photo after the crop."""

Shorter = Annotated[int, Field(ge=0)]
"""What the shorter side is scaled to before the crop; 0 is the usual 256 for 224, in proportion."""


def subsample(task: Task, train: int | None, test: int | None) -> Task:
    """The task with so many training and test images, classes balanced."""

    def part(split: Split, count: int | None) -> Split:
        rows = subsample_rows(task.name, split.name, split.labels, len(task.classes), count)
        return split if count is None else split.take(rows)

    return replace(task, train=part(task.train, train), test=part(task.test, test))


def subsample_rows(
    task: str, split: str, labels: Tensor, classes: int, count: int | None, sparse: bool = False
) -> Tensor:
    """Which images `count` of a split are, classes balanced, or the first where there are none; none means all."""
    if count is None:
        return torch.arange(len(labels))
    if count > len(labels):
        raise BadOption(f"{task}: {split}={count} asks for more than the {len(labels)} {split} images.")
    if labels.dim() > 1:
        return torch.arange(count)
    if count < classes and not sparse:
        raise BadOption(f"{task}: {split}={count} is fewer than one image for each of the {classes} classes.")
    return balanced_rows(labels, count)
