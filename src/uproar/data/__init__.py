"""Data sets by name: `load("digits")` gives a Task."""

from uproar.data import (
    birdsnap,
    blank,
    cifar,
    cub,
    digits,
    folder,
    food,
    imagenet,
    mnist,
    planted,
    semi_natural,
    shuffled,
    svhn,
    tiny_imagenet,
)
from uproar.data.huggingface import PREFIX, hf_entry
from uproar.data.registry import load, tasks
from uproar.data.stream import Pictures, Source
from uproar.data.task import Split, Task

__all__ = [
    "Pictures", "Source", "Split", "Task", "birdsnap", "blank", "cifar", "cub", "digits", "folder", "food",
    "imagenet", "load", "mnist", "planted", "semi_natural", "shuffled", "svhn", "tasks", "tiny_imagenet",
]  # fmt: skip

tasks.makers[PREFIX] = hf_entry
