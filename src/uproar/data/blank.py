"""The images of another task with everything painted over: a canvas for marks that are all there is to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field

from uproar.data.registry import tasks
from uproar.data.task import Split, Task


@tasks.declare(images="one grey, as many as another task has", truth="none")
def blank(task: Task, *, level: Annotated[float, Field(ge=0, le=1)] = 0.5) -> Task:
    """Another task's labels and sizes on empty images: semi-natural(blank(cifar100)) is purely synthetic."""
    return replace(task, name=f"blank({task.name})", train=_painted(task.train, level), test=_painted(task.test, level))


def _painted(split: Split, level: float) -> Split:
    c, h, w = split.shape
    grey = torch.full((1, 1, 1, 1), level)
    return Split(split.name, grey.expand(len(split), c, h, w).clone(), split.labels)
