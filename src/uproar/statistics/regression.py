"""How well one number of an estimator tells another: R² with an interval, a permutation test, partial correlation."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from uproar.seeds import key

Array = NDArray[np.float64]

DRAWS = 2000
SPREAD = 1e-9
"""Values closer than this, relative to their size, count as equal."""


def r_squared(x: ArrayLike, y: ArrayLike) -> float:
    """Share of the variance of y that a straight line over x explains; NaN where one of them is constant.

    >>> round(r_squared([0, 1, 2], [0, 1, 2.5]), 4)
    0.9868
    """
    r = correlation(x, y)
    return r * r


def correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation; NaN where one of them is constant or there are fewer than three points."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 3 or _constant(a) or _constant(b):
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Slope of the least-squares line of y over x; NaN where x is constant."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    spread = float(((a - a.mean()) ** 2).sum())
    return float(((a - a.mean()) * (b - b.mean())).sum() / spread) if spread > 0 else math.nan


def residuals(x: ArrayLike, y: ArrayLike) -> Array:
    """What is left of y when the least-squares line over x is taken out; x may have leading axes (lines of their own).

    >>> residuals([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]).round(9).tolist()
    [0.0, 0.0, 0.0]
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    square = (a * a).sum(-1, keepdims=True)
    slope = np.divide((a * b).sum(-1, keepdims=True), square, out=np.zeros_like(square), where=square > 0)
    return np.asarray(b - slope * a)


def r_squared_interval(x: Array, y: Array, seed: int = 0, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap interval of R² between means over replicates, (estimators, replicates) each.

    Estimators and replicates are drawn with replacement: the interval says what other estimators of this kind and
    other replicates would have given. Draws with fewer than three different estimators have no line and are left out.
    """
    random = np.random.default_rng(key(seed, "bootstrap of a regression"))
    estimators, replicates = x.shape
    rows = random.integers(estimators, size=(DRAWS, estimators))
    columns = random.integers(replicates, size=(DRAWS, 1, replicates))
    rows = rows[(np.diff(np.sort(rows, axis=1), axis=1) > 0).sum(1) >= 2]
    a, b = (values[rows[:, :, None], columns[: len(rows)]].mean(2) for values in (x, y))
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    varies = (np.ptp(a, axis=1) > SPREAD) & (np.ptp(b, axis=1) > SPREAD)
    a, b = a[varies], b[varies]
    if not len(a):
        return math.nan, math.nan
    found = (a * b).sum(1) ** 2 / ((a * a).sum(1) * (b * b).sum(1))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def permutation_p(x: ArrayLike, y: ArrayLike, seed: int = 0) -> float:
    """How often estimators dealt out anew correlate as strongly, in either direction."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    seen = abs(correlation(a, b))
    if math.isnan(seen):
        return math.nan
    random = np.random.default_rng(key(seed, "permutations of a regression"))
    dealt = np.stack([random.permutation(b) for _ in range(DRAWS)])
    a, dealt = a - a.mean(), dealt - dealt.mean(1, keepdims=True)
    r = dealt @ a / (np.linalg.norm(a) * np.linalg.norm(dealt, axis=1))
    return float((1 + np.sum(np.abs(r) >= seen - 1e-12)) / (1 + DRAWS))


def partial_spearman(a: ArrayLike, b: ArrayLike, given: ArrayLike) -> float:
    """Rank correlation of a and b that is left when the ranks of `given` are taken out of both.

    NaN where nothing is left of one of them.

    >>> round(partial_spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], [1, 2, 3, 4, 5]), 3)
    nan
    """
    ranked = [scipy.stats.rankdata(values) for values in (a, b, given)]
    left = [residuals(ranked[2], values) for values in ranked[:2]]
    if any(np.linalg.norm(part) < SPREAD * len(part) for part in left):
        return math.nan
    return correlation(*left)


def _constant(values: Array) -> bool:
    return bool(np.ptp(values) <= SPREAD * max(1.0, float(np.abs(values).max())))
