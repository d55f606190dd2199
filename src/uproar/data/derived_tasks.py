"""Tasks made of another task: watermarks with random labels, empty images, shuffled training labels.

In `semi-natural` (after Zhou et al. 2022 and Li et al. 2023) the new labels have nothing to do with what a photo shows,
so a network that gets them right must use the watermark: the marked pixels are the truth for attributions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.batches import spans
from uproar.data.registry import tasks
from uproar.data.stream import Source
from uproar.data.task import Split, Task
from uproar.data.watermark import Watermark, WatermarkedImages, number_mark, stripes_mark
from uproar.errors import BadInput
from uproar.seeds import Draws, generator


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


@tasks.declare(images="one grey, as many as another task has", truth="none")
def blank(task: Task, *, level: Annotated[float, Field(ge=0, le=1)] = 0.5) -> Task:
    """Another task's labels and sizes on empty images: semi-natural(blank(cifar100)) is purely synthetic."""
    return replace(task, name=f"blank({task.name})", train=_painted(task.train, level), test=_painted(task.test, level))


def _painted(split: Split, level: float) -> Split:
    c, h, w = split.shape
    grey = torch.full((1, 1, 1, 1), level)
    return Split(split.name, grey.expand(len(split), c, h, w).clone(), split.labels)


@tasks.declare("label-bits", images="those of another task", truth="that of the other task")
def label_bits(task: Task) -> Task:
    """Another task with several labels per image: the binary digits of its class, label-bits(digits).

    Class 5 of ten has the labels `bit 0` and `bit 2`. Of two classes there is one label, whose network has one logit.
    """
    _require_classes(task, "label-bits")
    bits = max(1, (len(task.classes) - 1).bit_length())
    parts = [replace(split, labels=_bits(split.labels, bits)) for split in (task.train, task.test)]
    names = tuple(f"bit {i}" for i in range(bits))
    return replace(task, name=f"label-bits({task.name})", train=parts[0], test=parts[1], classes=names, sparse=False)


def _bits(labels: Tensor, bits: int) -> Tensor:
    """The binary digits of whole numbers, the lowest first, (n, bits).

    >>> _bits(torch.tensor([5, 2]), 3).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    return (labels[:, None] >> torch.arange(bits)) & 1


@tasks.declare("half-brightness", images="those of another task", truth="the left half, as masks")
def half_brightness(task: Task) -> Task:
    """A value per image of another task: how bright its left half is, half-brightness(digits).

    It is the mean of the pixels there, shifted and scaled so that the training images have mean 0 and deviation 1. All
    pixels of the left half count alike, and no other does.
    """
    values = [_left_brightness(split) for split in (task.train, task.test)]
    mean, std = values[0].mean(), values[0].std().clamp_min(1e-6)
    parts = [
        replace(split, labels=((value - mean) / std).float(), masks=_left_half(split), boxes=None)
        for split, value in zip((task.train, task.test), values, strict=True)
    ]
    name = f"half-brightness({task.name})"
    return replace(task, name=name, train=parts[0], test=parts[1], classes=("brightness",), sparse=False)


def _left_brightness(split: Split) -> Tensor:
    """The mean brightness of the left half of every image, (n,)."""
    half = split.shape[2] // 2
    parts = (split.read(rows)[..., :half] for rows in spans(len(split), split.rows_at_once))
    return torch.cat([part.double().mean((1, 2, 3)) for part in parts])


def _left_half(split: Split) -> Tensor:
    masks = torch.zeros(len(split), *split.shape[1:], dtype=torch.bool)
    masks[..., : split.shape[2] // 2] = True
    return masks


def as_one_label(task: Task) -> Task:
    """A task of two classes as one with a single label, which the second class has: for networks with one logit."""
    _require_classes(task, "output = 'sigmoid'")
    if len(task.classes) != 2:
        raise BadInput(
            f"output = 'sigmoid' is for labels that are there or not, but {task.name} has {len(task.classes)} classes "
            "of which one is right: leave it out, or take a task with several labels per image."
        )
    parts = [replace(split, labels=split.labels[:, None]) for split in (task.train, task.test)]
    return replace(task, train=parts[0], test=parts[1], classes=task.classes[1:], sparse=True)


def _require_classes(task: Task, user: str) -> None:
    if task.kind != "softmax":
        raise BadInput(f"{user} needs a task with one class per image; {task.name} has others ({task.kind}).")


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
