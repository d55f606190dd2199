"""Tasks made of another task: watermarks with random labels, backdoors, mosaics, shuffled training labels.

In `semi-natural` (after Zhou et al. 2022 and Li et al. 2023) the new labels have nothing to do with what a photo shows,
so a network that gets them right must use the watermark: the marked pixels are the truth for attributions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from uproar.data.planted import glyph_shapes
from uproar.data.registry import tasks
from uproar.data.stream import Source, digest_of
from uproar.data.task import NOWHERE, Split, Task, balanced
from uproar.errors import BadInput
from uproar.seeds import Draws, generator


class Derived(Source):
    """Images made from those of another source when they are read."""

    def __init__(
        self, shape: tuple[int, int, int, int], make: Callable[[Tensor], Tensor], *parts: Source | Tensor | str
    ) -> None:
        """`make` gives the images of some rows; `parts` are all that they depend on."""
        self._shape, self._make, self._parts = shape, make, parts

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self._shape

    def read(self, rows: Tensor) -> Tensor:
        return self._make(rows)

    def digest(self) -> str:
        return digest_of(*(item.digest() if isinstance(item, Source) else item for item in self._parts))


@tasks.declare("semi-natural", images="those of another task", truth="the watermark, as boxes")
def semi_natural(task: Task, *, kind: Literal["number", "stripes"] = "number", seed: int = 0) -> Task:
    """Another task's images with random labels that a watermark spells: semi-natural(cifar100, kind=stripes).

    `number` is the class in white on a black rectangle in the upper left corner, `stripes` are bands across the image,
    one for each bit of the class. The changed pixels are the truth; class 0 has no stripe.
    """
    make, classes = number_mark if kind == "number" else stripes_mark, len(task.classes)
    mark = make(classes, *task.shape[1:])
    splits = []
    for split in (task.train, task.test):
        draws = Draws.of(seed, len(split), split.name)
        labels = (draws.uniform("semi-natural label") * classes).long().clamp_max(classes - 1)
        corners = torch.zeros(len(split), 2, dtype=torch.long)
        images = mark.on(split.images, labels, corners)
        splits.append(Split(split.name, images, labels, boxes=mark.boxes_of(labels, corners)))
    return Task(f"semi-natural({task.name}, {kind})", splits[0], splits[1], tuple(map(str, range(classes))))


@tasks.declare(images="one grey, as many as another task has", truth="none")
def blank(task: Task) -> Task:
    """Another task's labels and sizes on grey images: semi-natural(blank(cifar100)) is purely synthetic."""
    train, test = (
        Split(split.name, torch.full((len(split), *split.shape), 0.5), split.labels)
        for split in (task.train, task.test)
    )
    return replace(task, name=f"blank({task.name})", train=train, test=test)


@tasks.declare("shuffled-labels", images="those of another task", truth="that of the other task")
def shuffled_labels(task: Task, *, seed: int = 0) -> Task:
    """Another task whose training labels are permuted at random: shuffled-labels(digits).

    Each class keeps its number of images. The test images keep their labels, so that a network trained on this is at
    chance there, and its maps of a class can be compared with those of a network that knows the class.
    """
    train = task.train
    order = torch.randperm(len(train), generator=generator(seed, "shuffled labels", task.name))
    mixed = replace(train, labels=train.labels[order])
    return replace(task, name=f"shuffled-labels({task.name})", train=mixed)


def as_one_label(task: Task) -> Task:
    """A task of two classes as one with a single label, which the second class has: for networks with one logit."""
    if task.kind != "softmax" or len(task.classes) != 2:
        raise BadInput(
            f"output = 'sigmoid' is for labels that are there or not, but {task.name} has {len(task.classes)} classes "
            "of which one is right: leave it out, or take a task with several labels per image."
        )
    parts = [replace(split, labels=split.labels[:, None]) for split in (task.train, task.test)]
    return replace(task, train=parts[0], test=parts[1], classes=task.classes[1:], sparse=True)


