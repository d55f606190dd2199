"""What belongs to a kind of task: the loss that networks learn by, and the score that they are judged by.

softmax      cross-entropy          accuracy
sigmoid      binary cross-entropy   mean average precision over the labels
regression   squared error          R², the mean over the values
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from uproar.types import Kind

SCORE_NAMES: dict[Kind, str] = {"softmax": "accuracy", "sigmoid": "mean average precision", "regression": "R²"}
LOSS_NAMES: dict[Kind, str] = {
    "softmax": "cross-entropy",
    "sigmoid": "binary cross-entropy",
    "regression": "squared error",
}


def training_loss(scores: Tensor, truth: Tensor, kind: Kind, label_smoothing: float = 0.0) -> Tensor:
    """The mean loss of a batch; smoothing moves labels that are there or not towards one half."""
    if kind == "softmax":
        return F.cross_entropy(scores, truth, label_smoothing=label_smoothing)
    wanted = truth.to(scores).view_as(scores)
    if kind == "regression":
        return F.mse_loss(scores, wanted)
    return F.binary_cross_entropy_with_logits(scores, wanted + label_smoothing * (0.5 - wanted))


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
