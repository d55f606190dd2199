"""The mask reader: a network that sees the mask alone and helps the evaluator, to measure what the mask tells.

A mask encodes where the class depends on which pixels were chosen beyond the values they show (Puli et al. 2024). The
evaluator cannot read that: its masks said nothing in training. The reader learns, from an estimator's own masks, what
to add to the evaluator's scores; the bits that this saves on images it has not seen are a lower bound of the encoding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from uproar.data import Task
from uproar.data.stream import Rows, row_numbers
from uproar.models import ModelSpec
from uproar.models.forward import raw_output
from uproar.models.registry import make
from uproar.seeds import generator
from uproar.training import Recipe

VERSION = 2
"""Raised when readers, or what they are asked, become others."""
STEPS, BATCH = 100, 128
"""Batches that a reader learns from, and masks in each: on digits twice as many find a tenth more."""
WEIGHTS = torch.linspace(0, 1, 11)
"""Shares of the reader's scores that may be added; 0: it has learned nothing of use."""


class ReadMask(nn.Module):
    """A trained evaluator and a reader of the mask: their scores for the label added up, (n, classes).

    Its input is the evaluator's; only the reader is trained.
    """

    def __init__(self, evaluator: nn.Module, reader: nn.Module, shape: tuple[int, int, int], sees_mask: bool) -> None:
        super().__init__()
        self.evaluator, self.reader, self.shape, self.sees_mask = evaluator, reader, shape, sees_mask
        for weight in evaluator.parameters():
            weight.requires_grad_(False)

    def train(self, mode: bool = True) -> ReadMask:
        """As any network; the evaluator stays as it is."""
        super().train(mode)
        self.evaluator.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        c = self.shape[0]
        with torch.no_grad():
            known: Tensor = raw_output(self.evaluator, x if self.sees_mask else x[:, :c])[:, :, 0]
        return known + raw_output(self.reader, mask_alone(x, c))


def mask_alone(x: Tensor, channels: int) -> Tensor:
    """What a reader sees of images that have a mask behind their channels: the mask, in as many channels."""
    return x[:, channels:].expand(-1, channels, -1, -1).contiguous()


def build_reader(spec: ModelSpec, task: Task, seed: int) -> nn.Module:
    """An untrained reader of the explained network's architecture; the mask fills all channels of an image."""
    half = torch.full((task.shape[0],), 0.5)
    return make(spec, seed, task.shape, len(task.classes), half, half)


def reader_recipe(recipe: Recipe) -> Recipe:
    """One pass over all masks, which stay where they are."""
    return recipe.model_copy(update={"epochs": 1, "batch": BATCH, "augment": (), "label_smoothing": 0.0})


class OwnMasks:
    """Images with their own masks: some images at a random share, from the top or from the bottom, any number of times.

    `shown(rows, removed)` gives what the network sees of some test images.
    """

    def __init__(
        self, rows: Tensor, places: Tensor, seed: int, part: int, shown: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        draw, total = generator(seed, "mask reader", part), STEPS * BATCH
        self.places, self.shown = places, shown
        self.images = rows[torch.randint(len(rows), (total,), generator=draw)]
        self.counts = torch.randint(1, max(2, places[0].numel()), (total,), generator=draw)
        self.keeps = torch.rand(total, generator=draw) < 0.5

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: Rows) -> Tensor:
        rows = row_numbers(rows, len(self))
        one = (-1, *[1] * (self.places.dim() - 1))
        important = self.places[self.images[rows]] < self.counts[rows].view(one)
        return self.shown(self.images[rows], important ^ self.keeps[rows].view(one))


def added_share(known: Tensor, more: Tensor, labels: Tensor) -> float:
    """The share of the reader's scores that lowers the log-loss of these images most."""
    scores = known + WEIGHTS.to(more)[:, None, None] * more
    losses = -scores.log_softmax(2).gather(2, labels.expand(len(scores), -1)[:, :, None])
    return float(WEIGHTS[int(losses.mean((1, 2)).argmin())])
