"""The registry of tasks, how a name becomes a Task, and options that many tasks have."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from uproar.data.task import Split, Task, balanced_rows
from uproar.errors import CODE_ERRORS, BadInput, BadOption, UproarError, one_line
from uproar.expression import Call, parse
from uproar.plugins import line_in_file
from uproar.registry import Entry, Registry

_MODULES = ("derived_tasks", "user_images", "photographs", "planted", "small_sets")
tasks = Registry("task", "uproar.tasks", tuple(f"uproar.data.{module}" for module in _MODULES))


def load(name: str) -> Task:
    """The task a text names, e.g. `digits`, `planted(size=16)` or `semi-natural(cifar100)`.

    >>> task = load("planted(size=8, classes=2, train=16, test=4)")
    >>> task.test.images.shape, task.test.labels.tolist()
    (torch.Size([4, 1, 8, 8]), [0, 1, 0, 1])
    """
    return _load(parse(name))


def check_task(name: str) -> None:
    """Refuse a text that cannot name a task, without loading anything."""
    for call in parse(name).walk():
        _entry(call)


def _load(call: Call) -> Task:
    entry = _entry(call)
    inner = [_load(arg) for arg in call.args]
    try:
        task = entry.function(*inner, **entry.bind(**dict(call.options)))
    except UproarError:
        raise
    except CODE_ERRORS as error:
        where = line_in_file(error)
        if not where:
            raise
        raise BadInput(f"The task {call.name} cannot be loaded: {where}: {one_line(error)}") from error
    if not isinstance(task, Task):
        raise BadInput(f"The task {call.name} must return a uproar.Task, not {type(task).__name__}.")
    return task


def _entry(call: Call) -> Entry:
    """The entry of a call whose inner tasks and options fit it."""
    entry = tasks[call.name]
    if call.args and not entry.inputs:
        raise BadInput(f"The task {call.name!r} takes options such as size=16, not {call.args[0]}.")
    if len(call.args) != len(entry.inputs):
        raise BadInput(
            f"The task {call.name!r} is made of {len(entry.inputs)} other, e.g. {call.name}(digits); "
            f"{len(call.args)} were given."
        )
    entry.bind(**dict(call.options))
    return entry


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

    def sampled(split: Split, count: int | None) -> Split:
        rows = subsample_rows(task.name, split.name, split.labels, len(task.classes), count)
        return split if count is None else split.take(rows)

    return replace(task, train=sampled(task.train, train), test=sampled(task.test, test))


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
