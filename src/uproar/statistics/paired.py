"""Paired differences over replicates: Student's t on n - 1 degrees of freedom."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from uproar.errors import NotApplicable
from uproar.statistics.intervals import Interval, mean_interval

ROUNDING = 1e-12
"""Differences that vary by less than this share of the largest value do not vary: the rest is rounding."""


def paired_t(first: ArrayLike, second: ArrayLike) -> Interval:
    """The mean difference of two rows of replicates over those that both have, with its test.

    Without a second difference there is no test; nor without any spread beyond rounding: replicates that do not vary
    are copies of one run more often than they are proof.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    shared = np.isfinite(a - b)
    interval = mean_interval((a - b)[shared])
    size = float(np.abs([a[shared], b[shared]]).max(initial=0))
    error = float((a - b)[shared].std(ddof=1) / np.sqrt(interval.n)) if interval.n > 1 else 0.0
    return interval if error > ROUNDING * size else Interval(interval.value, n=interval.n, replicates=interval.n)


def paired_difference(first: pd.Series | np.ndarray, second: pd.Series | np.ndarray) -> Interval:
    """The mean difference with its interval, refused for fewer than two replicates; series are matched by their index.

    >>> print(paired_difference(np.array([1.0, 2.0, 3.3]), np.array([0.0, 1.0, 2.0])))
    1.10 [0.67, 1.53]
    """
    interval = mean_interval(first - second)
    if interval.n < 2:
        replicates = f"{interval.n} replicate{'s' if interval.n != 1 else ''}"
        raise NotApplicable(f"{replicates} cannot give an interval; run at least 2 seeds")
    return interval
