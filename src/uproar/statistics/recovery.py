"""Does a judge put things in the order that is known? Kendall's τ, pairs told right and wrong, what it takes.

A judge's values are given best first and turned so that larger is better: once for all images, and for resamples of the
images that all values share. τ is the mean over resamples, so that a pair that could as well be the other way round
counts little, and its interval the percentile interval; a pair is told with confidence where the middle 95 % of its
resampled differences lie on one side of 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from uproar.statistics.bootstrap import percentile_interval, resampled_images
from uproar.statistics.design import ALPHA
from uproar.statistics.intervals import POWER, Interval, Numbers, detectable, nanmean

POWER_Z = float(scipy.special.ndtri([1 - ALPHA / 2, POWER]).sum())
"""Standard errors that a difference must measure to be seen at 5 %, two-sided, in 80 % of samples."""
MOST_REPLICATES = 1000
"""The number of replicates that stands for never: more would be needed, or a pair is told wrong."""


@dataclass(frozen=True)
class Recovery:
    """How well one judge recovers one known order."""

    tau: Interval
    """Kendall's τ-a with the known order, the mean over resamples of the images: 1 all pairs right, −1 all wrong."""
    right: float
    """Share of pairs in the right order, with confidence."""
    wrong: float
    """Share of pairs in the wrong order, with confidence."""
    needed: float
    """Images until a pair is told right in 80 % of samples: the median over pairs; infinite for pairs told wrong."""
    spread: float
    """Largest minus smallest value."""
    values: tuple[float, ...]
    """The judge's values, best first as is known; larger is better."""


def recovery(values: ArrayLike, resampled: ArrayLike, images: int) -> Recovery:
    """Recovery from values of (levels,) and (levels, resamples), best first, larger is better; NaN is no order.

    >>> images = np.array([[3.0, 3.1, 2.9], [2.0, 2.2, 1.9], [1.0, 1.0, 1.1]])
    >>> result = recovery_of_images(images)
    >>> result.tau.value, result.right, result.wrong
    (1.0, 1.0, 0.0)
    """
    known = np.asarray(values, dtype=float)
    draws = np.asarray(resampled, dtype=float)
    first, second = np.triu_indices(len(known), 1)
    taus = _signs(draws[first] - draws[second]).mean(0)
    low, high = percentile_interval(taus)
    tau = float(taus.mean())
    sides = np.array([_side(draws[i] - draws[j]) for i, j in zip(first, second, strict=True)])
    needed = [
        _images_needed(known[i] - known[j], draws[i] - draws[j], images) for i, j in zip(first, second, strict=True)
    ]
    finite = known[np.isfinite(known)]
    spread = float(np.ptp(finite)) if len(finite) else math.nan
    return Recovery(
        Interval(tau, low, high, images),
        float((sides > 0).mean()),
        float((sides < 0).mean()),
        float(np.median(needed)),
        spread,
        tuple(float(v) for v in known),
    )


def recovery_of_images(values: ArrayLike) -> Recovery:
    """Recovery of a judge whose value is a mean over images: (levels, images), best first, larger is better."""
    table = np.asarray(values, dtype=float)
    n = table.shape[1]
    rows = resampled_images(n).numpy()
    return recovery(nanmean(table, 1), np.stack([nanmean(row[rows], 1) for row in table]), n)


def _signs(differences: Numbers) -> Numbers:
    """1 where the first is larger, −1 where the second is, 0 for ties beyond rounding and for what is undefined."""
    size = np.nan_to_num(differences)
    return np.where(np.abs(size) > 1e-9, np.sign(size), 0.0)


def _side(differences: Numbers) -> int:
    """1 or −1 where the resampled differences lie on one side of 0 with confidence, else 0."""
    low, high = percentile_interval(differences)
    return int(low > 1e-9) - int(high < -1e-9)


def _images_needed(difference: float, resampled: Numbers, images: int) -> float:
    finite = resampled[np.isfinite(resampled)]
    if not difference > 1e-9 or len(finite) < 2:
        return math.inf
    return max(2.0, images * (POWER_Z * float(finite.std(ddof=1)) / difference) ** 2)


def replicates_needed(values: ArrayLike) -> float:
    """Replicates until a pair is told right by a paired t-test in 80 % of samples: the median over pairs.

    `values` is (levels, replicates), best first, larger is better; at most MOST_REPLICATES.

    >>> replicates_needed([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    5.0
    """
    table = np.asarray(values, dtype=float)
    first, second = np.triu_indices(len(table), 1)
    return float(np.median([_replicates(table[i] - table[j]) for i, j in zip(first, second, strict=True)]))


def _replicates(differences: Numbers) -> float:
    """Replicates for one pair: at least 2, since one alone has no spread."""
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if not mean > 1e-9:
        return MOST_REPLICATES
    if spread < 1e-9:
        return 2.0
    numbers = np.arange(2, MOST_REPLICATES + 1)
    seen = mean >= detectable(spread / np.sqrt(numbers), numbers - 1)
    return float(numbers[seen.argmax()]) if seen.any() else MOST_REPLICATES
