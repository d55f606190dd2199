"""Data sets by name: `load("digits")` gives a Task."""

from uproar.data import digits, planted
from uproar.data.registry import load, tasks
from uproar.data.stream import Pictures, Source
from uproar.data.task import Split, Task

__all__ = ["Pictures", "Source", "Split", "Task", "digits", "load", "planted", "tasks"]