# mosaics of real images: one cell shows the class that is asked about, so that relevance elsewhere is wrong
# After Rao et al. 2022 (GridPG). Their networks are trained on single images and shown mosaics. A task has one size, so
# that here a training image is one image repeated in all cells: to a network that ends in average pooling that is a
# single image, but for the seams.


@tasks.declare(images="mosaics of those of another task", truth="the cell of the class, as boxes")
def grid(task: Task, *, k: Annotated[int, Field(ge=2, le=8)] = 2, seed: int = 0) -> Task:
    """Test images are k×k mosaics of images of different classes, of which one gives the label: grid(cifar10, k=3).

    Each test image of the task is asked about once, in a random cell, among random test images of other classes. A
    training image is one image in all cells.
    """
    cells, known = k * k, len(task.test.labels.unique())
    if known < cells:
        raise BadInput(f"A mosaic of {k}×{k} images needs {cells} classes; {task.name} has test images of {known}.")
    repeated = torch.arange(len(task.train))[:, None].repeat(1, cells)
    members, places = _members(task.test, cells, Draws.of(seed, len(task.test), "test"))
    height, width = task.shape[1:]
    top, left = places // k * height, places % k * width
    boxes = torch.stack([left, top, left + width - 1, top + height - 1], 1)
    splits = []
    for split, parts, box in ((task.train, repeated, None), (task.test, members, boxes)):
        read = functools.partial(mosaics, split.images, parts)
        shape = (len(split), split.shape[0], k * height, k * width)
        images = Derived(shape, read, parts, split.images) if split.streams else read(torch.arange(len(split)))
        splits.append(Split(split.name, images, split.labels, boxes=box))
    return replace(task, name=f"grid({task.name}, k={k})", train=splits[0], test=splits[1])


def mosaics(images: Tensor | Source, members: Tensor, rows: Tensor) -> Tensor:
    """Some mosaics of k×k images; `members` are row numbers of the images by cell, (n, k²), row by row."""
    k, (c, h, w) = round(members.shape[1] ** 0.5), tuple(images.shape[1:])
    parts = images[members[rows].flatten()].view(len(rows), k, k, c, h, w)
    return parts.permute(0, 3, 1, 4, 2, 5).reshape(len(rows), c, k * h, k * w)


def _members(split: Split, cells: int, draws: Draws) -> tuple[Tensor, Tensor]:
    """Which image stands in each cell of each mosaic, (n, cells), and in which cell the image asked about, (n,)."""
    by_class = {label: (split.labels == label).nonzero()[:, 0] for label in split.labels.unique().tolist()}
    order = draws.permutations("grid classes", len(by_class))
    which = draws.uniform("grid images", cells).double()
    places = (draws.uniform("grid cell") * cells).long()
    classes, members = list(by_class), torch.empty(len(split), cells, dtype=torch.long)
    for row, (cell, label) in enumerate(zip(places.tolist(), split.labels.tolist(), strict=True)):
        others = [by_class[classes[k]] for k in order[row].tolist() if classes[k] != label]
        chosen = [rows[int(u * len(rows))] for rows, u in zip(others, which[row, : cells - 1], strict=False)]
        chosen.insert(cell, torch.tensor(row))
        members[row] = torch.stack(chosen)
    return members, places


# marks that tell the class of an image: a number in a black rectangle, or bright stripes that spell it in bits
# A mark is a picture per class, the pixels of the image that it replaces, and where in the image it is put.


_DIGITS = (
    "### #.# #.# #.# ###",
    ".#. ##. .#. .#. ###",
    "### ..# ### #.. ###",
    "### ..# ### ..# ###",
    "#.# #.# ### ..# ..#",
    "### #.. ### ..# ###",
    "### #.. ### #.# ###",
    "### ..# ..# ..# ..#",
    "### #.# ### #.# ###",
    "### #.# ### ..# ###",
)
_WIDE, _HIGH = 3, 5
_SHARE = 60 / 224
"""Of the image's sides, the least that a rectangle takes: what Li et al. expect a mark to measure."""


