"""Synthetic data with a known attribution: 200 independent features whose sum is the class (Li et al., 5.1).

The network is the sum itself, so that a changed input's class is a matter of sums, and a thousand trials are quick. The
true attribution of a feature is what it contributes to the class, max(0, y·x). Removing it from half of the features
that have any must cost completeness and not soundness; introducing it into others must cost soundness.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from uproar.metrics.soundness import TENTHS, Rule, at_level, sound_curve
from uproar.papers.evidence import ClaimEvidence, measured
from uproar.papers.measures import Parts, measure
from uproar.results.claim_outcome import Range
from uproar.statistics.intervals import mean_interval

Numbers = NDArray[np.float64]

MAPS = ("truth", "removed", "introduced")
SAMPLES, FEATURES, STEPS = 1000, 200, 49
SHARE = 0.5
"""Of the features with attribution that lose it, or of those without that gain some."""
LEVELS = tuple(i / 20 for i in range(10, 20))
"""Accuracies at which soundness is read: features drawn anew are right half of the time."""
READ_AT = LEVELS.index(0.9)
"""Where the claims read it."""
TRIALS = 100
"""Of the claims; the paper's figure has 1,000."""


@functools.cache
def trials(count: int, samples: int = SAMPLES) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
    """Of each map, soundness by trial and level of accuracy, and accuracy lost by trial and tenth, on fresh data."""
    sound = {name: np.full((count, len(LEVELS)), np.nan) for name in MAPS}
    lost = {name: np.zeros((count, len(TENTHS))) for name in MAPS}
    for number in range(count):
        draws = np.random.default_rng([0, number])
        x, y = data(samples, draws)
        fill = draws.normal(size=x.shape)
        for name, attribution in maps(x, y, draws).items():
            insertion = Insertion(x, y, attribution, fill)
            curve = insertion.curve()
            sound[name][number] = [float(at_level(*curve, level)) for level in LEVELS]
            lost[name][number] = insertion.lost()
    return sound, lost


@measure
def synthetic(evidence: ClaimEvidence, claimed: Range, *, metric: str, map: str, other: str) -> Parts:  # noqa: A002
    """How much higher a map is than another by a metric, over trials; the study has no say in it."""
    sound, lost = trials(TRIALS)
    values = {
        name: sound[name][:, READ_AT] if metric == "soundness" else mean_height(lost[name]) for name in (map, other)
    }
    gap = mean_interval(values[map] - values[other], exact=True)
    return [measured(f"{metric}: {map} minus {other} map", gap, "trials", claimed)]


def mean_height(lost: Numbers, ratios: Sequence[float] = TENTHS) -> Numbers:
    """Completeness: the mean over ratios of the accuracy lost, (..., ratios)."""
    return np.asarray(np.trapezoid(lost, ratios) / (ratios[-1] - ratios[0]))


def data(samples: int, draws: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Normal features and the sign of their sum."""
    x = draws.normal(size=(samples, FEATURES))
    return x, np.where(x.sum(1) > 0, 1.0, -1.0)


def maps(x: Numbers, y: Numbers, draws: np.random.Generator) -> dict[str, Numbers]:
    """The true attribution; half of it removed; as much introduced where there was none."""
    truth = np.maximum(0, x * y[:, None])
    chosen = draws.random(x.shape) < SHARE
    other = draws.random(x.shape) * truth.max(1, keepdims=True)
    changed = (truth, np.where(chosen, 0, truth), np.where(chosen & (truth == 0), other, truth))
    return dict(zip(MAPS, changed, strict=True))


class Insertion:
    """Features in falling order of attribution, with the sums that every number of them gives."""

    def __init__(self, x: Numbers, y: Numbers, a: Numbers, fill: Numbers) -> None:
        order = np.argsort(-a, axis=1)
        self.y, self.a = y[:, None], np.take_along_axis(a, order, 1)
        self.empty, self.full = fill.sum(1, keepdims=True), x.sum(1, keepdims=True)
        self.gains = np.cumsum(np.take_along_axis(x - fill, order, 1), axis=1)

    def lost(self, ratios: Sequence[float] = TENTHS) -> list[float]:
        """The accuracy lost when features with a > (1 − r)·max a go, for each r; all is right before."""
        padded = np.pad(self.gains, ((0, 0), (1, 0)))
        lost = []
        for r in ratios:
            many = (self.a > self.a[:, :1] * (1 - r)).sum(1, keepdims=True)
            left = self.full - np.take_along_axis(padded, many, 1)
            lost.append(1 - float(np.mean(np.sign(left) == self.y)))
        return lost

    def curve(self, steps: int = STEPS) -> tuple[torch.Tensor, torch.Tensor]:
        """Accuracy and soundness after each step of inserting features, highest attribution first."""
        hidden = [round((steps + 1 - i) / (steps + 1) * FEATURES) for i in range(1, steps + 1)]
        at = FEATURES - np.array(hidden) - 1
        right = np.sign(self.empty + self.gains[:, at]) == self.y
        responses = {
            "curve": torch.from_numpy(right.astype(float)),
            "included": torch.from_numpy(np.cumsum(self.a, axis=1)[:, at]),
            "defined": torch.ones(len(self.a), dtype=torch.bool),
        }
        return sound_curve(responses, "accuracy", Rule(0.01))
