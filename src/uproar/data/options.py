"""Options that many tasks have, and how a part of a set is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from uproar.data.task import Split, Task, balanced
from uproar.errors import BadOption

Count = Annotated[int, Field(ge=1)] | None
"""How many images of a split are used, the same number of each class as far as possible; none means all."""

Root = str | None
"""Where the set lies; none means the usual places."""


def chosen(task: Task, train: int | None, test: int | None) -> Task:
    """The task with so many training and test images, classes balanced."""
    return replace(task, train=_part(task, task.train, train), test=_part(task, task.test, test))


def _part(task: Task, split: Split, count: int | None) -> Split:
    if count is None:
        return split
    if count > len(split):
        raise BadOption(
            f"{task.name}: {split.name}={count} asks for more than the {len(split)} {split.name} images."
        )
    if count < len(task.classes) and not task.sparse:
        raise BadOption(
            f"{task.name}: {split.name}={count} is fewer than one image for each of the {len(task.classes)} classes."
        )
    return balanced(split, count)
