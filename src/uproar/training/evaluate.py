"""What a network says of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uproar.batches import in_batches
from uproar.models.answer import called
from uproar.models.borrow import borrowed
from uproar.types import Images, Labels, Logits

BATCH = 128
"""Images per forward pass: larger ones are slower on a CPU."""


def predict(model: nn.Module, x: Images, batch_size: int = BATCH) -> Logits:
    """Class scores of every image."""
    with borrowed(model), torch.inference_mode():
        scores = in_batches(lambda part: called(model, _fast(part)), x, size=batch_size)
    return scores.clone()


def accuracy(scores: Logits, labels: Labels) -> float:
    """Share of images whose highest score is the label's.

    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0]))
    0.5
    """
    return float((scores.argmax(1) == labels).double().mean())


def _fast(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
