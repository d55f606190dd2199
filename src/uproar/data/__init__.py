"""Data sets by name: `load("digits")` gives a Task."""

from typing import TYPE_CHECKING

from uproar.lazy import lazy_names

if TYPE_CHECKING:
    from uproar.data.registry import load, tasks
    from uproar.data.stream import Pictures, Source
    from uproar.data.task import Split, Task

# where a set lies on the disk is found without torch, which the rest imports
__getattr__ = lazy_names(
    __name__,
    {
        "Pictures": "uproar.data.stream",
        "Source": "uproar.data.stream",
        "Split": "uproar.data.task",
        "Task": "uproar.data.task",
        "load": "uproar.data.registry",
        "tasks": "uproar.data.registry",
    },
)

__all__ = ["Pictures", "Source", "Split", "Task", "load", "tasks"]
