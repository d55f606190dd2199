"""Average drop and increase in confidence: what the target's probability becomes when only the map's pixels are left.

Pixels fade towards the mean colour: mean + s·(x − mean), s the map scaled to [0, 1]. Drops are shares, not percent.
The values of the map count, so a map without any has no value, except where it is binarised to an exact share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from uproar.metrics.changes import Blended, PreparedBatch, Scale, removed, with_values
from uproar.metrics.curves import follows_values, normalised, only, target_score
from uproar.metrics.insertion_deletion import blank_point
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.removal import count
from uproar.types import KINDS, WITH_PROBABILITIES

Share = Annotated[float, Field(ge=0, le=1)]

_BIASES = (
    "a constant map keeps everything and drops nothing, so broad maps do well; faded colours are unlike the "
    "training data"
)
Percentile = Annotated[float, Field(ge=0, le=100)]
_GRADCAM = "pytorch-grad-cam"
_COHERENCY = "Vandersmissen and Oramas 2023, released code"
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


def _always(change: Change) -> Callable[..., list[Change]]:
    return lambda shape, **_: [change]


@metric(
    name="average_drop:gradcam",
    variant_of="average_drop",
    higher_is_better=False,
    formula="max(0, p_c(x) − p_c(x'))",
    paper=_GRADCAM,
    asks=_always(Blended("none")),
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def average_drop_gradcam(batch: Batch, outputs: Outputs) -> Responses:
    """Lost probability itself, not its share: what that library calls the drop in confidence."""
    before, after = probabilities_of(batch, outputs, Blended("none"))
    return drop_responses(PreparedBatch.of(batch).usable, (before - after).clamp_min(0), before, after)


@metric(
    name="increase_in_confidence:gradcam",
    variant_of="increase_in_confidence",
    higher_is_better=True,
    paper=_GRADCAM,
    formula=INCREASE,
    asks=_always(Blended("none")),
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def increase_in_confidence_gradcam(batch: Batch, outputs: Outputs) -> Responses:
    """Whether the probability grows, with the map taken as it is."""
    before, after = probabilities_of(batch, outputs, Blended("none"))
    return drop_responses(PreparedBatch.of(batch).usable, (after > before).double(), before, after)


def _tame(shape: Sequence[int], *, top: float) -> list[Change]:
    return [Blended("minmax") if top == 1 else Blended("minmax", "top", top)]


@metric(
    name="average_drop:tame",
    variant_of="average_drop",
    higher_is_better=False,
    formula=DROP,
    asks=_tame,
    kinds=WITH_PROBABILITIES,
    paper="Ntrougkas et al. 2022",
    **FACTS,
)
def average_drop_tame(batch: Batch, outputs: Outputs, *, top: Share = 1.0) -> Responses:
    """Average drop of the min-max scaled map, of which only the highest share of pixels (1, 0.5, 0.15) is used."""
    before, after = probabilities_of(batch, outputs, _tame(batch.x.shape[1:], top=top)[0])
    return drop_responses(with_values(batch.maps), drop_of(before, after), before, after)


@metric(
    name="increase_in_confidence:tame",
    variant_of="increase_in_confidence",
    higher_is_better=True,
    asks=_tame,
    kinds=WITH_PROBABILITIES,
    formula=INCREASE,
    paper="Ntrougkas et al. 2022",
    **FACTS,
)
def increase_in_confidence_tame(batch: Batch, outputs: Outputs, *, top: Share = 1.0) -> Responses:
    """Increase in confidence of the min-max scaled map, of which only the highest share of pixels is used."""
    before, after = probabilities_of(batch, outputs, _tame(batch.x.shape[1:], top=top)[0])
    return drop_responses(with_values(batch.maps), (after > before).double(), before, after)


def _coherency_blended(threshold: float | None, percentile: float | None) -> Blended:
    if percentile is not None:
        return Blended("none", "percentile", percentile)
    return Blended("none") if threshold is None else Blended("none", "value", threshold)


def _coherency_asks(shape: Sequence[int], **options: Any) -> list[Change]:
    return [_coherency_blended(**options)]


@metric(
    name="average_drop:coherency",
    variant_of="average_drop",
    higher_is_better=False,
    formula=DROP,
    paper=_COHERENCY,
    asks=_coherency_asks,
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def average_drop_coherency(
    batch: Batch, outputs: Outputs, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Average drop of maps taken as they are, or as 0 and 1 at a value or at each map's percentile (reached = 1)."""
    before, after = probabilities_of(batch, outputs, _coherency_blended(threshold, percentile))
    return drop_responses(PreparedBatch.of(batch).usable, drop_of(before, after), before, after)


@metric(
    name="increase_in_confidence:coherency",
    variant_of="increase_in_confidence",
    higher_is_better=True,
    paper=_COHERENCY,
    formula=INCREASE,
    asks=_coherency_asks,
    kinds=WITH_PROBABILITIES,
    **FACTS,
)
def increase_in_confidence_coherency(
    batch: Batch, outputs: Outputs, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Increase in confidence of maps taken as they are, or as 0 and 1 at a value or at each map's percentile."""
    before, after = probabilities_of(batch, outputs, _coherency_blended(threshold, percentile))
    return drop_responses(PreparedBatch.of(batch).usable, (after > before).double(), before, after)
