"""Tasks made of another task: watermarks with random labels, backdoors, mosaics, shuffled training labels.

In `semi-natural` (after Zhou et al. 2022 and Li et al. 2023) the new labels have nothing to do with what a photo shows,
so a network that gets them right must use the watermark: the marked pixels are the truth for attributions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from uproar.data.photographs import NOWHERE
from uproar.data.planted import glyph_shapes
from uproar.data.registry import tasks
from uproar.data.stream import Source, digest_of
from uproar.data.task import Split, Task, balanced
from uproar.errors import BadInput
from uproar.seeds import Draws, generator
from uproar.tensors import spans


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
    corners = torch.zeros(len(split), 2, dtype=torch.long)
    if place == "random":
        room = torch.tensor(split.shape[1:]) - torch.tensor(mark.bright.shape[1:]) + 1
        corners = (draws.uniform("semi-natural place", 2) * room).long()
    return Split(split.name, mark.on(split.images, labels, corners), labels, boxes=mark.boxes_of(labels, corners))


@tasks.declare(images="one grey, as many as another task has", truth="none")
def blank(task: Task, *, level: Annotated[float, Field(ge=0, le=1)] = 0.5) -> Task:
    """Another task's labels and sizes on empty images: semi-natural(blank(cifar100)) is purely synthetic."""
    train, test = (
        Split(split.name, torch.full((len(split), *split.shape), level), split.labels)
        for split in (task.train, task.test)
    )
    return replace(task, name=f"blank({task.name})", train=train, test=test)


@tasks.declare("label-bits", images="those of another task", truth="that of the other task")
def label_bits(task: Task) -> Task:
    """Another task with several labels per image: the binary digits of its class, label-bits(digits).

    Class 5 of ten has the labels `bit 0` and `bit 2`. Of two classes there is one label, whose network has one logit.
    """
    _require_classes(task, "label-bits")
    bits = max(1, (len(task.classes) - 1).bit_length())
    # the binary digits of each class, the lowest first
    parts = [
        replace(split, labels=(split.labels[:, None] >> torch.arange(bits)) & 1) for split in (task.train, task.test)
    ]
    names = tuple(f"bit {i}" for i in range(bits))
    return replace(task, name=f"label-bits({task.name})", train=parts[0], test=parts[1], classes=names, sparse=False)


@tasks.declare("half-brightness", images="those of another task", truth="the left half, as masks")
def half_brightness(task: Task) -> Task:
    """A value per image of another task: how bright its left half is, half-brightness(digits).

    It is the mean of the pixels there, shifted and scaled so that the training images have mean 0 and deviation 1. All
    pixels of the left half count alike, and no other does.
    """
    values, masks = [], []
    for split in (task.train, task.test):
        half = split.shape[2] // 2
        parts = (split.read(rows)[..., :half] for rows in spans(len(split), split.rows_at_once))
        values.append(torch.cat([part.double().mean((1, 2, 3)) for part in parts]))
        masks.append(torch.zeros(len(split), *split.shape[1:], dtype=torch.bool))
        masks[-1][..., :half] = True
    mean, std = values[0].mean(), values[0].std().clamp_min(1e-6)
    train, test = (
        replace(split, labels=((value - mean) / std).float(), masks=mask, boxes=None)
        for split, value, mask in zip((task.train, task.test), values, masks, strict=True)
    )
    name = f"half-brightness({task.name})"
    return replace(task, name=name, train=train, test=test, classes=("brightness",), sparse=False)


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
    """Another task whose training labels are permuted at random: shuffled-labels(digits).

    Each class keeps its number of images. The test images keep their labels, so that a network trained on this is at
    chance there, and its maps of a class can be compared with those of a network that knows the class.
    """
    train = task.train
    order = torch.randperm(len(train), generator=generator(seed, "shuffled labels", task.name))
    mixed = replace(train, labels=train.labels[order])
    return replace(task, name=f"shuffled-labels({task.name})", train=mixed)


# mosaics of real images: one cell shows the class that is asked about, so that relevance elsewhere is wrong
# After Rao et al. 2022 (GridPG). Their networks are trained on single images and shown mosaics. A task has one size, so
# that here a training image is one image repeated in all cells: to a network that ends in average pooling that is a
# single image, but for the seams.


class Mosaics(Source):
    """Images put together from images of another split, k×k each, when they are read."""

    def __init__(self, images: Tensor | Source, members: Tensor) -> None:
        """`members` are row numbers of the images by cell, (n, k²), row by row."""
        self.images, self.members = images, members

    @property
    def across(self) -> int:
        """Cells in a row."""
        return round(self.members.shape[1] ** 0.5)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        c, h, w = self.images.shape[1:]
        return len(self.members), c, self.across * h, self.across * w

    def read(self, rows: Tensor) -> Tensor:
        k, (c, h, w) = self.across, tuple(self.images.shape[1:])
        parts = self.images[self.members[rows].flatten()].view(len(rows), k, k, c, h, w)
        return parts.permute(0, 3, 1, 4, 2, 5).reshape(len(rows), c, k * h, k * w)

    def digest(self) -> str:
        return digest_of(self.members, self.images.digest() if isinstance(self.images, Source) else self.images)


