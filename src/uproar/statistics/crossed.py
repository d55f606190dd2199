"""Means over replicates and test images at once, with an interval that allows for both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from uproar.statistics.paired_differences import LEVEL


@dataclass(frozen=True)
class Mean:
    """A mean with its interval."""

    mean: float
    low: float
    high: float

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Mean and half width, e.g. `0.31 ± 0.04`."""
        half = (self.high - self.low) / 2
        return f"{scale * self.mean:.{digits}f} ± {scale * half:.{digits}f}"


def mean_of(values: np.ndarray) -> Mean:
    """The mean of (replicates, images): both could have been others, so that the variances of both means add up.

    With one replicate the interval allows for other images only. Degrees of freedom after Satterthwaite.

    >>> mean_of(np.array([[0.0, 1.0], [0.0, 1.0]])).mean
    0.5
    """
    values = np.atleast_2d(np.asarray(values, dtype=float))
    sources = []
    for axis in (0, 1):
        own = values.mean(axis=1 - axis)
        if len(own) > 1:
            sources.append((float(own.var(ddof=1)) / len(own), len(own) - 1))
    total = sum(variance for variance, _ in sources)
    centre = float(values.mean())
    if total <= 0:
        return Mean(centre, centre, centre)
    freedom = total**2 / sum(variance**2 / df for variance, df in sources)
    half = float(scipy.stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(total)
    return Mean(centre, centre - half, centre + half)
