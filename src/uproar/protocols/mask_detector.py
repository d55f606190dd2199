"""How well a network can see which pixels were removed: one score per pixel, and the area under its ROC curve."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uproar.batches import in_batches
from uproar.models.borrow import home
from uproar.models.small import Block, Normalise
from uproar.seeds import key
from uproar.training import Recipe

WIDTH = 16
BATCH = 128


def finder(channels: int, mean: Tensor, std: Tensor, seed: int) -> nn.Module:
    """A fresh network from images to two scores per pixel, (n, 2, h, w): kept, removed. It sees 9×9 pixels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "initialisation"))
        return nn.Sequential(
            Normalise(mean, std),
            Block(channels, WIDTH),
            Block(WIDTH, WIDTH),
            Block(WIDTH, WIDTH),
            nn.Conv2d(WIDTH, 2, 3, padding=1),
        )


def finder_recipe(recipe: Recipe) -> Recipe:
    """The study's recipe without what would move pixels away from their mask, and half as long.

    Every pixel is a sample: on digits half of the epochs finds masks as well (areas within 0.005), a quarter does not.
    """
    changes = {"augment": (), "label_smoothing": 0.0, "epochs": -(-recipe.epochs // 2)}
    return recipe.model_copy(update=changes)


def pixel_scores(model: nn.Module, images: Tensor) -> Tensor:
    """The two scores of every pixel, (n, 2, h, w)."""
    with torch.inference_mode():
        return in_batches(lambda part: model(part.to(home(model))).cpu(), images, size=BATCH)


def found(scores: Tensor, removed: Tensor) -> Tensor:
    """Per image the area under the ROC curve of the scores for `removed`, (n,); NaN where all or none is removed.

    It is the chance that a removed pixel has a higher score than a kept one, ties counting half.
    """
    margin = (scores[:, 1] - scores[:, 0]).flatten(1).double()
    gone = removed.flatten(1)
    ranks = average_ranks(margin)
    ones = gone.sum(1).double()
    zeros = gone.shape[1] - ones
    above = (ranks * gone).sum(1) - ones * (ones + 1) / 2
    return above / (ones * zeros)


def average_ranks(values: Tensor) -> Tensor:
    """Place of each value in its row from the smallest, 1 first; equal values share the mean of their places.

    >>> average_ranks(torch.tensor([[3.0, 1.0, 3.0]]))
    tensor([[2.5000, 1.0000, 2.5000]], dtype=torch.float64)
    """
    rows = values.contiguous()
    ordered = rows.sort(1).values
    below = torch.searchsorted(ordered, rows, right=False)
    upto = torch.searchsorted(ordered, rows, right=True)
    return (below + upto + 1).double() / 2
