"""Correlations: Pearson's, Spearman's, partial, point-biserial; of every two columns; with bootstrap intervals.

One rule for NaN throughout: a pair (or triple) with a NaN is left out, and the correlation is NaN where fewer than
three are left or one side of these does not vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.seeds import key
from uproar.statistics.bootstrap import percentile_interval
from uproar.statistics.intervals import Interval, Numbers, nanmean

FEW = 3
"""Fewer pairs than this have no correlation."""
RESAMPLES = 400
"""Resamples of the images for the interval of a correlation."""


def is_binary(values: ArrayLike) -> bool:
    """Whether only 0 and 1 occur, NaN aside; a sign may have been turned."""
    levels = np.unique(np.abs(np.asarray(values, dtype=float)))
    return set(levels[np.isfinite(levels)]) <= {0.0, 1.0}


def pearson(a: ArrayLike, b: ArrayLike, rounding: float = 0.0) -> float:
    """Pearson's correlation; `rounding` is the range, as a share of the largest value or of 1, that counts as constant.

    >>> round(pearson([0, 1, 2, math.nan], [0, 1, 2.5, 9]), 4)
    0.9934
    """
    x, y = _complete(a, b)
    if len(x) < FEW or any(np.ptp(v) <= rounding * max(1.0, float(np.abs(v).max())) for v in (x, y)):
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x @ y) / math.sqrt((x @ x) * (y @ y)), -1, 1))


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation."""
    return pearson(*(scipy.stats.rankdata(column) for column in _complete(a, b)))


def association(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's correlation; point-biserial where one side is binary, Pearson's where both are.

    >>> association([1, 2, 3, 4], [1, 4, 9, 16])
    1.0
    >>> round(association([0, 0, 1, 1], [1, 2, 3, 5]), 3)
    0.845
    """
    x, y = _complete(a, b)
    return pearson(x, y) if is_binary(x) or is_binary(y) else spearman(x, y)


def partial_spearman(a: ArrayLike, b: ArrayLike, given: ArrayLike) -> float:
    """Spearman's correlation of a and b with what the ranks of `given` explain taken out of both.

    NaN also where `given` explains one of them completely.

    >>> round(partial_spearman([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, math.nan], [1, 3, 2, 5, 4, 6]), 3)
    0.978
    >>> partial_spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], [1, 2, 3, 4, 5])
    nan
    """
    x, y, z = (scipy.stats.rankdata(column) for column in _complete(a, b, given))
    xy, xz, yz = pearson(x, y), pearson(x, z), pearson(y, z)
    rest = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / math.sqrt(rest)) if rest > 1e-12 else math.nan


def association_matrix(columns: Numbers) -> Numbers:
    """`association` of every two columns of (..., n, k) values, (..., k, k).

    The diagonal is NaN: nothing is compared with itself.
    """
    table = np.asarray(columns, dtype=float)
    k = table.shape[-1]
    if np.isfinite(table).all() and table.shape[-2] >= FEW:
        binary = ((table == 0) | (np.abs(table) == 1)).all(-2)
        either = binary[..., :, None] | binary[..., None, :]
        ranked = _correlations(scipy.stats.rankdata(table, axis=-2))
        matrix = np.where(either, _correlations(table), ranked)
        matrix[..., range(k), range(k)] = np.nan
        return matrix
    if table.ndim > 2:
        return np.array([association_matrix(part) for part in table])
    matrix = np.full((k, k), np.nan)
    whole = np.isfinite(table).all(0)
    if whole.any() and len(table) >= FEW:
        matrix[np.ix_(whole, whole)] = association_matrix(table[:, whole])
    for i in np.flatnonzero(~whole):
        rows = table[np.isfinite(table[:, i])]
        fits = np.isfinite(rows).all(0)
        if len(rows) >= FEW:  # with these columns, the rows of this one are all that count
            position = int(fits[:i].sum())
            matrix[i, fits] = matrix[fits, i] = association_matrix(rows[:, fits])[position]
        for j in np.flatnonzero(~fits):
            matrix[i, j] = matrix[j, i] = association(table[:, i], table[:, j])
    return matrix


def rank_correlations(a: Numbers, b: Numbers) -> Numbers:
    """Spearman's correlation of each row of a with the same row of b, (rows,)."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    whole = np.isfinite(left).all(1) & np.isfinite(right).all(1)
    correlations = np.full(len(left), np.nan)
    if left.shape[1] >= FEW and whole.any():
        x, y = (scipy.stats.rankdata(side[whole], axis=1) for side in (left, right))
        x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
        size = np.sqrt((x**2).sum(1) * (y**2).sum(1))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations[whole] = np.where(size > 0, (x * y).sum(1) / size, np.nan)
    for row in np.flatnonzero(~whole):
        correlations[row] = spearman(left[row], right[row])
    return correlations


