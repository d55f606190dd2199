"""Batches and changed images: what a metric is given, and what it shows to the model.

A change is a value: equal changes are made and shown once. A batch remembers what its changes share: ranks, noise,
blurred images. Maps are ranked once per batch; each change then only compares ranks with a number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from uproar.removal import FillContext, count, filled, ranks
from uproar.removal.fill import read_fill, replacement
from uproar.seeds import Draws, generator
from uproar.training.finetune import FineTuning
from uproar.types import Images, Labels, Maps, Ranks

Scale = Literal["none", "max", "minmax", "clamp"]
Side = Literal["most", "least"]


@runtime_checkable
class Change(Protocol):
    """One way of changing images; equal changes are made and shown to the model once. Must be hashable."""

    def images(self, batch: Batch) -> Images:
        """The changed images."""


Outputs = Mapping[Change, Tensor]
"""The model's outputs by change, (n, k) each."""


@runtime_checkable
class PixelOrder(Hashable, Protocol):
    """A way of ranking pixels."""

    def places(self, batch: Batch) -> Ranks:
        """Place of each pixel, (n, h·w); 0 is the most important."""


@dataclass(frozen=True)
class CachedDraws(Draws):
    """Draws that are made once: the same noise serves every change of a batch."""

    _memory: dict[Hashable, Tensor] = field(default_factory=dict, compare=False, repr=False, hash=False)

    def normal(self, purpose: str, *shape: int) -> Tensor:
        return self._once(super().normal, "normal", purpose, *shape)

    def uniform(self, purpose: str, *shape: int) -> Tensor:
        return self._once(super().uniform, "uniform", purpose, *shape)

    def _once(self, draw: Callable[..., Tensor], kind: str, purpose: str, *shape: int) -> Tensor:
        key = (kind, purpose, shape)
        if key not in self._memory:
            self._memory[key] = draw(purpose, *shape)
        return self._memory[key]


