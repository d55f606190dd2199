"""From the model's outputs to numbers per image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from uproar.errors import NotApplicable
from uproar.metrics.registry import Batch, Change, Outputs
from uproar.models.output_kind import assumed_output, is_predicted, probabilities
from uproar.statistics.areas import area
from uproar.types import Labels

By = Literal["probability", "accuracy", "logit"]


LEAST_CHANGE = 1e-6
"""The change of a regression's value from the image to the fully removed one, as a share of the larger of the two, up
to which there is nothing to normalise by."""


def target_score(outputs: Tensor, target: Labels, by: By) -> Tensor:
    """The target's probability or logit, or whether it is predicted, for outputs (..., n, k): (..., n).

    The logit of a regression is its value.
    """
    if by == "accuracy":
        return is_predicted(outputs, target).double()
    scores = probabilities(outputs) if by == "probability" else outputs.double()
    return scores.gather(-1, target.expand(scores.shape[:-1])[..., None])[..., 0]


def curve_of(
    batch: Batch,
    outputs: Outputs,
    points: Sequence[Sequence[Change]],
    by: By = "probability",
    blank: Sequence[Change] = (),
) -> Tensor:
    """One number per image and point, (n, points): the mean over the changes of the point.

    A regression has no probability: there it is the value, on a scale on which the image has 1 and `blank`, the changes
    that remove all of it, 0.
    """
    if by == "probability" and follows_values():
        values = _means(batch, outputs, points, "logit")
        return normalised(batch, outputs, values, blank)
    return _means(batch, outputs, points, by)


def _means(batch: Batch, outputs: Outputs, points: Sequence[Sequence[Change]], by: By) -> Tensor:
    scores = target_score(torch.stack([outputs[change] for point in points for change in point]), batch.target, by)
    return torch.stack([part.mean(0) for part in scores.split([len(point) for point in points])], 1)


def follows_values() -> bool:
    """Whether the outputs are those of a regression: its value takes the place of a probability."""
    return assumed_output().kind == "regression"


def normalised(batch: Batch, outputs: Outputs, values: Tensor, blank: Sequence[Change]) -> Tensor:
    """Values (n, ...) as shares of the change from the fully removed image, 0, to the image, 1; NaN where none is."""
    if not blank:
        raise NotApplicable("it follows a probability, and a regression has none")
    whole = target_score(batch.clean, batch.target, "logit")
    empty = _means(batch, outputs, [blank], "logit")[:, 0]
    shape = (-1, *[1] * (values.dim() - 1))
    change = (whole - empty).view(shape)
    defined = change.abs() > LEAST_CHANGE * torch.maximum(whole.abs(), empty.abs()).view(shape)
    return only(defined, (values - empty.view(shape)) / change)


def area_of(fractions: Sequence[float], values: Tensor) -> Tensor:
    """Mean height of each curve, (n,)."""
    return torch.from_numpy(np.asarray(area(np.asarray(fractions), values.numpy())))


def only(defined: Tensor, values: Tensor) -> Tensor:
    """The values where they are defined, NaN elsewhere."""
    return torch.where(defined, values, torch.nan)
