"""The bootstrap: which images a resample draws, and intervals of statistics.

A metric that is a mean over images needs none: its standard error is known (`intervals.py`). A statistic of the data
set is computed anew on every resample. All methods share the resamples, so that their differences are paired.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from uproar.seeds import generator
from uproar.statistics.design import LEVEL

DRAWS = 200
"""Resamples of the images for a statistic of the data set."""


def resampled_images(n: int, draws: int = DRAWS, seed: int = 0, name: str = "bootstrap") -> Tensor:
    """Rows of `n` images drawn with replacement, (draws, n)."""
    return torch.randint(n, (draws, n), generator=generator(seed, name, n))


def percentile_interval(draws: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """The middle `level` of the resamples; NaN ones do not count.

    >>> percentile_interval(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return math.nan, math.nan
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
