"""Rankings under resampled seeds and images: who beats whom, and how far two rankings agree."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from uproar.seeds import key
from uproar.statistics.concordance import kendall
from uproar.statistics.design import ALPHA
from uproar.statistics.intervals import crossed_mean
from uproar.statistics.multiple_testing import holm, sides
from uproar.statistics.student_t import Numbers

DRAWS = 1000
TOGETHER = 100
"""Draws of images held at a time."""


def resampled_means(values: Numbers, seed: int = 0, draws: int = DRAWS) -> Numbers:
    """Means over seeds and images of (estimators, seeds, images) values, for resampled seeds and images, (draws, e).

    All estimators are judged on the same draws. Resampling s seeds alone makes their spread too small by (s - 1) / s,
    which matters for few seeds; the deviations are widened by that.
    """
    estimators, seeds, images = values.shape
    random = np.random.default_rng(key(seed, "seeds and images", seeds, images))
    flat = values.reshape(estimators * seeds, images).T
    widened = math.sqrt(seeds / (seeds - 1)) if seeds > 1 else 0.0
    parts = []
    for start in range(0, draws, TOGETHER):
        size = min(TOGETHER, draws - start)
        counts = random.multinomial(images, np.full(images, 1 / images), size=size)
        chosen = random.integers(seeds, size=(size, 1, seeds))
        by_seed = (counts @ flat / images).reshape(size, estimators, seeds)
        mean = by_seed.mean(2)
        drawn = np.take_along_axis(by_seed, np.broadcast_to(chosen, by_seed.shape), 2).mean(2)
        parts.append(mean + widened * (drawn - mean))
    return np.concatenate(parts)


def beats(draws: Numbers, sign: int = 1) -> Numbers:
    """How often each estimator (row) is better than each other (column); equal counts half. The diagonal is NaN.

    >>> beats(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))[0, 1].item()
    0.625
    """
    gap = sign * (draws[:, :, None] - draws[:, None, :])
    share = (gap > 0).mean(0) + (gap == 0).mean(0) / 2
    np.fill_diagonal(share, np.nan)
    return np.asarray(share)


def decided_pairs(values: Numbers, sign: int = 1, alpha: float = ALPHA) -> NDArray[np.int64]:
    """1 where the row is better than the column, -1 where worse, 0 where it cannot be told, (e, e).

    Values are (estimators, seeds, images); each pair is compared as methods are under a metric, Holm over all pairs.
    """
    first, second = np.triu_indices(len(values), 1)
    differences = [crossed_mean(gap) for gap in sign * (values[first] - values[second])]
    side = np.zeros((len(values), len(values)), dtype=np.int64)
    side[first, second] = sides([d.value for d in differences], holm([d.p for d in differences]), alpha)
    return side - side.T


def halves(values: Numbers, seed: int = 0, draws: int = 200) -> Numbers:
    """Kendall's τ between the rankings by one random half of the images and by the other, (draws,)."""
    by_image = values.mean(1)
    random = np.random.default_rng(key(seed, "halves of the images"))
    taus = []
    for _ in range(draws):
        order = random.permutation(by_image.shape[1])
        cut = len(order) // 2
        taus.append(kendall(by_image[:, order[:cut]].mean(1), by_image[:, order[cut:]].mean(1)))
    return np.array(taus)
