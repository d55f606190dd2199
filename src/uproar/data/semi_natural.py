"""Natural images whose class is in a watermark alone: labels are dealt out by chance, then written into the images.

After Zhou et al. 2022 and Li et al. 2023: since the new labels have nothing to do with what a photo shows, a network
that gets them right must look at the mark, so that the marked pixels are the truth for attributions.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from uproar.data.registry import tasks
from uproar.data.stream import Source
from uproar.data.task import Split, Task
from uproar.data.watermark import Watermark, WatermarkedImages, number_mark, stripes_mark
from uproar.errors import BadInput
from uproar.seeds import Draws


@tasks.declare("semi-natural", images="those of another task", truth="the watermark, as boxes")
def semi_natural(
    task: Task,
    *,
    kind: Literal["number", "stripes"] = "number",
    place: Literal["corner", "random"] = "corner",
    seed: int = 0,
) -> Task:
    """Another task's images with random labels that a watermark spells: semi-natural(cifar100, kind=stripes).

    `number` is the class in white on a black rectangle in the upper left corner or at a random place, `stripes` are
    bands across the image, one for each bit of the class. The changed pixels are the truth; class 0 has no stripe.
    """
    make = number_mark if kind == "number" else stripes_mark
    mark = make(len(task.classes), *task.shape[1:])
    parts = [_marked(split, mark, len(task.classes), place, seed) for split in (task.train, task.test)]
    for split in parts:
        missing = torch.bincount(split.labels, minlength=len(task.classes)).argmin()
        if not bool((split.labels == missing).any()):
            raise BadInput(
                f"By chance no {split.name} image got the class {int(missing)}; use more images than {len(split)}, "
                "or another seed."
            )
    name = f"semi-natural({task.name}, {kind})"
    return Task(name, parts[0], parts[1], tuple(str(i) for i in range(len(task.classes))))


def _marked(split: Split, mark: Watermark, classes: int, place: str, seed: int) -> Split:
    draws = Draws.of(seed, len(split), split.name)
    labels = (draws.uniform("semi-natural label") * classes).long().clamp_max(classes - 1)
    corners = _corners(draws, split, mark, place)
    boxes = mark.boxes_of(labels, corners)
    if isinstance(split.images, Source):
        images: Tensor | Source = WatermarkedImages(split.images, mark, labels, corners)
    else:
        images = mark.painted(split.images, labels, corners)
    return Split(split.name, images, labels, boxes=boxes)


def _corners(draws: Draws, split: Split, mark: Watermark, place: str) -> Tensor:
    if place == "corner":
        return torch.zeros(len(split), 2, dtype=torch.long)
    room = torch.tensor(split.shape[1:]) - torch.tensor(mark.bright.shape[1:]) + 1
    return (draws.uniform("semi-natural place", 2) * room).long()
