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

from uproar.metrics.base import Batch, Change, Responses, Seen, metric
from uproar.metrics.changes import Blended, removed
from uproar.metrics.prepared_batch import Prepared, Scale, with_values
from uproar.metrics.probabilities import measured, only
from uproar.removal import count

Share = Annotated[float, Field(ge=0, le=1)]
Percentile = Annotated[float, Field(ge=0, le=100)]

_BIASES = (
    "a constant map keeps everything and drops nothing, so broad maps do well; faded colours are unlike the "
    "training data"
)
_CHATTOPADHYAY = "Chattopadhyay et al. 2018"
_DROP = "max(0, p_c(x) − p_c(x')) / p_c(x)"
_FACTS: dict[str, Any] = {"low": 0, "high": 1, "chance": "that of a random map", "biases": _BIASES}


def drop_of(before: Tensor, after: Tensor) -> Tensor:
    """Lost share of the probability, 0 where it grew; NaN where there was none to lose."""
    return torch.where(before > 0, (before - after).clamp_min(0) / before, torch.nan)


def _pair(batch: Batch, seen: Seen, change: Change) -> tuple[Tensor, Tensor]:
    before = measured(batch.clean, batch.target, "probability")
    return before, measured(seen[change], batch.target, "probability")


def _responses(defined: Tensor, value: Tensor, before: Tensor, after: Tensor) -> Responses:
    return {"value": only(defined, value), "before": before, "after": after}


def _change(shape: Sequence[int], scale: Scale, binarise: float | None) -> Change:
    if binarise is None:
        return Blended(scale)
    features = shape[1] * shape[2]
    return removed("least", count(binarise, features), features, "mean")


def _asks(shape: Sequence[int], *, scale: Scale, binarise: float | None) -> list[Change]:
    return [_change(shape, scale, binarise)]


def _own(batch: Batch, seen: Seen, scale: Scale, binarise: float | None) -> tuple[Tensor, ...]:
    before, after = _pair(batch, seen, _change(batch.x.shape[1:], scale, binarise))
    ready = Prepared.of(batch)
    return ready.usable if binarise is not None else with_values(ready.maps), before, after


@metric(higher_is_better=False, formula=_DROP, paper=_CHATTOPADHYAY, asks=_asks, **_FACTS)
def average_drop(batch: Batch, seen: Seen, *, scale: Scale = "max", binarise: Share | None = None) -> Responses:
    """Lost share of the target's probability when pixels fade as far as the map says they do not matter.

    `binarise=0.7` keeps the most important 30 % of the pixels as they are, exactly that many, and nothing else.
    """
    defined, before, after = _own(batch, seen, scale, binarise)
    return _responses(defined, drop_of(before, after), before, after)


@metric(higher_is_better=True, formula="1 if p_c(x') > p_c(x), else 0", paper=_CHATTOPADHYAY, asks=_asks, **_FACTS)
def increase_in_confidence(
    batch: Batch, seen: Seen, *, scale: Scale = "max", binarise: Share | None = None
) -> Responses:
    """Whether the target's probability grows when pixels fade as far as the map says they do not matter."""
    defined, before, after = _own(batch, seen, scale, binarise)
    return _responses(defined, (after > before).double(), before, after)


def _coherency(threshold: float | None, percentile: float | None) -> Blended:
    if percentile is not None:
        return Blended("none", "percentile", percentile)
    return Blended("none") if threshold is None else Blended("none", "value", threshold)


def _asks_coherency(shape: Sequence[int], **options: Any) -> list[Change]:
    return [_coherency(**options)]


_COHERENCY = "Vandersmissen and Oramas 2023, released code"


@metric(
    name="average_drop:coherency",
    higher_is_better=False,
    formula=_DROP,
    paper=_COHERENCY,
    asks=_asks_coherency,
    **_FACTS,
)
def average_drop_coherency(
    batch: Batch, seen: Seen, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Average drop of maps taken as they are, or as 0 and 1 at a value or at each map's percentile (reached = 1)."""
    before, after = _pair(batch, seen, _coherency(threshold, percentile))
    return _responses(Prepared.of(batch).usable, drop_of(before, after), before, after)


@metric(
    name="increase_in_confidence:coherency",
    higher_is_better=True,
    paper=_COHERENCY,
    formula="1 if p_c(x') > p_c(x), else 0",
    asks=_asks_coherency,
    **_FACTS,
)
def increase_in_confidence_coherency(
    batch: Batch, seen: Seen, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Increase in confidence of maps taken as they are, or as 0 and 1 at a value or at each map's percentile."""
    before, after = _pair(batch, seen, _coherency(threshold, percentile))
    return _responses(Prepared.of(batch).usable, (after > before).double(), before, after)


def _always(change: Change) -> Callable[..., list[Change]]:
    return lambda shape, **_: [change]


@metric(
    name="average_drop:gradcam",
    higher_is_better=False,
    formula="max(0, p_c(x) − p_c(x'))",
    paper="pytorch-grad-cam",
    asks=_always(Blended("none")),
    **_FACTS,
)
def average_drop_gradcam(batch: Batch, seen: Seen) -> Responses:
    """Lost probability itself, not its share: what that library calls the drop in confidence."""
    before, after = _pair(batch, seen, Blended("none"))
    return _responses(Prepared.of(batch).usable, (before - after).clamp_min(0), before, after)


@metric(
    name="increase_in_confidence:gradcam",
    higher_is_better=True,
    paper="pytorch-grad-cam",
    formula="1 if p_c(x') > p_c(x), else 0",
    asks=_always(Blended("none")),
    **_FACTS,
)
def increase_in_confidence_gradcam(batch: Batch, seen: Seen) -> Responses:
    """Whether the probability grows, with the map taken as it is."""
    before, after = _pair(batch, seen, Blended("none"))
    return _responses(Prepared.of(batch).usable, (after > before).double(), before, after)


def _tame(shape: Sequence[int], *, top: float) -> list[Change]:
    return [Blended("minmax") if top == 1 else Blended("minmax", "top", top)]


@metric(
    name="average_drop:tame", higher_is_better=False, formula=_DROP, asks=_tame, paper="Ntrougkas et al. 2022", **_FACTS
)
def average_drop_tame(batch: Batch, seen: Seen, *, top: Share = 1.0) -> Responses:
    """Average drop of the min-max scaled map, of which only the highest share of pixels (1, 0.5, 0.15) is used."""
    before, after = _pair(batch, seen, _tame(batch.x.shape[1:], top=top)[0])
    return _responses(with_values(batch.maps), drop_of(before, after), before, after)


@metric(
    name="increase_in_confidence:tame",
    higher_is_better=True,
    asks=_tame,
    formula="1 if p_c(x') > p_c(x), else 0",
    paper="Ntrougkas et al. 2022",
    **_FACTS,
)
def increase_in_confidence_tame(batch: Batch, seen: Seen, *, top: Share = 1.0) -> Responses:
    """Increase in confidence of the min-max scaled map, of which only the highest share of pixels is used."""
    before, after = _pair(batch, seen, _tame(batch.x.shape[1:], top=top)[0])
    return _responses(with_values(batch.maps), (after > before).double(), before, after)
