"""Mask assignment: whose mask an image is changed with, and which fold of the data a base model is not trained on.

Both are drawn for a whole split at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from uproar.data.task import Split
from uproar.protocols.protocol import Masks
from uproar.seeds import generator

FOLDS = 2
"""Base models of a cross-fitted replicate: each is trained on the other half."""


def mask_donors(split: Split, masks: Masks, seed: int) -> Tensor | None:
    """For each image the image whose mask it is given, (n,); None where that is each image's own, or none.

    Every mask is given exactly once, so that the masks as a whole are the same as before, and to another image than its
    own, except that of a class's only image.
    """
    if masks.of in ("own", "none"):
        return None
    groups = [torch.arange(len(split))] if masks.of == "permuted" else _classes(split)
    # the name of the random stream decides the permutation: another name would change published numbers
    draw = generator(seed, f"masks worn: {masks.of}", split.name)
    donors = torch.empty(len(split), dtype=torch.long)
    for rows in groups:
        ring = rows[torch.randperm(len(rows), generator=draw)]
        donors[ring] = ring.roll(1)
    return donors


def fold_of(split: Split, seed: int, folds: int = FOLDS) -> Tensor:
    """For each image its fold, (n,): at random, every class divided evenly."""
    draw = generator(seed, "folds", split.name)
    fold = torch.empty(len(split), dtype=torch.long)
    assigned = 0
    for rows in _classes(split):
        order = torch.randperm(len(rows), generator=draw)
        fold[rows[order]] = (torch.arange(len(rows)) + assigned) % folds
        assigned += len(rows)
    return fold


def other_replicate(seed: int) -> int:
    """The replicate whose base model makes another's masks: the one before, for the first the one after."""
    return seed - 1 if seed > 0 else seed + 1


def _classes(split: Split) -> list[Tensor]:
    return [(split.labels == k).nonzero()[:, 0] for k in split.labels.unique(sorted=True)]
