"""How many images or replicates would decide a difference that is open now."""

from __future__ import annotations

import math

from uproar.statistics.design import ALPHA
from uproar.statistics.student_t import t_quantile
from uproar.statistics.twoway import noncentrality
from uproar.statistics.verdicts import POWER

MOST = 1000
"""Times as much as there is now, beyond which a difference counts as too small to be told."""


def required_sample_size(
    difference: float, half_width: float, df: float, n: int, tests: int = 1, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """The n with which a difference of the present size is decided with `power`; None where no n up to MOST times is.

    `half_width` is that of its 95 % interval with `n` now, on `df` degrees of freedom; both the squared standard error
    and the degrees of freedom go with n. `tests` differences share the error rate (the first step of Holm's procedure).

    >>> required_sample_size(0.10, 0.15, 19, n=20), required_sample_size(0.0, 0.15, 19, n=20)
    (83, None)
    >>> required_sample_size(0.10, 0.15, 19, n=20, tests=10)
    142
    """
    if not (difference > 0 and half_width > 0 and df > 0 and n > 0):
        return None
    error = half_width / float(t_quantile(df))

    def decides(more: int) -> bool:
        times = more / n
        size = noncentrality(_rounded(df * times), alpha / max(tests, 1), power)
        return difference >= size * error / math.sqrt(times)

    if not decides(MOST * n):
        return None
    low, high = n, MOST * n
    while high - low > 1:  # `low` does not decide, or is what there is
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def _rounded(df: float) -> float:
    """Degrees of freedom as far as they matter, so that few quantiles are computed."""
    return float(f"{df:.2g}") if df > 100 else round(df, 1)
