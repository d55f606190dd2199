"""Who wears whose mask, and which part of the data a base model does not see: drawn for a whole split at once."""

from __future__ import annotations

import torch
from torch import Tensor

from uproar.data.task import Split
from uproar.protocols.protocol import Masks
from uproar.seeds import generator

FOLDS = 2
"""Base models of a cross-fitted replicate: each is trained on the other half."""


def worn(split: Split, masks: Masks, seed: int) -> Tensor | None:
    """For each image the image whose mask it wears, (n,); None where each wears its own, or none.

    Every mask is worn exactly once, so that the masks as a whole are the same as before, and by another image than its
    own, except that of a class's only image.
    """
    if masks.of in ("own", "none"):
        return None
    groups = [torch.arange(len(split))] if masks.of == "permuted" else _classes(split)
    draw = generator(seed, f"masks worn: {masks.of}", split.name)
    found = torch.empty(len(split), dtype=torch.long)
    for rows in groups:
        ring = rows[torch.randperm(len(rows), generator=draw)]
        found[ring] = ring.roll(1)
    return found


def fold_of(split: Split, seed: int, folds: int = FOLDS) -> Tensor:
    """For each image the part of the data it belongs to, (n,): at random, every class divided evenly."""
    draw = generator(seed, "folds", split.name)
    found = torch.empty(len(split), dtype=torch.long)
    dealt = 0
    for rows in _classes(split):
        order = torch.randperm(len(rows), generator=draw)
        found[rows[order]] = (torch.arange(len(rows)) + dealt) % folds
        dealt += len(rows)
    return found


def other_replicate(seed: int) -> int:
    """The replicate whose base model makes another's masks: the one before, for the first the one after."""
    return seed - 1 if seed > 0 else seed + 1


def _classes(split: Split) -> list[Tensor]:
    return [(split.labels == k).nonzero()[:, 0] for k in split.labels.unique(sorted=True)]