@dataclass(frozen=True)
class Watermark:
    """A mark for each class, all of one size: brightness 0 or 1 and which pixels are replaced, (k, h, w) each."""

    bright: Tensor
    replaced: Tensor
    boxes: Tensor
    """The replaced pixels as boxes within the mark, (k, m, 4)."""
    strength: float = 1.0
    """How far a replaced pixel becomes that of the mark; the rest is the image's."""

    def painted(self, images: Tensor | Source, labels: Tensor, corners: Tensor, rows: slice | Tensor) -> Tensor:
        """Some images with their marks, the upper left pixel of each at (row, column)."""
        out = images[rows]
        out = out.clone() if isinstance(images, Tensor) else out
        top = 255 if out.dtype == torch.uint8 else 1
        h, w = self.bright.shape[1:]
        for image, label, (row, column) in zip(out, labels[rows].tolist(), corners[rows].tolist(), strict=True):
            patch = image[:, row : row + h, column : column + w]
            mark = self.bright[label] * top
            if self.strength < 1:
                mark = self.strength * mark + (1 - self.strength) * patch
            patch.copy_(torch.where(self.replaced[label], mark.to(out.dtype), patch))
        return out

    def on(self, images: Tensor | Source, labels: Tensor, corners: Tensor) -> Tensor | Source:
        """Images with their marks; of a source, painted when they are read."""
        read = functools.partial(self.painted, images, labels, corners)
        if isinstance(images, Tensor):
            return read(slice(None))
        strength = repr(self.strength) if self.strength < 1 else ""
        return Derived(images.shape, read, images, self.bright, self.replaced, labels, corners, strength)

    def boxes_of(self, labels: Tensor, corners: Tensor) -> Tensor:
        """The replaced pixels of marked images as boxes, (n, m, 4)."""
        boxes, empty = self.boxes[labels], torch.tensor(NOWHERE)
        shift = corners.flip(1).repeat(1, 2)[:, None]
        return torch.where((boxes == empty).all(-1, keepdim=True), empty, boxes + shift)


