"""Data sets by name: `load("digits")` gives a Task."""

from uproar.data import cifar, digits, mnist, planted, svhn
from uproar.data.registry import load, tasks
from uproar.data.stream import Pictures, Source
from uproar.data.task import Split, Task

__all__ = [
    "Pictures", "Source", "Split", "Task", "cifar", "digits", "load", "mnist", "planted", "svhn", "tasks",
]  # fmt: skip
