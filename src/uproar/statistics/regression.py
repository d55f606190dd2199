"""Least-squares lines: R² with its intervals over estimators and over replicates, residuals, a permutation test."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from uproar.seeds import key
from uproar.statistics.bootstrap import percentile_interval
from uproar.statistics.correlation import pearson
from uproar.statistics.intervals import ROUNDING, Interval, t_interval
from uproar.statistics.student_t import Numbers

DRAWS = 2000
SPREAD = 1e-9
"""Values closer than this, relative to their size, count as equal."""


def r_squared(x: ArrayLike, y: ArrayLike) -> float:
    """Share of the variance of y that a straight line over x explains; NaN where one of them is constant.

    >>> round(r_squared([0, 1, 2], [0, 1, 2.5]), 4)
    0.9868
    """
    return pearson(x, y, SPREAD) ** 2


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Slope of the least-squares line of y over x; NaN where x is constant."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    spread = float(((a - a.mean()) ** 2).sum())
    return float(((a - a.mean()) * (b - b.mean())).sum() / spread) if spread > 0 else math.nan


def residuals(x: ArrayLike, y: ArrayLike) -> Numbers:
    """What is left of y when the least-squares line over x is taken out; x may have leading axes (lines of their own).

    >>> residuals([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]).round(9).tolist()
    [0.0, 0.0, 0.0]
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    square = (a * a).sum(-1, keepdims=True)
    slope = np.divide((a * b).sum(-1, keepdims=True), square, out=np.zeros_like(square), where=square > 0)
    return np.asarray(b - slope * a)


def r_squared_interval(x: Numbers, y: Numbers, seed: int = 0) -> tuple[float, float]:
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
    return percentile_interval((a * b).sum(1) ** 2 / ((a * a).sum(1) * (b * b).sum(1)))


def permutation_p(x: ArrayLike, y: ArrayLike, seed: int = 0) -> float:
    """How often estimators dealt out anew correlate as strongly, in either direction."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    observed = abs(pearson(a, b, SPREAD))
    if math.isnan(observed):
        return math.nan
    random = np.random.default_rng(key(seed, "permutations of a regression"))
    dealt = np.stack([random.permutation(b) for _ in range(DRAWS)])
    a, dealt = a - a.mean(), dealt - dealt.mean(1, keepdims=True)
    r = dealt @ a / (np.linalg.norm(a) * np.linalg.norm(dealt, axis=1))
    return float((1 + np.sum(np.abs(r) >= observed - 1e-12)) / (1 + DRAWS))


def signed_r_squared(x: ArrayLike, y: ArrayLike) -> float:
    """R², negative for a falling line."""
    r = pearson(x, y)
    return r * abs(r)


def line_interval(x: Numbers, y: Numbers) -> Interval:
    """`signed_r_squared` of the mean of y over x; y is (replicates, points).

    The interval is the jackknife's over replicates, where these vary: the points are taken as given.

    >>> x = np.arange(8.0)
    >>> noise = np.random.default_rng(0).normal(size=(5, 8))
    >>> interval = line_interval(x, 2 * x + noise)
    >>> interval.value > 0.95, interval.low > 0.9, interval.n
    (True, True, 5)
    """
    n = len(y)
    value = signed_r_squared(x, y.mean(0))
    if not math.isfinite(value) or n < 2:
        return Interval(value, n=n, replicates=n)
    without = np.array([signed_r_squared(x, np.delete(y, i, 0).mean(0)) for i in range(n)])
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    return t_interval(value, error if error > ROUNDING else math.nan, n - 1, n).clipped(-1.0, 1.0)
