"""Soundness and completeness: is what the map marks really used, and is what is used really marked?

Both use the map's values. Soundness belongs to a data set: pixels are inserted, most important first, and attribution
that comes in without raising the accuracy of the data set counts as false, in all images. Its value for one image is
the same statistic of that image alone; the number to report is that of the data set. Everything it needs is in the
responses, so it can be taken of any concatenation of batches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.metrics.changes import Above, Batch, Change, Outputs, Thresholded
from uproar.metrics.curves import Points, blank_point, flat, nested
from uproar.metrics.probe import By, area_of, curve_of, follows_values, only, target_score
from uproar.metrics.registry import Axis, Responses, Trace, metric
from uproar.removal import count
from uproar.types import KINDS, WITH_PROBABILITIES

Steps = Annotated[int, Field(ge=1, le=100_000)]
_Level = Annotated[float, Field(gt=0)]
Level = _Level | Annotated[tuple[_Level, ...], Field(min_length=1)]
"""Where the curve of soundness is read: at one level of accuracy, or the mean over several."""
Ratios = tuple[Annotated[float, Field(ge=0, le=1)], ...]

TENTHS: Ratios = tuple(i / 10 for i in range(1, 10))
"""The shares of the range of values that are removed, in the paper."""

LI = "Li et al. 2024"
SOUND_BIAS = (
    "a step that lowers the accuracy counts as false too; below 500 images ε = 0.01 is a few images, below 100 one; a "
    "level that is reached in one step says fully sound of every map, as 0.5 does with two classes, since the first "
    "step starts from an accuracy of 0 and guessing counts as a gain; linear imputation spreads the first pixels over "
    "the whole image, so that a small object without its surroundings raises nothing and is called false: the exact "
    "map of such a task can score below a random one; with few images and small objects, a level above chance, a "
    "larger ε and fill=mean see what is added"
)
COMPLETE_BIAS = "a map that marks everything is complete; values matter, so two maps of one order can differ"


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


def sound_shares(gain: Tensor, gate: Tensor, included: Tensor, rule: Rule) -> Tensor:
    """Share of the included attribution that is not false, (n, steps).

    `gain` is (n, steps), or (1, steps) where the data set decides for all; `gate` is what the gate looks at.
    """
    false = gain <= rule.epsilon if rule.closed else gain < rule.epsilon
    wrong = (_steps_of(included) * (false & (gate > rule.gate))).cumsum(1)
    if rule.lag:
        wrong = torch.cat([torch.zeros_like(wrong[:, :1]), wrong[:, :-1]], 1)
    return (included - wrong) / (included + rule.small)


def sound_curve(responses: Mapping[str, Tensor], by: By, rule: Rule) -> tuple[Tensor, Tensor]:
    """The data set's accuracy (or mean score) and soundness at each step, over the images where it is defined."""
    defined = responses["defined"].bool()
    score, included = responses["curve"][defined].double(), responses["included"][defined].double()
    if by != "accuracy":
        level = score.mean(0)
        shares = sound_shares(_steps_of(score), level[None], included, rule)
        return level, shares.mean(0)
    images, correct = len(score) + rule.small, score.sum(0, keepdim=True)
    # Subtracted before divided: a gain of one image in 100 is 0.01, and not a little less.
    shares = sound_shares(_steps_of(correct) / images, correct / images, included, rule)
    return correct[0] / images, shares.mean(0)


def _steps_of(curves: Tensor) -> Tensor:
    """What each step adds; the first starts from 0."""
    return curves.diff(dim=1, prepend=torch.zeros_like(curves[:, :1]))


def at_levels(level: Tensor, shares: Tensor, wanted: Level) -> Tensor:
    """The mean of the shares at the wanted levels; NaN where one of them is not reached."""
    levels = wanted if isinstance(wanted, tuple) else (wanted,)
    return torch.stack([at_level(level, shares, each) for each in levels]).mean(0)


def at_level(level: Tensor, shares: Tensor, wanted: float) -> Tensor:
    """The share at the first step whose level reaches `wanted`; NaN where none does. Both are (..., steps)."""
    reached = level >= wanted
    first = reached.int().argmax(-1, keepdim=True)
    return only(reached.any(-1), shares.gather(-1, first)[..., 0])


def included_at(values: Tensor, kept: Sequence[int]) -> Tensor:
    """Sum of the highest `kept` values of each map, (n, steps)."""
    totals = values.flatten(1).double().sort(1, descending=True).values.cumsum(1)
    return torch.nn.functional.pad(totals, (1, 0))[:, list(kept)]


