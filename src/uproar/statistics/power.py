"""Which difference a test would have found, and how many images or replicates would decide one that is open."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.design import ALPHA
from uproar.statistics.intervals import Numbers, t_quantile

POWER = 0.8
MOST = 1000
"""Times as much as there is now, beyond which a difference counts as too small to be found."""


def detectable(error: ArrayLike, df: ArrayLike, tests: int = 1, alpha: float = ALPHA, power: float = POWER) -> Numbers:
    """The difference that a two-sided t-test with this standard error finds with `power`, at Holm's first step.

    >>> float(detectable(1.0, 1e6).round(1))
    2.8
    """
    return np.asarray((t_quantile(df, 1 - alpha / max(tests, 1)) + scipy.special.stdtrit(df, power)) * error)


def required_sample_size(difference: float, half_width: float, df: float, n: int, tests: int = 1) -> int | None:
    """The n with which a difference of the present size is decided in 80 % of studies; None where MOST times n is not.

    `half_width` is that of its 95 % interval with `n` now, on `df` degrees of freedom; both the squared standard error
    and the degrees of freedom go with n. `tests` differences share the error rate (the first step of Holm's procedure).

    >>> required_sample_size(0.10, 0.15, 19, n=20), required_sample_size(0.0, 0.15, 19, n=20)
    (83, None)
    """
    if not (difference > 0 and half_width > 0 and df > 0 and n > 0):
        return None
    error = half_width / float(t_quantile(df))
    low, high = n, MOST * n
    while high - low > 1:  # `low` does not decide, or is what there is
        middle = (low + high) // 2
        found = difference >= detectable(error * math.sqrt(n / middle), df * middle / n, tests)
        low, high = (low, middle) if found else (middle, high)
    return high if high < MOST * n else None
