"""Intervals of the few kinds of numbers that claims are about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from uproar.seeds import key

RESAMPLES = 400


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval; NaN ends where there is none."""

    value: float
    low: float
    high: float
    n: int


def mean_interval(values: np.ndarray) -> Interval:
    """Student's interval of a mean.

    >>> found = mean_interval(np.array([0.4, 0.5, 0.6]))
    >>> round(found.low, 3), round(found.high, 3)
    (0.252, 0.748)
    """
    values = values[np.isfinite(values)]
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    if n < 2:
        return Interval(mean, math.nan, math.nan, n)
    half = float(scipy.stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def correlation_interval(tables: Sequence[np.ndarray], ranked: bool = True) -> Interval:
    """The mean correlation of several tables of (images, 2) values, and its bootstrap interval over images.

    The tables are of the same images, NaN where a value is not defined, and images are drawn for all of them at once.
    Ranks are taken once, before the resampling.
    """
    return _resampled(tables, ranked, _mean)


def correlation(table: np.ndarray, ranked: bool = True) -> float:
    """The correlation of two columns, of ranks or of values; NaN where one does not vary.

    >>> round(correlation(np.array([[1.0, 5.0], [2.0, 7.0], [3.0, 6.0]])), 2)
    0.5
    """
    return float(_correlations(table, ranked, np.ones((1, len(table))))[0])


def spread_interval(tables: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> Interval:
    """How much more rank correlations differ from table to table than those of other tables of the same images.

    The difference of their standard deviations, with its bootstrap interval over images.
    """

    def gap(found: np.ndarray) -> np.ndarray:
        first, second = found[: len(tables)], found[len(tables) :]
        there = np.isfinite(first) & np.isfinite(second)
        return _spread(np.where(there, first, np.nan)) - _spread(np.where(there, second, np.nan))

    return _resampled([*tables, *others], True, gap)


def _resampled(tables: Sequence[np.ndarray], ranked: bool, statistic: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """A statistic of the tables' correlations, (tables, resamples) -> (resamples,), of all images and of resamples."""
    n = len(tables[0])
    draws = np.random.default_rng(key("claims", "images"))
    counts = draws.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(float)
    weights = np.concatenate([np.ones((1, n)), counts])
    found = statistic(np.stack([_correlations(table, ranked, weights) for table in tables]))
    value, finite = float(found[0]), found[1:][np.isfinite(found[1:])]
    if len(finite) < RESAMPLES // 2:
        return Interval(value, math.nan, math.nan, n)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Interval(value, float(low), float(high), n)


def _correlations(table: np.ndarray, ranked: bool, weights: np.ndarray) -> np.ndarray:
    """The correlation of the two columns under every row of weights; NaN where a column does not vary."""
    whole = np.isfinite(table).all(1)
    w = weights[:, whole]
    a, b = (scipy.stats.rankdata(c) if ranked else c for c in table[whole].T)
    a, b = a - a.mean(), b - b.mean()
    total = np.maximum(w.sum(1), 1)
    mean_a, mean_b = w @ a / total, w @ b / total
    var_a, var_b = w @ a**2 / total - mean_a**2, w @ b**2 / total - mean_b**2
    size = np.sqrt(np.maximum(var_a, 0) * np.maximum(var_b, 0))
    least = 1e-12 * max(float(a @ a * (b @ b)), 1e-300) ** 0.5
    return np.where(size > least, (w @ (a * b) / total - mean_a * mean_b) / np.maximum(size, least), np.nan)


def _mean(found: np.ndarray) -> np.ndarray:
    """Over the tables that have a number."""
    there = np.isfinite(found)
    total, n = np.where(there, found, 0.0).sum(0), there.sum(0)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _spread(found: np.ndarray) -> np.ndarray:
    """Standard deviation over at least three tables that have a number."""
    there = np.isfinite(found)
    n = there.sum(0)
    squares = np.where(there, (found - _mean(found)) ** 2, 0.0).sum(0)
    return np.where(n >= 3, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)


def line_interval(x: np.ndarray, y: np.ndarray) -> Interval:
    """The share of the variance of y's mean that a line over x explains; negative for a falling line.

    y is (replicates, points). The interval is the jackknife's over replicates: the points are taken as given.

    >>> x = np.arange(8.0)
    >>> noise = np.random.default_rng(0).normal(size=(5, 8))
    >>> found = line_interval(x, 2 * x + noise)
    >>> found.value > 0.95, found.low > 0.9, found.n
    (True, True, 5)
    """
    n = len(y)
    value = _explained(x, y.mean(0))
    if not math.isfinite(value) or n < 2:
        return Interval(value, math.nan, math.nan, n)
    without = np.array([_explained(x, np.delete(y, i, 0).mean(0)) for i in range(n)])
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    half = float(scipy.stats.t.ppf(0.975, n - 1)) * error
    return Interval(value, max(value - half, -1.0), min(value + half, 1.0), n)


def _explained(x: np.ndarray, y: np.ndarray) -> float:
    r = correlation(np.stack([x, y], 1).astype(float), ranked=False)
    return r * abs(r)
