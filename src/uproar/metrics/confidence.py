"""Average drop and increase in confidence: what the target's probability becomes when only the map's pixels are left.

Pixels fade towards the mean colour: mean + s·(x − mean), s the map scaled to [0, 1]. Drops are shares, not percent.
The values of the map count, so a map without any has no value, except where it is binarised to an exact share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from uproar.metrics.changes import Blended, removed
from uproar.metrics.insertion_deletion import blank_point
from uproar.metrics.prepared_batch import PreparedBatch, Scale, with_values
from uproar.metrics.probabilities import follows_values, normalised, only, target_score
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.removal import count
from uproar.types import KINDS

Share = Annotated[float, Field(ge=0, le=1)]

_BIASES = (
    "a constant map keeps everything and drops nothing, so broad maps do well; faded colours are unlike the "
    "training data"
)
_CHATTOPADHYAY = "Chattopadhyay et al. 2018"
INCREASE = "1 if p_c(x') > p_c(x), else 0"
DROP = "max(0, p_c(x) − p_c(x')) / p_c(x)"
FACTS: dict[str, Any] = {
    "low": 0,
    "high": 1,
    "chance": "that of a random map",
    "biases": _BIASES,
    "true_to": "model",
    "uses": lambda binarise=None, **_: "values" if binarise is None else "order",
}


def drop_of(before: Tensor, after: Tensor) -> Tensor:
    """Lost share of the probability, 0 where it grew; NaN where there was none to lose."""
    return torch.where(before > 0, (before - after).clamp_min(0) / before, torch.nan)


def probabilities_of(batch: Batch, outputs: Outputs, change: Change) -> tuple[Tensor, Tensor]:
    """The target's probability before and after a change; the normalised value of a regression, 1 before."""
    if follows_values():
        after = target_score(outputs[change], batch.target, "logit")
        after = normalised(batch, outputs, after, _blank(batch.x.shape[1:]))
        return torch.ones_like(after), after
    before = target_score(batch.clean, batch.target, "probability")
    return before, target_score(outputs[change], batch.target, "probability")


def drop_responses(defined: Tensor, value: Tensor, before: Tensor, after: Tensor) -> Responses:
    """What average drop and increase in confidence respond: the value where it is defined, and both probabilities."""
    return {"value": only(defined, value), "before": before, "after": after}


def _change(shape: Sequence[int], scale: Scale, binarise: float | None) -> Change:
    if binarise is None:
        return Blended(scale)
    features = shape[1] * shape[2]
    return removed("least", count(binarise, features), features, "mean")


def _asks(shape: Sequence[int], *, scale: Scale, binarise: float | None) -> list[Change]:
    change = _change(shape, scale, binarise)
    return [change, *_blank(shape)] if follows_values() else [change]


def _blank(shape: Sequence[int]) -> tuple[Change, ...]:
    """The change that leaves nothing: all pixels are the mean colour."""
    return blank_point(shape, fill="mean")


def _own(batch: Batch, outputs: Outputs, scale: Scale, binarise: float | None) -> tuple[Tensor, ...]:
    before, after = probabilities_of(batch, outputs, _change(batch.x.shape[1:], scale, binarise))
    ready = PreparedBatch.of(batch)
    return ready.usable if binarise is not None else with_values(ready.maps), before, after


@metric(higher_is_better=False, formula=DROP, paper=_CHATTOPADHYAY, asks=_asks, kinds=KINDS, **FACTS)
def average_drop(batch: Batch, outputs: Outputs, *, scale: Scale = "max", binarise: Share | None = None) -> Responses:
    """Lost share of the target's probability when pixels fade as far as the map says they do not matter.

    `binarise=0.7` keeps the most important 30 % of the pixels as they are, exactly that many, and nothing else.
    """
    defined, before, after = _own(batch, outputs, scale, binarise)
    return drop_responses(defined, drop_of(before, after), before, after)


@metric(higher_is_better=True, formula=INCREASE, paper=_CHATTOPADHYAY, asks=_asks, kinds=KINDS, **FACTS)
def increase_in_confidence(
    batch: Batch, outputs: Outputs, *, scale: Scale = "max", binarise: Share | None = None
) -> Responses:
    """Whether the target's probability grows when pixels fade as far as the map says they do not matter."""
    defined, before, after = _own(batch, outputs, scale, binarise)
    return drop_responses(defined, (after > before).double(), before, after)
