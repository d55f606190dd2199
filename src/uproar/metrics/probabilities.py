"""From the model's outputs to numbers per image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from uproar.metrics.registry import Batch, Change, Outputs
from uproar.statistics.areas import area
from uproar.types import Labels

By = Literal["probability", "accuracy", "logit"]


def target_score(outputs: Tensor, target: Labels, by: By) -> Tensor:
    """The target's probability or logit, or whether it is the highest, for outputs (..., n, k): (..., n)."""
    if by == "accuracy":
        return (outputs.argmax(-1) == target).double()
    scores = outputs.double()
    if by == "probability":
        scores = scores.softmax(-1)
    return scores.gather(-1, target.expand(scores.shape[:-1])[..., None])[..., 0]


def curve_of(batch: Batch, outputs: Outputs, points: Sequence[Sequence[Change]], by: By = "probability") -> Tensor:
    """One number per image and point, (n, points): the mean over the changes of the point."""
    columns = [
        target_score(torch.stack([outputs[change] for change in point]), batch.target, by).mean(0) for point in points
    ]
    return torch.stack(columns, 1)


def area_of(fractions: Sequence[float], values: Tensor) -> Tensor:
    """Mean height of each curve, (n,)."""
    return torch.from_numpy(np.asarray(area(np.asarray(fractions), values.numpy())))


def only(defined: Tensor, values: Tensor) -> Tensor:
    """The values where they are defined, NaN elsewhere."""
    return torch.where(defined, values, torch.nan)