def sound_responses(
    batch: Batch, outputs: Outputs, hidden: Sequence[int], fill: str, by: By, rule: Rule, level: Level, defined: Tensor
) -> Responses:
    """The score and the attribution included at each step, and the soundness of each image by itself."""
    shape = tuple(batch.x.shape[1:])
    included = included_at(batch.values("max"), [shape[1] * shape[2] - k for k in hidden])
    score = curve_of(batch, outputs, nested(shape, "least", hidden, fill), by, blank_point(shape, fill=fill))
    alone = sound_shares(_steps_of(score), score, included, rule)
    value = only(defined, at_levels(score, alone, level))
    return {"value": value, "curve": score, "included": included, "defined": defined}


def _mask_ratios(shape: Sequence[int], *, steps: int, **_: Any) -> list[float]:
    """Shares of pixels that are still hidden: from nearly all to nearly none, in equal steps."""
    return [(steps + 1 - i) / (steps + 1) for i in range(1, steps + 1)]


def _hidden(shape: Sequence[int], steps: int) -> list[int]:
    return [count(t, shape[1] * shape[2]) for t in _mask_ratios(shape, steps=steps)]


def _points(shape: Sequence[int], *, steps: int, fill: str, **_: Any) -> Points:
    return nested(shape, "least", _hidden(shape, steps), fill)


def _of_data_set(responses: Mapping[str, Tensor], *, level: Level, epsilon: float, by: By, **_: Any) -> float:
    return float(at_levels(*sound_curve(responses, by, Rule(epsilon)), level))


def _traced(responses: Mapping[str, Tensor], levels: Sequence[float], *, epsilon: float, by: By, **_: Any) -> Tensor:
    reached, shares = sound_curve(responses, by, Rule(epsilon))
    return torch.stack([at_level(reached, shares, level) for level in levels])


TRACE = Trace(tuple(i / 50 for i in range(1, 51)), _traced, "accuracy reached", "soundness")
"""Soundness at every level of accuracy, as the paper draws it."""


def sound_axis(points: Callable[..., Sequence[float]]) -> Axis:
    """The axis of a metric that inserts pixels."""
    return Axis(
        points,
        "share of pixels still hidden",
        done="hidden",
        falls=True,
        level="level",
        remark="Pixels come in from left to right, the most important first. The lines are the {score} that decides "
        "which attribution counts as false, not soundness itself: that is the sound share of the attribution shown "
        "when the line of the data set first reaches the level (the mean over several, where several are asked for).",
    )


value_metric = functools.partial(
    metric, true_to="model", higher_is_better=True, uses="values", high=1, chance="that of a random map"
)
"""Declares a metric of the values of maps."""


@value_metric(
    low=0,
    biases=SOUND_BIAS,
    paper=f"{LI}, algorithm 3",
    asks=flat(_points),
    kinds=KINDS,
    statistic=_of_data_set,
    axis=sound_axis(_mask_ratios),
    trace=TRACE,
    formula="mean over images of (included − false) / included attribution, at the first step whose "
    "accuracy reaches `level` (the mean over levels, if several are given); a step's attribution is false "
    "if accuracy grows by less than ε",
)
def soundness(
    batch: Batch,
    outputs: Outputs,
    *,
    level: Level = 0.5,
    epsilon: float = 0.01,
    steps: Steps = 99,
    fill: str = "linear",
    by: By = "accuracy",
) -> Responses:
    """Share of the attribution inserted so far that raised the data set's accuracy when it came in.

    By probability or logit, each image decides for itself, by its own score; the level is that of the mean score.
    """
    hidden = _hidden(batch.x.shape[1:], steps)
    return sound_responses(batch, outputs, hidden, fill, by, Rule(epsilon), level, batch.with_values)


Threshold = Literal["relative", "absolute"]
"""Of completeness: as a share of each map's maximum (released code), or of values in [0, 1] (paper, algorithm 4)."""


def _thresholds(shape: Sequence[int], *, ratios: Ratios, **_: Any) -> list[float]:
    return [round(1 - r, 12) for r in ratios]


LOST_AXIS = Axis(
    _thresholds,
    "attribution threshold",
    "{by} lost",
    "{by} lost",
    "attribution threshold",
    remark="All pixels above the threshold are removed; how many these are differs between maps. The threshold is a "
    "share of the map's maximum, or with threshold=absolute a value of a map in [0, 1].",
)


def above_threshold(
    shape: Sequence[int], *, ratios: Ratios, fill: str, threshold: Threshold = "relative", **_: Any
) -> list[Change]:
    """The changes that remove all pixels above each threshold."""
    if threshold == "absolute":
        return [Above(t, fill) for t in _thresholds(shape, ratios=ratios)]
    return [Thresholded("most", r, fill) for r in ratios]


def _asked(shape: Sequence[int], **options: Any) -> list[Change]:
    blank = blank_point(shape, fill=options["fill"]) if follows_values() else ()
    return [*above_threshold(shape, **options), *blank]