@dataclass(frozen=True)
class Batch:
    """Some images with their maps, and what surrounds them. It remembers what its changes share."""

    model: nn.Module
    x: Images
    target: Labels
    """The class whose score is followed."""
    maps: Maps
    clean: Tensor
    """The model's outputs to the unchanged images, (n, k), as the model gives them (logits)."""
    draws: Draws
    mean: Tensor | None = None
    """Mean colour of the training images, (c,)."""
    truth: Tensor | None = None
    """The important pixels, (n, h, w) bool, where they are known; those in the boxes where only boxes are."""
    explain: Callable[[nn.Module, Images, Labels, Draws], Maps] | None = None
    """Makes maps of other images or of another model, where the maps came from an estimator."""
    train: Tensor | None = None
    """Training images, for fills that draw from them."""
    boxed: Tensor | None = None
    """The pixels in the boxes around what is important, (n, h, w) bool, where boxes are known."""
    fine_tuned: Callable[[FineTuning], nn.Module] | None = None
    """Copies of the model, fine-tuned on the training images, where these are known; each is made once."""

    @functools.cached_property
    def _memory(self) -> dict[Hashable, Any]:
        return {}

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` returned when this key was first asked for."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    @functools.cached_property
    def pixels(self) -> Images:
        """The images with the channels of a pixel side by side in memory, as convolutions like them."""
        return self.x.contiguous(memory_format=torch.channels_last)

    @functools.cached_property
    def usable(self) -> Tensor:
        """Images whose map is finite, (n,); the others have no value."""
        return torch.isfinite(self.maps).flatten(1).all(1)

    @functools.cached_property
    def finite(self) -> Maps:
        """The maps, with 0 everywhere in those that are not finite."""
        return torch.where(self.usable[:, None, None], self.maps, torch.zeros_like(self.maps))

    @functools.cached_property
    def with_values(self) -> Tensor:
        """Images whose map says something by its values, (n,): finite, not constant, and somewhere positive."""
        high, low = self.maps.flatten(1).amax(1), self.maps.flatten(1).amin(1)
        return self.usable & (high > 0) & (high > low)

    def values(self, scale: Scale) -> Maps:
        """The maps scaled image by image."""
        return self.once(("values", scale), lambda: scaled(self.finite, scale))

    def places(self, order: PixelOrder) -> Ranks:
        """Places of the pixels in an order, (n, h·w)."""
        return self.once(order, lambda: order.places(self))

    def places_of_values(self, order: PixelOrder) -> Tensor:
        """The same for every channel value, (n, c, h, w): to fill all channels by one mask of their own is faster."""

        def expanded() -> Tensor:
            places = self.places(order).view(len(self.x), 1, *self.x.shape[2:])
            return places.expand_as(self.x).contiguous(memory_format=torch.channels_last)

        return self.once(("places of values", order), expanded)

    def around(self, draw: int) -> FillContext:
        """What fills may know; other draws than 0 are independent of it."""

        def make() -> FillContext:
            chosen = self.draws if draw == 0 else self.draws.copies([draw])
            return FillContext(CachedDraws(chosen.seed, chosen.rows, chosen.split), self.mean, self.train)

        return self.once(("around", draw), make)

    def replacement(self, fill: str, draw: int) -> Images:
        """What stands in removed places, for a fill that does not look at which those are."""

        def make() -> Images:
            n, _, h, w = self.x.shape
            everything = torch.ones(n, h, w, dtype=torch.bool)
            images = replacement(self.x, everything, fill, self.around(draw))
            return images.contiguous(memory_format=torch.channels_last)

        return self.once(("fill", fill, draw), make)

    def filled(self, removed: Tensor, fill: str, draw: int) -> Images:
        """The images with removed pixels, (n, h, w), replaced."""
        if uses_mask(fill):
            return filled(self.x, removed, fill, self.around(draw))
        return torch.where(removed[:, None], self.replacement(fill, draw), self.pixels)


def uses_mask(fill: str) -> bool:
    """Whether what a fill puts in depends on which pixels are removed."""
    return bool(read_fill(fill)[0].facts.get("uses_mask"))


def scaled(maps: Maps, scale: Scale) -> Maps:
    """Maps in [0, 1]: `max` sets negative values to 0 and divides by the largest, `minmax` shifts to 0 first.

    `clamp` cuts at 0 and 1, `none` takes the maps as they are. A map without a positive value, or for `minmax` a
    constant one, becomes 0.
    """
    if scale == "none":
        return maps
    if scale == "clamp":
        return maps.clamp(0, 1)
    low = torch.zeros_like(maps[:, :1, :1]) if scale == "max" else maps.amin((1, 2), keepdim=True)
    rest = (maps - low).clamp_min(0)
    high = rest.amax((1, 2), keepdim=True)
    return torch.where(high > 0, rest / high, torch.zeros_like(rest))


@dataclass(frozen=True)
class ByValue:
    """Pixels by falling map value; equal ones in the sample's own random order."""

    def places(self, batch: Batch) -> Ranks:
        return ranks(batch.finite.flatten(1), batch.draws)


BY_VALUE = ByValue()


@dataclass(frozen=True)
class ByWindow:
    """Whole windows around the most important pixels that no earlier window covers; inside, by value."""

    size: int = 9

    def windows(self, batch: Batch) -> np.ndarray:
        """Number of the first window that covers each pixel, (n, h·w)."""
        h, w = batch.maps.shape[1:]
        places = batch.places(BY_VALUE)
        return batch.once(("windows", self), lambda: first_windows(places.numpy(), h, w, self.size))

    def places(self, batch: Batch) -> Ranks:
        places = batch.places(BY_VALUE)
        windows = torch.from_numpy(self.windows(batch))
        return (windows.long() * places.shape[1] + places).argsort(1).argsort(1).int()


@dataclass(frozen=True)
class Jittered:
    """Pixels by falling value of the map scaled to [0, 1] plus one field of normal noise, the same for all images."""

    spread: float

    def places(self, batch: Batch) -> Ranks:
        maps = batch.finite
        low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
        values = ((maps - low) / (high - low + 1e-5)).double()
        stream = generator(batch.draws.seed, "jitter", batch.draws.split)
        noise = torch.randn(maps.shape[1:], generator=stream, dtype=torch.float64)
        return ranks((values + self.spread * noise).flatten(1), batch.draws)


def first_windows(places: np.ndarray, h: int, w: int, size: int) -> np.ndarray:
    """Number of the first window that covers each pixel, (n, h·w).

    Windows are placed around the most important pixel that is not covered yet; at the border they are cut off. Even
    sizes reach one further up and left.
    """
    windows = np.full((len(places), h, w), -1, dtype=np.int32)
    before, after = size // 2, (size - 1) // 2 + 1
    for image, order in zip(windows, np.argsort(places, axis=1), strict=True):
        number = 0
        for row, column in zip(*(patch.tolist() for patch in np.divmod(order, w)), strict=True):
            if image[row, column] < 0:
                patch = image[max(row - before, 0) : row + after, max(column - before, 0) : column + after]
                patch[patch < 0] = number
                number += 1
    return windows.reshape(len(places), h * w)


@dataclass(frozen=True)
class Unchanged:
    """The images as they are; the model's outputs to them are known."""

    def images(self, batch: Batch) -> Images:
        return batch.pixels.clone()


@dataclass(frozen=True)
class Removed:
    """A number of pixels removed from one end of an order; make it with `removed`."""

    side: Side
    count: int
    fill: str = "mean"
    draw: int = 0
    order: PixelOrder = BY_VALUE

    def images(self, batch: Batch) -> Images:
        return self.into(batch, torch.empty_like(batch.pixels))

    def into(self, batch: Batch, images: Images) -> Images:
        """The changed images, written into a place of their own."""
        if uses_mask(self.fill):
            return images.copy_(batch.filled(self.removed_mask(batch), self.fill, self.draw))
        places, cut = batch.places_of_values(self.order), self._cut(batch)
        removed = places < cut if self.side == "most" else places >= cut
        return torch.where(removed, batch.replacement(self.fill, self.draw), batch.pixels, out=images)

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        first = (batch.places(self.order) < self._cut(batch)).view_as(batch.maps)
        return first if self.side == "most" else ~first

    def _cut(self, batch: Batch) -> int:
        return self.count if self.side == "most" else batch.maps[0].numel() - self.count


def removed(
    side: Side, count: int, features: int, fill: str, draw: int = 0, order: PixelOrder = BY_VALUE
) -> Removed | Unchanged:
    """`count` of the pixels removed: nothing and everything are the same from both ends, so written one way."""
    if count == 0:
        return Unchanged()
    if count == features:
        return Removed("most", count, fill, draw)
    return Removed(side, count, fill, draw, order)


class MaskedChange:
    """Pixels removed that the map's values point out; a subclass says which."""

    fill: str
    draw: int

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        raise NotImplementedError

    def images(self, batch: Batch) -> Images:
        """The images without these pixels."""
        return batch.filled(self.removed_mask(batch), self.fill, self.draw)


@dataclass(frozen=True)
class Thresholded(MaskedChange):
    """Pixels removed by value, as a share of the map's maximum.

    `most`: those above max·(1 − share). `least`: those below max·share. An all-zero map loses nothing.
    """

    side: Side
    share: float
    fill: str = "linear"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        maps = batch.finite
        high = maps.amax((1, 2), keepdim=True)
        return maps > high * (1 - self.share) if self.side == "most" else maps < high * self.share


@dataclass(frozen=True)
class Above(MaskedChange):
    """Pixels removed whose value exceeds a number, whatever the map's maximum."""

    threshold: float
    fill: str = "linear"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        return batch.finite > self.threshold


@dataclass(frozen=True)
class AtPercentile(MaskedChange):
    """Pixels removed whose value reaches a percentile of the map (`most`), or of its mirror image 1 − map (`least`).

    All equal values at the threshold go, so a map with many of them loses more than was asked for.
    """

    side: Side
    percentile: float
    fill: str = "linear"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        maps = batch.finite
        values = maps if self.side == "most" else 1 - maps
        return values >= percentile_of(values, self.percentile)


def percentile_of(maps: Maps, percentile: float) -> Tensor:
    """The percentile of each map, linear between two values, (n, 1, 1)."""
    levels = np.percentile(maps.flatten(1).numpy(), percentile, axis=1, keepdims=True)
    return torch.from_numpy(levels).to(maps)[:, :, None]


@dataclass(frozen=True)
class Regions(MaskedChange):
    """Whole windows removed (`most`) or alone left (`least`), as many as cover `point` of `points` equal shares."""

    side: Side
    point: int
    points: int
    size: int = 9
    fill: str = "mean"
    draw: int = 0

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        windows = torch.from_numpy(ByWindow(self.size).windows(batch))
        needed = -(-self.point * windows.shape[1] // self.points)
        last = windows.sort(1).values[:, needed - 1 : needed]  # the window that makes it enough
        covered = (windows <= last).view_as(batch.maps)
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

    def shares(self, batch: Batch) -> Maps:
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
        mean = batch.replacement("mean", 0)
        return mean + self.shares(batch)[:, None] * (batch.pixels - mean)
