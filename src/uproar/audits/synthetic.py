"""Synthetic data with a known attribution: 200 independent features whose sum is the class (Li et al., 5.1).

The network is the sum itself, so that a changed input's class is a matter of sums, and a thousand trials are quick. The
true attribution of a feature is what it contributes to the class, max(0, y·x). Removing it from half of the features
that have any must cost completeness and not soundness; introducing it into others must cost soundness.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from uproar.metrics.soundness import TENTHS, Rule, at_level, sound_curve
from uproar.statistics.intervals import mean_interval

Numbers = NDArray[np.float64]

NAME = "sum of 200 features"
KNOWN_ANSWER = "known answer: 200 features whose sum is the class"
DIFFERENCES = "known answer: differences of maps"
"""Titles of the tables."""
SAMPLES, FEATURES, STEPS = 1000, 200, 49
SHARE = 0.5
"""Of the features with attribution that lose it, or of those without that gain some."""
LEVEL = 0.9
"""Accuracy at which soundness is read; the sum of features drawn anew alone is right half of the time."""


def trial(number: int, samples: int = SAMPLES) -> dict[str, float]:
    """Both metrics of the true map and of changed ones, for the fresh data and fresh changes of one trial."""
    draws = np.random.default_rng([0, number])
    x, y = data(samples, draws)
    fill = draws.normal(size=x.shape)
    metrics = {}
    for name, a in maps(x, y, draws).items():
        insertion = Insertion(x, y, a, fill)
        metrics[f"{name} completeness"] = insertion.completeness()
        metrics[f"{name} soundness"] = insertion.soundness()
    return metrics


def summary(trials: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Mean and spread of each metric of each map over the trials: map, metric, mean, sd, trials."""
    rows = []
    for title, values in trials.items():
        name, metric = title.split()
        rows.append({"map": name, "metric": metric, "mean": values.mean(), "sd": values.std(), "trials": len(values)})
    return pd.DataFrame(rows)


def differences(trials: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Every map minus every other by each metric, trial by trial: metric, map, other, mean, low, high, n, df."""
    named = {tuple(title.split()): values for title, values in trials.items()}
    rows = []
    for (name, metric), (other, same) in itertools.permutations(named, 2):
        if metric == same:
            gap = mean_interval(named[name, metric] - named[other, metric], exact=True)
            rows.append({"metric": metric, "map": name, "other": other, **gap.as_row(with_n=True), "df": gap.df})
    return pd.DataFrame(rows)


def data(samples: int, draws: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Normal features and the sign of their sum."""
    x = draws.normal(size=(samples, FEATURES))
    return x, np.where(x.sum(1) > 0, 1.0, -1.0)


def maps(x: Numbers, y: Numbers, draws: np.random.Generator) -> dict[str, Numbers]:
    """The true attribution; half of it removed; as much introduced where there was none."""
    truth = np.maximum(0, x * y[:, None])
    chosen = draws.random(x.shape) < SHARE
    other = draws.random(x.shape) * truth.max(1, keepdims=True)
    return {
        "truth": truth,
        "removed": np.where(chosen, 0, truth),
        "introduced": np.where(chosen & (truth == 0), other, truth),
    }


class Insertion:
    """Features in falling order of attribution, with the sums that every number of them gives."""

    def __init__(self, x: Numbers, y: Numbers, a: Numbers, fill: Numbers) -> None:
        order = np.argsort(-a, axis=1)
        self.y, self.a = y[:, None], np.take_along_axis(a, order, 1)
        self.empty, self.full = fill.sum(1, keepdims=True), x.sum(1, keepdims=True)
        self.gains = np.cumsum(np.take_along_axis(x - fill, order, 1), axis=1)

    def completeness(self, ratios: Sequence[float] = TENTHS) -> float:
        """Mean over r of the accuracy lost when features with a > (1 − r)·max a go."""
        return float(np.trapezoid(self.lost(ratios), ratios) / (ratios[-1] - ratios[0]))

    def lost(self, ratios: Sequence[float] = TENTHS) -> list[float]:
        """The accuracy lost at each r; all is right before."""
        padded = np.pad(self.gains, ((0, 0), (1, 0)))
        lost = []
        for r in ratios:
            many = (self.a > self.a[:, :1] * (1 - r)).sum(1, keepdims=True)
            left = self.full - np.take_along_axis(padded, many, 1)
            lost.append(1 - float(np.mean(np.sign(left) == self.y)))
        return lost

    def soundness(self, level: float = LEVEL) -> float:
        """Share of the attribution inserted so far that raised the accuracy when it came, where it reaches `level`."""
        return float(at_level(*self.curve(), level))

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


@dataclass(frozen=True)
class Simulation:
    """Trials on synthetic data; raise `version` where the values of a trial change."""

    trial: Callable[[int], Mapping[str, float]]
    """The values of the trial with a number; they depend on that number alone."""
    version: int = 1

    def trials(self, first: int, count: int) -> dict[str, np.ndarray]:
        """The values of some trials, (count,) each."""
        each = [self.trial(number) for number in range(first, first + count)]
        return {name: np.array([values[name] for values in each]) for name in each[0]}


SIMULATIONS = {NAME: Simulation(trial)}
