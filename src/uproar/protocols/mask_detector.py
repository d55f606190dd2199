"""Mask detector: a network that tells which pixels were removed, and the area under its ROC curve per image."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uproar.models.forward import device_of
from uproar.models.small import Block, Normalise
from uproar.seeds import key
from uproar.statistics.correlation import area_under_roc
from uproar.tensors import in_batches
from uproar.training import Recipe

WIDTH = 16
BATCH = 128


def mask_detector(channels: int, mean: Tensor, std: Tensor, seed: int) -> nn.Module:
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


def detector_recipe(recipe: Recipe) -> Recipe:
    """The study's recipe without what would move pixels away from their mask, and half as long.

    Every pixel is a sample: on digits half of the epochs detects masks as well (areas within 0.005), a quarter does
    not.
    """
    changes = {"augment": (), "label_smoothing": 0.0, "epochs": -(-recipe.epochs // 2)}
    return recipe.model_copy(update=changes)


def pixel_scores(model: nn.Module, images: Tensor) -> Tensor:
    """The two scores of every pixel, (n, 2, h, w)."""
    with torch.inference_mode():
        return in_batches(lambda part: model(part.to(device_of(model))).cpu(), images, size=BATCH)


def detection_auc(scores: Tensor, removed: Tensor) -> Tensor:
    """Per image the area under the ROC curve of the scores for `removed`, (n,); NaN where all or none is removed.

    It is the probability that a removed pixel has a higher score than a kept one, ties counting half.
    """
    margin = (scores[:, 1] - scores[:, 0]).flatten(1).double()
    return torch.from_numpy(area_under_roc(margin.numpy(), removed.flatten(1).numpy()))
