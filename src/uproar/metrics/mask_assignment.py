"""Mask assignment: whose mask an image is changed with, and where masks are moved to; drawn for a whole split."""

from __future__ import annotations

import torch
from torch import Tensor

from uproar.data.task import Split
from uproar.errors import NotApplicable
from uproar.metrics.retraining import Masks
from uproar.seeds import generator

ASPECT = 2.0
"""Longer side of a random block over the shorter one, at most."""
_HALVINGS = 30


def mask_donors(split: Split, masks: Masks, seed: int) -> Tensor | None:
    """For each image the image whose mask it is given, (n,); None where that is each image's own, or none.

    Every mask is given exactly once, so that the masks as a whole are the same as before, and to another image than its
    own, except that of a class's only image.
    """
    if masks.of in ("own", "none"):
        return None
    if masks.of == "class" and split.kind != "softmax":
        raise NotApplicable(f"masks of the same class need one class per image, and {split.name} has none")
    groups = [torch.arange(len(split))] if masks.of == "permuted" else _classes(split)
    # the name of the random stream decides the permutation: another name would change published numbers
    draw = generator(seed, f"masks worn: {masks.of}", split.name)
    donors = torch.empty(len(split), dtype=torch.long)
    for rows in groups:
        ring = rows[torch.randperm(len(rows), generator=draw)]
        donors[ring] = ring.roll(1)
    return donors


def random_places(split: Split, seed: int) -> Tensor:
    """For each image three uniform numbers that a random block is made of: its centre and its shape, (n, 3).

    The same for all estimators and fractions, so that differences are paired.
    """
    return torch.rand(len(split), 3, generator=generator(seed, "random places", split.name))


def moved_to(masks: Tensor, places: Tensor) -> Tensor:
    """Masks (n, …, h, w) moved as a whole so that their centre lies where that of a random block of their size would.

    A displacement that is uniform on the torus would cut masks at the border and put them where a mask of their size
    cannot lie: then even random blocks seem to find something, since they lie nearer to the middle than their control.
    """
    centres, area = _centres(masks)
    return moved(masks, (block_centres(places.double(), area, *masks.shape[-2:]) - centres).round().long())


def _centres(masks: Tensor) -> tuple[Tensor, Tensor]:
    """Where the centre of each mask lies, (n, 2), and how many pixels it has, (n,)."""
    h, w = masks.shape[-2:]
    flat = masks.reshape(len(masks), -1, h, w).sum(1, dtype=torch.int32)
    by_row, by_column = flat.sum(2).double(), flat.sum(1).double()
    size = by_row.sum(1).clamp_min(1)
    centres = [(sums * (torch.arange(sums.shape[1]) + 0.5)).sum(1) / size for sums in (by_row, by_column)]
    return torch.stack(centres, 1), size / max(1, masks[0].numel() // (h * w))


class RandomBlocks:
    """A random block of any size for every image of a split, to whose centre masks are moved (`moved_to`).

    All masks of a fraction have one size, whichever estimator made them: their places are found once.
    """

    def __init__(self, split: Split, seed: int) -> None:
        self.places = random_places(split, seed)
        self._centres: dict[tuple[float, int, int], Tensor] = {}

    def moved(self, masks: Tensor, rows: Tensor) -> Tensor:
        """The masks of some images of the split, moved."""
        centres, area = _centres(masks)
        targets = torch.empty_like(centres)
        for size in area.unique().tolist():
            same = area == size
            targets[same] = self._there(size, *masks.shape[-2:])[rows[same]]
        return moved(masks, (targets - centres).round().long())

    def _there(self, area: float, h: int, w: int) -> Tensor:
        if (area, h, w) not in self._centres:
            same = torch.full((len(self.places),), area, dtype=torch.float64)
            self._centres[area, h, w] = block_centres(self.places.double(), same, h, w)
        return self._centres[area, h, w]


def block_centres(places: Tensor, area: Tensor, h: int, w: int) -> Tensor:
    """The centres (n, 2) of blocks of some area: rectangles that grow from a random point, where the image has room.

    >>> block_centres(torch.tensor([[0.5, 0.5, 0.5], [0.0, 0.0, 0.5]]), torch.tensor([4.0, 4.0]), 8, 8).round().tolist()
    [[4.0, 4.0], [1.0, 1.0]]
    """
    shape = ASPECT ** (places[:, 2] - 0.5)  # as block_random draws them
    sides = torch.tensor([float(h), float(w)], dtype=places.dtype)
    middle, reach = places[:, :2] * sides, torch.stack([1 / shape, shape], 1)
    low, high = torch.zeros(len(places), 1).to(places), torch.full((len(places), 1), float(h + w)).to(places) * ASPECT
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        begin, end = (middle - half * reach).clamp_min(0), torch.minimum(middle + half * reach, sides)
        large = ((end - begin).prod(1) > area)[:, None]
        low, high = torch.where(large, low, half), torch.where(large, half, high)
    return (begin + end) / 2


def moved(maps: Tensor, shifts: Tensor) -> Tensor:
    """Maps or masks (n, …, h, w) with each image's moved down and to the right; what leaves comes in at the other side.

    >>> moved(torch.tensor([[[1, 2], [3, 4]]]), torch.tensor([[0, 1]])).tolist()
    [[[2, 1], [4, 3]]]
    """
    h, w = maps.shape[-2:]
    rows = (torch.arange(h) - shifts[:, :1]) % h
    columns = (torch.arange(w) - shifts[:, 1:]) % w
    places = (rows[:, :, None] * w + columns[:, None, :]).flatten(1)
    flat = maps.flatten(-2)
    between = places.view(len(maps), *[1] * (flat.dim() - 2), h * w).expand_as(flat)
    return flat.gather(-1, between).view_as(maps)


def half_of(split: Split, seed: int) -> Tensor:
    """For each image the half (0 or 1) it lies in, (n,): at random, every class divided evenly."""
    draw = generator(seed, "folds", split.name)
    half = torch.empty(len(split), dtype=torch.long)
    assigned = 0
    for rows in _classes(split):
        order = torch.randperm(len(rows), generator=draw)
        half[rows[order]] = (torch.arange(len(rows)) + assigned) % 2
        assigned += len(rows)
    return half


def other_replicate(seed: int) -> int:
    """The replicate whose base model makes another's masks: the one before, for the first the one after."""
    return seed - 1 if seed > 0 else seed + 1


def _classes(split: Split) -> list[Tensor]:
    """The rows of each class; all together where images have no class."""
    if split.kind != "softmax":
        return [torch.arange(len(split))]
    return [(split.labels == k).nonzero()[:, 0] for k in split.labels.unique(sorted=True)]