def number_mark(classes: int, height: int, width: int) -> Watermark:
    """The number of the class in white in the middle of a black rectangle, the same rectangle for every class."""
    places = len(str(classes - 1))
    cell = max(1, min(height, width) // 32)
    high, wide = cell * (_HIGH + 2), cell * (places * (_WIDE + 1) + 1)
    if high > height or wide > width:
        raise BadInput(
            f"A number of {places} digits needs {wide}×{high} pixels, but the images have {width}×{height}; "
            "use kind=stripes."
        )
    bright = torch.zeros(classes, _HIGH + 2, places * (_WIDE + 1) + 1)
    for label in range(classes):
        for position, digit in enumerate(str(label).rjust(places)):
            if digit != " ":
                left = 1 + position * (_WIDE + 1)
                rows = [[letter == "#" for letter in row] for row in _DIGITS[int(digit)].split()]
                bright[label, 1 : 1 + _HIGH, left : left + _WIDE] = torch.tensor(rows)
    bright = bright.repeat_interleave(cell, 1).repeat_interleave(cell, 2)
    more_high, more_wide = (max(0, round(_SHARE * side) - taken) for side, taken in ((height, high), (width, wide)))
    left, above = more_wide // 2, more_high // 2
    bright = F.pad(bright, (left, more_wide - left, above, more_high - above))
    high, wide = bright.shape[1:]
    box = torch.tensor([[[0, 0, wide - 1, high - 1]]]).repeat(classes, 1, 1)
    return Watermark(bright, torch.ones_like(bright, dtype=torch.bool), box)


def stripes_mark(classes: int, height: int, width: int) -> Watermark:
    """As many bands of equal height as the class needs bits; the k-th from above is white if bit 2^(k-1) is set."""
    bands = (classes - 1).bit_length()
    if bands > height:
        raise BadInput(f"{classes} classes need {bands} stripes; the images have {height} rows.")
    edges = [round(i * height / bands) for i in range(bands + 1)]
    bright = torch.zeros(classes, height, width)
    boxes = torch.tensor(NOWHERE).repeat(classes, bands, 1)
    for label in range(classes):
        for k in range(bands):
            if label >> k & 1:
                bright[label, edges[k] : edges[k + 1]] = 1
                boxes[label, k] = torch.tensor([0, edges[k], width - 1, edges[k + 1] - 1])
    return Watermark(bright, bright.bool(), boxes)


# backdoors: a trigger pasted into real images decides the class, whatever the image shows
# In half of the training images a trigger of a random class is pasted, and that class is the label; the rest is as it
# was. All test images have a trigger of another class than their own: a network that follows it uses its pixels.


Trigger = Literal["glyph", "frame"]
_SIDE = 5
"""Cells of a trigger's side; a cell is one pixel per 32 of the image's side, at least one."""
_MOST = 64


@tasks.declare(images="those of another task", truth="the trigger, as masks and boxes")
def backdoor(
    task: Task,
    *,
    trigger: Trigger = "glyph",
    strength: Annotated[float, Field(gt=0, le=1)] = 1.0,
    train: Annotated[int, Field(ge=2)] | None = None,
    test: Annotated[int, Field(ge=2)] | None = None,
    seed: int = 0,
) -> Task:
    """Another task's images with triggers that decide the class: backdoor(cifar10, trigger=frame, strength=0.5).

    `glyph` is a white shape of each class in the upper left corner, `frame` a white square's outline at a place that
    depends on the class. `strength` blends it with the image. Half of the training images have one. A test image is
    labelled by its trigger, which is never that of its own class. `train` and `test` are the most images of each split,
    classes balanced.
    """
    classes = len(task.classes)
    if classes > _MOST:
        raise BadInput(f"There are triggers for at most {_MOST} classes; {task.name} has {classes}.")
    mark = trigger_mark(trigger, classes, *task.shape[1:], strength)
    few = [split if n is None else balanced(split, n) for split, n in ((task.train, train), (task.test, test))]
    parts = [_triggered(split, mark, trigger, seed) for split in few]
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
        shapes[:, cell:-cell, cell:-cell] = False
    shapes = torch.cat([shapes, torch.zeros_like(shapes[:1])])
    boxes = torch.tensor([[0, 0, side - 1, side - 1]] * classes + [[*NOWHERE]])[:, None]
    return Watermark(shapes.float(), shapes, boxes, strength)


def _triggered(split: Split, mark: Watermark, trigger: Trigger, seed: int) -> Split:
    n, classes = len(split), len(mark.bright) - 1
    draws = Draws.of(seed, n, split.name)
    chosen = torch.full((n,), split.name == "test") | (draws.uniform("backdoor chosen") < 0.5)
    step = 1 + (draws.uniform("backdoor class") * (classes - 1)).long().clamp_max(classes - 2)
    aimed = (split.labels + step) % classes
    kind = torch.where(chosen, aimed, classes)
    corners = torch.zeros(n, 2, dtype=torch.long) if trigger == "glyph" else _corners_by_class(split, mark, aimed)
    images, boxes = mark.on(split.images, kind, corners), mark.boxes_of(kind, corners)[:, 0]
    masks = None
    if not split.streams:
        white = replace(mark, strength=1.0).on(torch.zeros(n, 1, *split.shape[1:]), kind, corners)
        masks = white[:][:, 0].bool()
    return Split(split.name, images, torch.where(chosen, aimed, split.labels), masks, boxes)


def _corners_by_class(split: Split, mark: Watermark, aimed: Tensor) -> Tensor:
    """A place for each class: row and column of the upper left pixel, (n, 2)."""
    side, classes = mark.bright.shape[1], len(mark.bright) - 1
    room = torch.tensor(split.shape[1:]) - side
    across = next(a for a in range(2, classes + 2) if a * a >= classes)
    if int(room.min()) // (across - 1) < side:
        raise BadInput(
            f"{classes} places of {side}×{side} pixels do not fit into images of {split.shape[2]}×{split.shape[1]}; "
            "use trigger=glyph."
        )
    return torch.stack([aimed // across, aimed % across], 1) * room // (across - 1)
