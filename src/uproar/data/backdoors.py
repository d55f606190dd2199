"""Backdoors: a trigger pasted into real images decides the class, whatever the image shows.

In a share of the training images a trigger of a random class is pasted, and that class is the label; the rest is as it
was. All test images have a trigger of another class than their own: a network that follows it uses its pixels.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.data.photographs import NOWHERE
from uproar.data.planted import glyph_shapes
from uproar.data.registry import tasks
from uproar.data.stream import Source
from uproar.data.task import Split, Task, balanced
from uproar.data.watermark import Watermark, WatermarkedImages
from uproar.errors import BadInput
from uproar.seeds import Draws

Trigger = Literal["glyph", "square", "frame"]
Place = Literal["random", "corner"]
_SIDE = 5
"""Cells of a trigger's side; a cell is one pixel per 32 of the image's side, at least one."""
_MOST = 64


@tasks.declare(images="those of another task", truth="the trigger, as masks and boxes")
def backdoor(
    task: Task,
    *,
    trigger: Trigger = "glyph",
    place: Place = "corner",
    strength: Annotated[float, Field(gt=0, le=1)] = 1.0,
    share: Annotated[float, Field(gt=0, le=1)] = 0.5,
    train: Annotated[int, Field(ge=2)] | None = None,
    test: Annotated[int, Field(ge=2)] | None = None,
    seed: int = 0,
) -> Task:
    """Another task's images with triggers that decide the class: backdoor(cifar10, trigger=square, strength=0.5).

    `glyph` is a white shape of each class, in the upper left corner or at a random place; `square` a white square and
    `frame` its outline, at a place that depends on the class. `strength` blends it with the image; `share` of the
    training images have one. A test image is labelled by its trigger, which is never that of its own class. `train` and
    `test` are the most images of each split, classes balanced.
    """
    classes = len(task.classes)
    if classes > _MOST:
        raise BadInput(f"There are triggers for at most {_MOST} classes; {task.name} has {classes}.")
    mark = trigger_mark(trigger, classes, *task.shape[1:], strength)
    few = [split if n is None else balanced(split, n) for split, n in ((task.train, train), (task.test, test))]
    parts = [_triggered(split, mark, trigger, place, share, seed) for split in few]
    return Task(f"backdoor({task.name}, {trigger})", parts[0], parts[1], task.classes, task.sparse, task.notes)


def trigger_mark(trigger: Trigger, classes: int, height: int, width: int, strength: float = 1.0) -> Watermark:
    """The triggers of all classes, and as the last an empty one for images without."""
    cell = max(1, min(height, width) // 32)
    side = _SIDE * cell
    if side > min(height, width):
        raise BadInput(f"A trigger needs {side}×{side} pixels, but the images have {width}×{height}.")
    if trigger == "glyph":
        shapes = glyph_shapes(classes).repeat_interleave(cell, 1).repeat_interleave(cell, 2)
    else:
        shapes = torch.ones(classes, side, side, dtype=torch.bool)
        if trigger == "frame":
            shapes[:, cell:-cell, cell:-cell] = False
    shapes = torch.cat([shapes, torch.zeros_like(shapes[:1])])
    boxes = torch.tensor([[0, 0, side - 1, side - 1]] * classes + [[*NOWHERE]])[:, None]
    return Watermark(shapes.float(), shapes, boxes, strength)


def _triggered(split: Split, mark: Watermark, trigger: Trigger, place: Place, share: float, seed: int) -> Split:
    n, classes = len(split), len(mark.bright) - 1
    draws = Draws.of(seed, n, split.name)
    testing = split.name == "test"
    chosen = torch.ones(n, dtype=torch.bool) if testing else draws.uniform("backdoor chosen") < share
    step = 1 + (draws.uniform("backdoor class") * (classes - 1)).long().clamp_max(classes - 2)
    aimed = (split.labels + step) % classes
    kind = torch.where(chosen, aimed, classes)
    corners = _corners(split, mark, aimed, trigger, place, draws)
    labels = torch.where(chosen, aimed, split.labels)
    boxes = mark.boxes_of(kind, corners)[:, 0]
    if isinstance(split.images, Source):
        return Split(split.name, WatermarkedImages(split.images, mark, kind, corners), labels, boxes=boxes)
    images = mark.painted(split.images, kind, corners)
    return Split(split.name, images, labels, _masks(split, mark, kind, corners), boxes)


def _corners(split: Split, mark: Watermark, aimed: Tensor, trigger: Trigger, place: Place, draws: Draws) -> Tensor:
    """Where the triggers lie: row and column of the upper left pixel, (n, 2)."""
    side = mark.bright.shape[1]
    room = torch.tensor(split.shape[1:]) - side
    if trigger == "glyph":
        if place == "corner":
            return torch.zeros(len(split), 2, dtype=torch.long)
        return (draws.uniform("backdoor place", 2) * (room + 1)).long()
    classes = len(mark.bright) - 1
    across = next(a for a in range(2, classes + 2) if a * a >= classes)
    if int(room.min()) // (across - 1) < side:
        raise BadInput(
            f"{classes} places of {side}×{side} pixels do not fit into images of {split.shape[2]}×{split.shape[1]}; "
            "use trigger=glyph."
        )
    return torch.stack([aimed // across, aimed % across], 1) * room // (across - 1)


def _masks(split: Split, mark: Watermark, kind: Tensor, corners: Tensor) -> Tensor:
    """The pixels of the triggers, (n, h, w) bool."""
    blank = torch.zeros(len(split), 1, *split.shape[1:])
    white = Watermark(mark.replaced.float(), mark.replaced, mark.boxes)
    return white.painted(blank, kind, corners)[:, 0].bool()
