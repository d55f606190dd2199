"""The bootstrap: which images a resample draws, intervals of statistics, rankings under resampled seeds and images.

A metric that is a mean over images needs none: its standard error is known (`intervals.py`). A statistic of the data
set is computed anew on every resample. All methods share the resamples, so that their differences are paired.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from uproar.seeds import generator, key
from uproar.statistics.design import LEVEL
from uproar.statistics.intervals import Numbers

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


def resampled_means(values: Numbers, draws: int = 1000) -> Numbers:
    """Means over seeds and images of (estimators, seeds, images) values, for resampled seeds and images, (draws, e)."""
    _, seeds, images = values.shape
    random = np.random.default_rng(key("seeds and images", seeds, images))
    means = []
    for _ in range(draws):
        by_image = values[:, random.integers(seeds, size=seeds)].mean(1)
        means.append(by_image[:, random.integers(images, size=images)].mean(1))
    return np.array(means)


def beats(draws: Numbers, sign: int = 1) -> Numbers:
    """How often each estimator (row) is better than each other (column); equal counts half. The diagonal is NaN.

    >>> beats(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))[0, 1].item()
    0.625
    """
    gap = sign * (draws[:, :, None] - draws[:, None, :])
    share = (gap > 0).mean(0) + (gap == 0).mean(0) / 2
    np.fill_diagonal(share, np.nan)
    return np.asarray(share)
