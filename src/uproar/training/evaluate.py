"""Predictions of a network, and how good they are.

The score depends on the kind of task: accuracy (softmax), mean average precision over the labels (sigmoid), or R²
(regression).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from uproar.errors import BadInput
from uproar.models.forward import borrowed, device_of, forward
from uproar.tensors import in_batches, spans
from uproar.training.fit import Rows, prefetch, reader_threads, training_loss
from uproar.types import Images, Kind, Labels, Logits

BATCH = 128
"""Images per forward pass: larger ones are slower on a CPU."""

SCORE_NAMES: dict[Kind, str] = {"softmax": "accuracy", "sigmoid": "mean average precision", "regression": "R²"}
LOSS_NAMES: dict[Kind, str] = {
    "softmax": "cross-entropy",
    "sigmoid": "binary cross-entropy",
    "regression": "squared error",
}


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


def task_score(scores: np.ndarray, labels: Tensor, kind: Kind) -> float:
    """How good the scores (n, k) of test images are: accuracy, mean average precision, or R²."""
    truth = labels.numpy()
    if kind == "softmax":
        return float((scores.argmax(1) == truth).mean())
    columns = truth.reshape(len(truth), -1)
    if kind == "regression":
        return r_squared(scores, columns)
    return mean_average_precision(scores, columns)


def mean_average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """The mean over labels of the average precision; labels that no image has are left out.

    >>> mean_average_precision(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]]))  # (1 + 2/3) / 2
    0.8333333333333333
    """
    each = [average_precision(scores[:, k], truth[:, k]) for k in range(truth.shape[1]) if truth[:, k].any()]
    return float(np.mean(each)) if each else float("nan")


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """The mean precision down to each image that has the label, by falling score; equal scores count together."""
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    falling, hits = scores[order], truth[order].astype(np.float64)
    last = np.append(falling[1:] != falling[:-1], True)  # the last of those with equal scores
    retrieved, ranked = np.cumsum(hits)[last], np.flatnonzero(last) + 1.0
    return float((np.diff(retrieved, prepend=0.0) * retrieved / ranked).sum() / hits.sum())


def r_squared(values: np.ndarray, truth: np.ndarray) -> float:
    """1 − squared error over squared deviation from the mean, the mean over columns.

    >>> r_squared(np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [4.0]]))
    0.7857142857142857
    """
    wide, wanted = values.astype(np.float64), truth.astype(np.float64)
    error = ((wide - wanted) ** 2).sum(0)
    spread = ((wanted - wanted.mean(0)) ** 2).sum(0)
    return float(np.mean(1 - error / spread))


def loss_bits(scores: np.ndarray, labels: Tensor) -> float:
    """Mean binary cross-entropy per label in bits."""
    logits = torch.from_numpy(scores.astype(np.float64))
    return float(training_loss(logits, labels, "sigmoid")) / float(np.log(2))


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