def correlation_interval(tables: Sequence[np.ndarray], ranked: bool = True) -> Interval:
    """The mean correlation of several tables of (images, 2) values, and its bootstrap interval over images.

    The tables are of the same images, NaN where a value is not defined, and images are drawn for all of them at once.
    Ranks are taken once, before the resampling.
    """
    return _resampled(tables, ranked, nanmean)


def spread_interval(tables: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> Interval:
    """How much more rank correlations differ from table to table than those of other tables of the same images.

    The difference of their standard deviations, with its bootstrap interval over images.
    """

    def gap(correlations: np.ndarray) -> np.ndarray:
        first, second = correlations[: len(tables)], correlations[len(tables) :]
        both = np.isfinite(first) & np.isfinite(second)
        return np.asarray(_spread(np.where(both, first, np.nan)) - _spread(np.where(both, second, np.nan)))

    return _resampled([*tables, *others], True, gap)


def _resampled(tables: Sequence[np.ndarray], ranked: bool, statistic: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """A statistic of the tables' correlations, (tables, resamples) -> (resamples,), of all images and of resamples."""
    n = len(tables[0])
    draws = np.random.default_rng(key("claims", "images"))
    counts = draws.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(float)
    weights = np.concatenate([np.ones((1, n)), counts])
    value, *resampled = statistic(np.stack([_weighted(table, ranked, weights) for table in tables]))
    finite = np.array(resampled)[np.isfinite(resampled)]
    low, high = percentile_interval(finite) if len(finite) >= RESAMPLES // 2 else (math.nan, math.nan)
    return Interval(float(value), low, high, n)


def _weighted(table: np.ndarray, ranked: bool, weights: np.ndarray) -> np.ndarray:
    """The correlation of the two columns under every row of weights."""
    whole = np.isfinite(table).all(1)
    w = weights[:, whole]
    a, b = (scipy.stats.rankdata(c) if ranked else c for c in table[whole].T)
    a, b = a - a.mean(), b - b.mean()
    total = np.maximum(w.sum(1), 1)
    mean_a, mean_b = w @ a / total, w @ b / total
    var_a, var_b = w @ a**2 / total - mean_a**2, w @ b**2 / total - mean_b**2
    size = np.sqrt(np.maximum(var_a, 0) * np.maximum(var_b, 0))
    least = 1e-12 * max(float(a @ a * (b @ b)), 1e-300) ** 0.5
    return np.asarray(np.where(size > least, (w @ (a * b) / total - mean_a * mean_b) / np.maximum(size, least), np.nan))


def _spread(correlations: np.ndarray) -> np.ndarray:
    """Standard deviation over at least three tables that have a correlation."""
    present = np.isfinite(correlations)
    n = present.sum(0)
    squares = np.where(present, (correlations - nanmean(correlations)) ** 2, 0.0).sum(0)
    return np.where(n >= FEW, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)


def _complete(*columns: ArrayLike) -> tuple[Numbers, ...]:
    """The columns without the rows in which any has a NaN."""
    table = np.stack([np.asarray(column, dtype=float) for column in columns])
    kept = table[:, np.isfinite(table).all(0)]
    return tuple(kept)


def _correlations(table: Numbers) -> Numbers:
    """Pearson's correlation of every two columns of (..., n, k) values; NaN where one does not vary."""
    centred = table - table.mean(-2, keepdims=True)
    size = np.sqrt((centred**2).sum(-2))
    size[np.ptp(table, axis=-2) == 0] = np.nan
    products = np.swapaxes(centred, -1, -2) @ centred
    return np.asarray(np.clip(products / (size[..., :, None] * size[..., None, :]), -1, 1))
