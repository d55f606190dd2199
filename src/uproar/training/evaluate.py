"""Predictions of a network, and their accuracy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uproar.batches import in_batches, spans
from uproar.errors import BadInput
from uproar.models.borrow import borrowed, device_of
from uproar.models.forward import forward
from uproar.training.rows import Rows, prefetch, reader_threads
from uproar.types import Images, Labels, Logits

BATCH = 128
"""Images per forward pass: larger ones are slower on a CPU."""


def predict(model: nn.Module, x: Images | Rows, batch_size: int = BATCH) -> Logits:
    """Class scores of every image, asked where the model is and given back where the images are.

    `x` is a tensor, or anything that is read some rows at a time (`Rows`), which is then read batch by batch.
    """
    if not len(x):
        raise BadInput("There are no images to ask the model about.")

    def ask(part: Tensor) -> Tensor:
        return forward(model, part.to(device).contiguous(memory_format=torch.channels_last)).to(part.device)

    device = device_of(model)
    with borrowed(model), torch.inference_mode():
        if isinstance(x, Tensor):
            scores = in_batches(ask, x, size=batch_size)
        else:
            read = prefetch(x, spans(len(x), batch_size), reader_threads(device))
            scores = torch.cat([in_batches(ask, part, size=batch_size) for part in read])
    return scores.clone()


def accuracy(scores: Logits, labels: Labels) -> float:
    """Share of images whose highest score is the label's.

    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0]))
    0.5
    """
    return float((scores.argmax(1) == labels).double().mean())
