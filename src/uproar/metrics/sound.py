"""Soundness and completeness: is what the map marks really used, and is what is used really marked?

Both use the map's values. Soundness belongs to a data set: pixels are inserted, most important first, and attribution
that comes in without raising the accuracy of the data set counts as false, in all images. Its value for one image is
the same statistic of that image alone; the number to report is `whole`. Everything it needs is in the responses, so it
can be taken of any concatenation of batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.metrics.answers import By, area_of, curve_of, measured, only
from uproar.metrics.base import Batch, Change, Responses, Seen, metric
from uproar.metrics.changes import Thresholded
from uproar.metrics.insertion import Points, flat, nested
from uproar.metrics.prepared import Prepared, with_values
from uproar.metrics.probe import curve
from uproar.removal import count

Steps = Annotated[int, Field(ge=1, le=100_000)]
Level = Annotated[float, Field(gt=0)]
Threshold = Annotated[float, Field(ge=0, le=1)]
Thresholds = tuple[Threshold, ...]

_LI = "Li et al. 2024"
_SOUND_BIAS = (
    "a step that lowers the accuracy counts as false too; below 500 images ε = 0.01 is a few images; maps that "
    "reach the level in one step are fully sound"
)
_COMPLETE_BIAS = "a map that marks everything is complete; values matter, so two maps of one order can differ"


@dataclass(frozen=True)
class Rule:
    """When newly included attribution is false: the gain is below ε (or at most ε), and more than the gate is reached.

    With `lag`, a step's ratio does not know yet what is decided in that step. `small` is added to denominators.
    """

    epsilon: float
    closed: bool = False
    gate: float = -math.inf
    lag: bool = False
    small: float = 0.0


def sound_shares(performance: Tensor, gate: Tensor, included: Tensor, rule: Rule) -> Tensor:
    """Share of the included attribution that is not false, (n, steps).

    `performance` is (n, steps), or (1, steps) where the data set decides for all; `gate` is what the gate looks at.
    """
    gain = performance.diff(dim=1, prepend=torch.zeros_like(performance[:, :1]))
    false = gain <= rule.epsilon if rule.closed else gain < rule.epsilon
    false = false & (gate > rule.gate)
    new = included.diff(dim=1, prepend=torch.zeros_like(included[:, :1]))
    wrong = (new * false).cumsum(1)
    if rule.lag:
        wrong = torch.cat([torch.zeros_like(wrong[:, :1]), wrong[:, :-1]], 1)
    return (included - wrong) / (included + rule.small)


def sound_curve(responses: Mapping[str, Tensor], by: By, rule: Rule) -> tuple[Tensor, Tensor]:
    """The data set's accuracy (or mean score) and soundness at each step, over the images where it is defined."""
    defined = responses["defined"].bool()
    score, included = responses["curve"][defined].double(), responses["included"][defined].double()
    if by == "accuracy":
        # Whole numbers are subtracted before they are divided: a gain of one image in 100 is 0.01, not less.
        level = score.sum(0) / (len(score) + rule.small)
        counted = Rule(rule.epsilon * len(score) * (1 + 1e-12), rule.closed, rule.gate, rule.lag, rule.small)
        shares = sound_shares(score.sum(0, keepdim=True), level[None], included, counted)
    else:
        level = score.mean(0)
        shares = sound_shares(score, level[None], included, rule)
    return level, shares.mean(0)
