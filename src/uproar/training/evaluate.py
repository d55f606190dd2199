"""Predictions of a network, and their accuracy."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from uproar.batches import in_batches, spans
from uproar.errors import BadInput
from uproar.models.borrow import borrowed, device_of
from uproar.models.forward import forward
from uproar.training.fit import Rows, prefetch, reader_threads
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


# calibrated negative log-likelihood of the right class, in bits


_LOW, _HIGH = 0.01, 20.0
_NARROWINGS = 24
_GOLDEN = (math.sqrt(5) - 1) / 2


def nll_bits(scores: Logits, labels: Labels) -> Tensor:
    """Negative log-likelihood of the right class of every image, (n,), in bits and float64, after temperature scaling.

    Networks that have memorised their training images are overconfident, so scores are first multiplied by an inverse
    temperature, fitted on the other half of the images (even and odd rows): nothing is fitted to the images it is used
    for. The mean is an upper bound in expectation of the conditional entropy of the class.
    """
    scores = scores.double()
    if len(scores) < 4:
        return _bits(scores, labels)
    result = torch.empty(len(scores), dtype=torch.float64)
    for half in (0, 1):
        mine, other = slice(half, None, 2), slice(1 - half, None, 2)
        result[mine] = _bits(scores[mine] * inverse_temperature(scores[other], labels[other]), labels[mine])
    return result


def inverse_temperature(scores: Tensor, labels: Tensor) -> float:
    """The factor of the scores with the least negative log-likelihood, by golden section: the loss is convex in it."""
    low, high = _LOW, _HIGH

    def loss(factor: float) -> float:
        return float(_bits(scores * factor, labels).mean())

    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_NARROWINGS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2


def _bits(scores: Tensor, labels: Tensor) -> Tensor:
    logs = scores.log_softmax(1).gather(1, labels[:, None])[:, 0]
    return -logs / math.log(2)
