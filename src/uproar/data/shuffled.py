"""Training images with one another's labels: what a network learns from them is not in the images."""

from __future__ import annotations

from dataclasses import replace

import torch

from uproar.data.registry import tasks
from uproar.data.task import Task
from uproar.seeds import generator


@tasks.declare("shuffled-labels", images="those of another task", truth="that of the other task")
def shuffled_labels(task: Task, *, seed: int = 0) -> Task:
    """Another task whose training labels are dealt out by chance: shuffled-labels(digits).

    Each class keeps its number of images. The test images keep their labels, so that a network trained on this is at
    chance there, and its maps of a class can be compared with those of a network that knows the class.
    """
    train = task.train
    order = torch.randperm(len(train), generator=generator(seed, "shuffled labels", task.name))
    mixed = replace(train, labels=train.labels[order])
    return replace(task, name=f"shuffled-labels({task.name})", train=mixed)
