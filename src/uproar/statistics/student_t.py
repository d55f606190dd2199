"""Student's t: quantiles, p values, and the degrees of freedom of sums of variances."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from uproar.statistics.design import LEVEL

Numbers = NDArray[np.float64]


def cautious_df(*parts: tuple[ArrayLike, ArrayLike]) -> Numbers:
    """Degrees of freedom of a sum of variances, each given with its own, at the level of our intervals.

    Each variance is weighted with the square of its own quantile of Student's t, and the degrees of freedom are those
    whose quantile gives the same half width. Satterthwaite's are too many where a variance on 2 degrees of freedom and
    one on many are of one size.
    """
    total = np.asarray(sum(np.asarray(variance, dtype=float) for variance, _ in parts))
    wide = np.asarray(sum(np.asarray(v, dtype=float) * t_quantile(df) ** 2 for v, df in parts))
    with np.errstate(invalid="ignore", divide="ignore"):
        df = scipy.special.stdtridf((1 + LEVEL) / 2, np.sqrt(wide / total))
    return np.asarray(np.where(total > 0, df, np.where(total == 0, np.inf, np.nan)))


def satterthwaite(*parts: tuple[ArrayLike, ArrayLike]) -> tuple[Numbers, Numbers]:
    """The sum of independent variances, each given with its degrees of freedom, and approximate ones of the sum."""
    variances = [np.asarray(variance, dtype=float) for variance, _ in parts]
    total = np.asarray(sum(variances))
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = sum(np.where(v > 0, v**2 / df, 0.0) for v, (_, df) in zip(variances, parts, strict=True))
        return total, np.asarray(np.where(squares > 0, total**2 / squares, np.inf))


def t_quantile(df: ArrayLike, level: float = LEVEL) -> Numbers:
    """Half width, in standard errors, of a two-sided t-interval; NaN without degrees of freedom."""
    return np.asarray(-scipy.special.stdtrit(_positive(df), (1 - level) / 2))


def two_sided_p(difference: ArrayLike, error: ArrayLike, df: ArrayLike) -> Numbers:
    """Two-sided p of a t-test; NaN without a standard error or degrees of freedom."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(difference) / np.asarray(error, dtype=float)
    return np.asarray(2 * scipy.special.stdtr(_positive(df), -t))


def _positive(df: ArrayLike) -> Numbers:
    """Degrees of freedom as scipy takes them: NaN where there are none."""
    return np.where(np.asarray(df) > 0, df, np.nan)
