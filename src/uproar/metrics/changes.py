"""Changed images: what a metric shows to the model. Equal changes are equal values, so they are made once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from uproar.metrics.prepared_batch import BY_VALUE, ByWindow, PixelOrder, PreparedBatch, Scale
from uproar.metrics.registry import Batch
from uproar.removal import count
from uproar.removal.fill import read_fill
from uproar.types import Images, Maps

Side = Literal["most", "least"]


@dataclass(frozen=True)
class Unchanged:
    """The images as they are; the model's outputs to them are known."""

    def images(self, batch: Batch) -> Images:
        return PreparedBatch.of(batch).pixels.clone()


@dataclass(frozen=True)
class Removed:
    """A number of pixels removed from one end of an order; make it with `removed`."""

    side: Side
    count: int
    fill: str = "mean"
    draw: int = 0
    order: PixelOrder = BY_VALUE

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        return self.into(ready, torch.empty_like(ready.pixels))

    def into(self, ready: PreparedBatch, images: Images) -> Images:
        """The changed images, written into a place of their own."""
        if read_fill(self.fill)[0].facts.get("uses_mask"):
            return images.copy_(ready.filled(self.removed_mask(ready), self.fill, self.draw))
        if images.dtype != torch.float32:
            removed, fill = self.removed_mask(ready)[:, None], ready.replacement(self.fill, self.draw)
            return torch.where(removed, fill, ready.pixels, out=images)
        return self._switched(ready, images)

    def moved(self, ready: PreparedBatch, images: Images, before: Removed) -> Images:
        """The changed images, written over those of another cut in the same order: only what lies between changes."""
        cut, old = self._cut(ready), before._cut(ready)
        between = ready.sequence(self.order)[:, min(cut, old) : max(cut, old)].reshape(-1)
        fill = ready.replacement(self.fill, self.draw)
        source = fill if (cut > old) == (self.side == "most") else ready.pixels
        as_rows(images).index_copy_(0, between, as_rows(source).index_select(0, between))
        return images

    def follows(self, other: object, features: int) -> bool:
        """Whether it differs from another change by few pixels of one order, so that moving is quicker than writing."""
        return (
            isinstance(other, Removed)
            and replace(other, count=self.count) == self
            and 4 * abs(self.count - other.count) < features
            and not read_fill(self.fill)[0].facts.get("uses_mask")
        )

    def _switched(self, ready: PreparedBatch, images: Images) -> Images:
        """Bits of the one or the other: a ^ ((a ^ b) & m) with m all ones where the place is before the cut.

        Four passes over whole numbers take a third of the time of a comparison and a choice.
        """
        most = self.side == "most"
        behind = ready.pixels if most else ready.replacement(self.fill, self.draw)
        bits = images.view(torch.int32)
        torch.sub(ready.places_of_values(self.order), self._cut(ready), out=bits)
        bits >>= 31
        bits &= ready.differing(self.fill, self.draw)
        bits ^= behind.view(torch.int32)
        return images

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        ready = PreparedBatch.of(batch)
        first = (ready.places(self.order) < self._cut(ready)).view_as(ready.maps)
        return first if self.side == "most" else ~first

    def _cut(self, ready: PreparedBatch) -> int:
        return self.count if self.side == "most" else ready.maps[0].numel() - self.count


def as_rows(images: Images) -> Tensor:
    """The same memory as one row of channel values per pixel, for images laid out channels last."""
    return images.permute(0, 2, 3, 1).view(-1, images.shape[1])


def removed(
    side: Side, count: int, features: int, fill: str, draw: int = 0, order: PixelOrder = BY_VALUE
) -> Removed | Unchanged:
    """`count` of the pixels removed: nothing and everything are the same from both ends, so written one way."""
    if count == 0:
        return Unchanged()
    if count == features:
        return Removed("most", count, fill, draw)
    return Removed(side, count, fill, draw, order)


@dataclass(frozen=True)
class Thresholded:
    """Pixels removed by value, as a share of the map's maximum.

    `most`: those above max·(1 − share). `least`: those below max·share. An all-zero map loses nothing.
    """

    side: Side
    share: float
    fill: str = "linear"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        maps = PreparedBatch.of(batch).finite
        high = maps.amax((1, 2), keepdim=True)
        return maps > high * (1 - self.share) if self.side == "most" else maps < high * self.share

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        return ready.filled(self.removed_mask(ready), self.fill, self.draw)


@dataclass(frozen=True)
class Above:
    """Pixels removed whose value exceeds a number, whatever the map's maximum."""

    threshold: float
    fill: str = "linear"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        return PreparedBatch.of(batch).finite > self.threshold

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        return ready.filled(self.removed_mask(ready), self.fill, self.draw)


@dataclass(frozen=True)
class AtPercentile:
    """Pixels removed whose value reaches a percentile of the map (`most`), or of its mirror image 1 − map (`least`).

    All equal values at the threshold go, so a map with many of them loses more than was asked for.
    """

    side: Side
    percentile: float
    fill: str = "linear"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        maps = PreparedBatch.of(batch).finite
        values = maps if self.side == "most" else 1 - maps
        return values >= percentile_of(values, self.percentile)

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        return ready.filled(self.removed_mask(ready), self.fill, self.draw)


def percentile_of(maps: Maps, percentile: float) -> Tensor:
    """The percentile of each map, linear between two values, (n, 1, 1)."""
    levels = np.percentile(maps.flatten(1).numpy(), percentile, axis=1, keepdims=True)
    return torch.from_numpy(levels).to(maps)[:, :, None]


@dataclass(frozen=True)
class Regions:
    """Whole windows removed (`most`) or alone left (`least`), as many as cover `point` of `points` equal shares."""

    side: Side
    point: int
    points: int
    size: int = 9
    fill: str = "mean"
    draw: int = 0

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        return ready.filled(self.removed_mask(ready), self.fill, self.draw)

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        ready = PreparedBatch.of(batch)
        windows = torch.from_numpy(ByWindow(self.size).windows(ready))
        needed = -(-self.point * windows.shape[1] // self.points)
        last = windows.sort(1).values[:, needed - 1 : needed]  # the window that makes it enough
        covered = (windows <= last).view_as(ready.maps)
        return covered if self.side == "most" else ~covered


@dataclass(frozen=True)
class Blended:
    """Each pixel between the mean colour and itself, as far as the map says: mean + s·(x − mean).

    `cut` turns s into 0 and 1: at a percentile of each map, or at an absolute value; `top` keeps the values of the
    highest share of pixels and sets the others to 0.
    """

    scale: Scale = "max"
    cut: Literal["none", "percentile", "value", "top"] = "none"
    at: float = 0.0

    def shares(self, batch: PreparedBatch) -> Maps:
        """How much of each pixel is left, (n, h, w)."""
        values = batch.values(self.scale)
        if self.cut == "percentile":
            return (values >= percentile_of(values, self.at)).to(values)
        if self.cut == "value":
            return (values >= self.at).to(values)
        if self.cut == "top":
            places = batch.places(BY_VALUE).view_as(values)
            return torch.where(places < count(self.at, values[0].numel()), values, 0.0)
        return values

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        mean = ready.replacement("mean", 0)
        return mean + self.shares(ready)[:, None] * (ready.pixels - mean)