def accuracy_lost(
    batch: Batch, outputs: Outputs, ratios: Ratios, fill: str, by: By, threshold: Threshold = "relative"
) -> Tensor:
    """What is lost at each ratio, (n, ratios)."""
    points = [(change,) for change in above_threshold((), ratios=ratios, fill=fill, threshold=threshold)]
    if by == "probability" and follows_values():
        return 1 - curve_of(batch, outputs, points, by, blank_point(batch.x.shape[1:], fill=fill))
    before = target_score(batch.clean, batch.target, by)
    return before[:, None] - curve_of(batch, outputs, points, by)


@value_metric(
    low=-1,
    biases=COMPLETE_BIAS,
    paper=f"{LI}: the rule of the released code, and with threshold=absolute that of algorithm 4",
    asks=_asked,
    kinds=KINDS,
    axis=LOST_AXIS,
    formula="mean over r of accuracy before − after removing pixels with a > (1 − r) · max a; with threshold=absolute "
    "pixels with min(max(a, 0), 1) > 1 − r",
)
def completeness(
    batch: Batch,
    outputs: Outputs,
    *,
    ratios: Ratios = TENTHS,
    fill: str = "linear",
    by: Literal["accuracy", "probability"] = "accuracy",
    threshold: Threshold = "relative",
) -> Responses:
    """Accuracy (or probability) lost when pixels go whose value exceeds the threshold (1 − r) · maximum.

    The paper's threshold is absolute, on attributions clamped to [0, 1]; that of its released code is relative to each
    map's maximum, which suits maps of any scale.
    """
    values = accuracy_lost(batch, outputs, ratios, fill, by, threshold)
    defined = batch.usable if threshold == "absolute" else batch.with_values
    return {"value": only(defined, area_of(ratios, values)), "curve": values}


SOCO_RATIOS = tuple(i / 100 for i in range(98, 2, -1))
"""Shares of hidden pixels in the released code: 0.98, 0.97, …, 0.03."""


def _soco_hidden(shape: Sequence[int]) -> list[int]:
    return [int(shape[1] * shape[2] * r) for r in SOCO_RATIOS]


def _soco_points(shape: Sequence[int], *, fill: str, **_: Any) -> Points:
    return nested(shape, "least", _soco_hidden(shape), fill)


def _soco_rule(epsilon: float, gate: float) -> Rule:
    return Rule(epsilon, closed=True, gate=gate, lag=True, small=1e-6)


def _soco_of_data_set(responses: Mapping[str, Tensor], *, level: Level, **options: Any) -> float:
    return float(at_levels(*soco_curve(responses, **options), level))


def soco_curve(
    responses: Mapping[str, Tensor], *, epsilon: float = 0.01, gate: float = 0.04, by: By = "accuracy", **_: Any
) -> tuple[Tensor, Tensor]:
    """Accuracy (or mean score) and soundness at the 96 steps of the released code."""
    return sound_curve(responses, by, _soco_rule(epsilon, gate))


@value_metric(
    name="soundness:soco",
    low=0,
    biases=f"{SOUND_BIAS}; a step's own attribution counts one step late",
    statistic=_soco_of_data_set,
    paper=f"{LI}, released code",
    asks=flat(_soco_points),
    kinds=WITH_PROBABILITIES,
    axis=sound_axis(lambda shape, **_: SOCO_RATIOS),
    formula="as soundness, in 96 steps, false attribution counted one step late, gains of at most ε false "
    "once the accuracy is above the gate",
)
def soundness_soco(
    batch: Batch,
    outputs: Outputs,
    *,
    level: Level = 0.5,
    epsilon: float = 0.01,
    gate: float = 0.04,
    fill: str = "linear",
    by: By = "accuracy",
) -> Responses:
    """Soundness as in its released code, where `by="logit"` is called PredScore; maps of zeros count as unsound."""
    hidden = _soco_hidden(batch.x.shape[1:])
    return sound_responses(batch, outputs, hidden, fill, by, _soco_rule(epsilon, gate), level, batch.usable)


@value_metric(
    name="completeness:soco",
    low=-1,
    biases=f"{COMPLETE_BIAS}; a map of zeros removes nothing and scores 0",
    asks=above_threshold,
    kinds=WITH_PROBABILITIES,
    axis=LOST_AXIS,
    paper=f"{LI}, released code",
    formula="as completeness, maps of zeros included",
)
def completeness_soco(batch: Batch, outputs: Outputs, *, ratios: Ratios = TENTHS, fill: str = "linear") -> Responses:
    """Completeness as in its released code: maps without values count, and remove nothing."""
    values = accuracy_lost(batch, outputs, ratios, fill, "accuracy")
    return {"value": only(batch.usable, values.mean(1)), "curve": values}
