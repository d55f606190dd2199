"""Calibrated negative log-likelihood of the right class, in bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from uproar.types import Labels, Logits

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