@tasks.declare(images="mosaics of those of another task", truth="the cell of the class, as boxes")
def grid(
    task: Task,
    *,
    k: Annotated[int, Field(ge=2, le=8)] = 2,
    cell: Annotated[int, Field(ge=0)] | None = None,
    seed: int = 0,
) -> Task:
    """Test images are k×k mosaics of images of different classes, of which one gives the label: grid(cifar10, k=3).

    Each test image of the task is asked about once, in a random cell or always in `cell` (row by row from 0), among
    random test images of other classes. A training image is one image in all cells.
    """
    cells = k * k
    if len(task.classes) < cells:
        raise BadInput(
            f"A mosaic of {k}×{k} images of different classes needs {cells} classes; {task.name} has "
            f"{len(task.classes)}."
        )
    if cell is not None and cell >= cells:
        raise BadInput(f"A mosaic of {k}×{k} images has the cells 0 to {cells - 1}, not {cell}.")
    repeated = torch.arange(len(task.train))[:, None].repeat(1, cells)
    members, places = _members(task.test, cells, cell, Draws.of(seed, len(task.test), "test"))
    height, width = task.shape[1:]
    top, left = places // k * height, places % k * width
    boxes = torch.stack([left, top, left + width - 1, top + height - 1], 1)
    splits = []
    for split, parts, known in ((task.train, repeated, None), (task.test, members, boxes)):
        mosaics = Mosaics(split.images, parts)
        images = mosaics if split.streams else mosaics.read(torch.arange(len(parts)))
        splits.append(Split(split.name, images, split.labels, boxes=known))
    return replace(task, name=f"grid({task.name}, k={k})", train=splits[0], test=splits[1])


def _members(split: Split, cells: int, cell: int | None, draws: Draws) -> tuple[Tensor, Tensor]:
    """Which image stands in each cell of each mosaic, (n, cells), and in which cell the image asked about, (n,)."""
    by_class = [(split.labels == label).nonzero()[:, 0] for label in split.labels.unique()]
    if len(by_class) < cells:
        raise BadInput(f"A mosaic needs test images of {cells} different classes; there are {len(by_class)}.")
    order = draws.permutations("grid classes", len(by_class))
    which = draws.uniform("grid images", cells).double()
    places = (draws.uniform("grid cell") * cells).long() if cell is None else torch.full((len(split),), cell)
    members = torch.empty(len(split), cells, dtype=torch.long)
    for row, (place, label) in enumerate(zip(places.tolist(), split.labels.tolist(), strict=True)):
        others = [by_class[k] for k in order[row].tolist() if int(split.labels[by_class[k][0]]) != label]
        chosen = [rows[int(u * len(rows))] for rows, u in zip(others, which[row, : cells - 1], strict=False)]
        chosen.insert(place, torch.tensor(row))
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

    def painted(self, images: Tensor, labels: Tensor, corners: Tensor) -> Tensor:
        """The images with their marks, the upper left pixel of each at (row, column)."""
        out = images.clone()
        top = 255 if images.dtype == torch.uint8 else 1
        h, w = self.bright.shape[1:]
        for image, label, (row, column) in zip(out, labels.tolist(), corners.tolist(), strict=True):
            part = image[:, row : row + h, column : column + w]
            mark = self.bright[label] * top
            if self.strength < 1:
                mark = self.strength * mark + (1 - self.strength) * part
            part.copy_(torch.where(self.replaced[label], mark.to(images.dtype), part))
        return out

    def on(self, images: Tensor | Source, labels: Tensor, corners: Tensor) -> Tensor | Source:
        """Images with their marks; of a source, painted when they are read."""
        if isinstance(images, Source):
            return WatermarkedImages(images, self, labels, corners)
        return self.painted(images, labels, corners)

    def boxes_of(self, labels: Tensor, corners: Tensor) -> Tensor:
        """The replaced pixels of marked images as boxes, (n, m, 4)."""
        boxes = self.boxes[labels]
        shift = corners.flip(1).repeat(1, 2)[:, None]
        empty = torch.tensor(NOWHERE)
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
        for place, digit in enumerate(str(label).rjust(places)):
            if digit != " ":
                left = 1 + place * (_WIDE + 1)
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


class WatermarkedImages(Source):
    """The images of another source with marks, painted when they are read."""

    def __init__(self, source: Source, mark: Watermark, labels: Tensor, corners: Tensor) -> None:
        self.source, self.mark, self.labels, self.corners = source, mark, labels, corners

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.source.shape

    def read(self, rows: Tensor) -> Tensor:
        return self.mark.painted(self.source.read(rows), self.labels[rows], self.corners[rows])

    def digest(self) -> str:
        strength = repr(self.mark.strength) if self.mark.strength < 1 else ""
        parts = (self.mark.bright, self.mark.replaced, self.labels, self.corners)
        return digest_of(self.source.digest(), *parts, strength)


# backdoors: a trigger pasted into real images decides the class, whatever the image shows
# In a share of the training images a trigger of a random class is pasted, and that class is the label; the rest is as
# it was. All test images have a trigger of another class than their own: a network that follows it uses its pixels.


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
    corners = _corners_of(split, mark, aimed, trigger, place, draws)
    images, boxes = mark.on(split.images, kind, corners), mark.boxes_of(kind, corners)[:, 0]
    masks = None
    if not split.streams:
        white = Watermark(mark.replaced.float(), mark.replaced, mark.boxes)
        masks = white.painted(torch.zeros(n, 1, *split.shape[1:]), kind, corners)[:, 0].bool()
    return Split(split.name, images, torch.where(chosen, aimed, split.labels), masks, boxes)


def _corners_of(split: Split, mark: Watermark, aimed: Tensor, trigger: Trigger, place: Place, draws: Draws) -> Tensor:
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
