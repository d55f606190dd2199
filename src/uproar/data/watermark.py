"""Marks that tell the class of an image: a number in a black rectangle, or bright stripes that spell it in bits.

A mark is a picture per class, the pixels of the image that it replaces, and where in the image it is put.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from uproar.data.photographs import NOWHERE
from uproar.data.stream import Source
from uproar.errors import BadInput

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
                bright[label, 1 : 1 + _HIGH, left : left + _WIDE] = _digit(int(digit))
    bright = bright.repeat_interleave(cell, 1).repeat_interleave(cell, 2)
    more_high, more_wide = (max(0, round(_SHARE * side) - own) for side, own in ((height, high), (width, wide)))
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


def _digit(digit: int) -> Tensor:
    rows = _DIGITS[digit].split()
    return torch.tensor([[letter == "#" for letter in row] for row in rows]).float()


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
        total = hashlib.sha256(self.source.digest().encode())
        for part in (self.mark.bright, self.mark.replaced, self.labels, self.corners):
            total.update(part.contiguous().numpy().tobytes())
        if self.mark.strength < 1:
            total.update(repr(self.mark.strength).encode())
        return total.hexdigest()[:40]
