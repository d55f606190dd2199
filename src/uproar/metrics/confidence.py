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

from uproar.metrics.changes import Batch, Blended, Change, Outputs, Scale, removed
from uproar.metrics.curves import blank_point
from uproar.metrics.probe import follows_values, normalised, only, target_score
from uproar.metrics.registry import Responses, metric
from uproar.registry import options_of
from uproar.removal import count
from uproar.types import KINDS, WITH_PROBABILITIES

Share = Annotated[float, Field(ge=0, le=1)]
Percentile = Annotated[float, Field(ge=0, le=100)]

FACTS: dict[str, Any] = {
    "low": 0,
    "high": 1,
    "chance": "that of a random map",
    "biases": "a constant map keeps everything and drops nothing, so broad maps do well; faded colours are unlike the "
    "training data",
    "true_to": "model",
    "uses": lambda binarise=None, **_: "values" if binarise is None else "order",
}
DROP: dict[str, Any] = {"higher_is_better": False, "formula": "max(0, p_c(x) − p_c(x')) / p_c(x)", **FACTS}
INCREASE: dict[str, Any] = {"higher_is_better": True, "formula": "1 if p_c(x') > p_c(x), else 0", **FACTS}
CHATTOPADHYAY = "Chattopadhyay et al. 2018"
GRADCAM = "pytorch-grad-cam"
TAME = "Ntrougkas et al. 2022"
COHERENCY = "Vandersmissen and Oramas 2023, released code"


def _drop(batch: Batch, outputs: Outputs, change: Change, defined: Tensor) -> Responses:
    """Lost share of the probability, 0 where it grew; NaN where there was none to lose."""
    before, after = _probabilities(batch, outputs, change)
    drop = torch.where(before > 0, (before - after).clamp_min(0) / before, torch.nan)
    return {"value": only(defined, drop), "before": before, "after": after}


def _increase(batch: Batch, outputs: Outputs, change: Change, defined: Tensor) -> Responses:
    """Whether the probability grew."""
    before, after = _probabilities(batch, outputs, change)
    return {"value": only(defined, (after > before).double()), "before": before, "after": after}


def _probabilities(batch: Batch, outputs: Outputs, change: Change) -> tuple[Tensor, Tensor]:
    """The target's probability before and after a change; the normalised value of a regression, 1 before."""
    if follows_values():
        after = target_score(outputs[change], batch.target, "logit")
        after = normalised(batch, outputs, after, blank_point(batch.x.shape[1:], fill="mean"))
        return torch.ones_like(after), after
    before = target_score(batch.clean, batch.target, "probability")
    return before, target_score(outputs[change], batch.target, "probability")


def _faded(shape: Sequence[int], *, scale: Scale, binarise: float | None) -> Change:
    if binarise is None:
        return Blended(scale)
    features = shape[1] * shape[2]
    return removed("least", count(binarise, features), features, "mean")


def _asks(shape: Sequence[int], **options: Any) -> list[Change]:
    blank = blank_point(shape, fill="mean") if follows_values() else ()
    return [_faded(shape, **options), *blank]


@metric(paper=CHATTOPADHYAY, asks=_asks, kinds=KINDS, **DROP)
def average_drop(batch: Batch, outputs: Outputs, *, scale: Scale = "max", binarise: Share | None = None) -> Responses:
    """Lost share of the target's probability when pixels fade as far as the map says they do not matter.

    `binarise=0.7` keeps the most important 30 % of the pixels as they are, exactly that many, and nothing else.
    """
    change = _faded(batch.x.shape[1:], scale=scale, binarise=binarise)
    return _drop(batch, outputs, change, batch.with_values if binarise is None else batch.usable)


@metric(paper=CHATTOPADHYAY, asks=_asks, kinds=KINDS, **INCREASE)
@options_of(average_drop)
def increase_in_confidence(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Whether the target's probability grows when pixels fade as far as the map says they do not matter."""
    defined = batch.with_values if options["binarise"] is None else batch.usable
    return _increase(batch, outputs, _faded(batch.x.shape[1:], **options), defined)


def _as_it_is(shape: Sequence[int]) -> list[Change]:
    return [Blended("none")]


@metric(
    name="average_drop:gradcam",
    paper=GRADCAM,
    asks=_as_it_is,
    kinds=WITH_PROBABILITIES,
    **{**DROP, "formula": "max(0, p_c(x) − p_c(x'))"},
)
def average_drop_gradcam(batch: Batch, outputs: Outputs) -> Responses:
    """Lost probability itself, not its share: what that library calls the drop in confidence."""
    before, after = _probabilities(batch, outputs, Blended("none"))
    return {"value": only(batch.usable, (before - after).clamp_min(0)), "before": before, "after": after}


@metric(name="increase_in_confidence:gradcam", paper=GRADCAM, asks=_as_it_is, kinds=WITH_PROBABILITIES, **INCREASE)
def increase_in_confidence_gradcam(batch: Batch, outputs: Outputs) -> Responses:
    """Whether the probability grows, with the map taken as it is."""
    return _increase(batch, outputs, Blended("none"), batch.usable)


def _tame(shape: Sequence[int], *, top: float) -> list[Change]:
    return [Blended("minmax") if top == 1 else Blended("minmax", "top", top)]


@metric(name="average_drop:tame", asks=_tame, kinds=WITH_PROBABILITIES, paper=TAME, **DROP)
def average_drop_tame(batch: Batch, outputs: Outputs, *, top: Share = 1.0) -> Responses:
    """Average drop of the min-max scaled map, of which only the highest share of pixels (1, 0.5, 0.15) is used."""
    return _drop(batch, outputs, _tame((), top=top)[0], batch.with_values)


@metric(name="increase_in_confidence:tame", asks=_tame, kinds=WITH_PROBABILITIES, paper=TAME, **INCREASE)
def increase_in_confidence_tame(batch: Batch, outputs: Outputs, *, top: Share = 1.0) -> Responses:
    """Increase in confidence of the min-max scaled map, of which only the highest share of pixels is used."""
    return _increase(batch, outputs, _tame((), top=top)[0], batch.with_values)


def _cut(shape: Sequence[int], *, threshold: float | None, percentile: float | None) -> list[Change]:
    if percentile is not None:
        return [Blended("none", "percentile", percentile)]
    return [Blended("none") if threshold is None else Blended("none", "value", threshold)]


@metric(name="average_drop:coherency", paper=COHERENCY, asks=_cut, kinds=WITH_PROBABILITIES, **DROP)
def average_drop_coherency(
    batch: Batch, outputs: Outputs, *, threshold: float | None = None, percentile: Percentile | None = None
) -> Responses:
    """Average drop of maps taken as they are, or as 0 and 1 at a value or at each map's percentile (reached = 1)."""
    return _drop(batch, outputs, _cut((), threshold=threshold, percentile=percentile)[0], batch.usable)


@metric(name="increase_in_confidence:coherency", paper=COHERENCY, asks=_cut, kinds=WITH_PROBABILITIES, **INCREASE)
@options_of(average_drop_coherency)
def increase_in_confidence_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Increase in confidence of maps taken as they are, or as 0 and 1 at a value or at each map's percentile."""
    return _increase(batch, outputs, _cut((), **options)[0], batch.usable)
