"""Correlations: Pearson's, Spearman's, partial, point-biserial; of every two columns; with their intervals.

One rule for NaN throughout: a pair (or triple) with a NaN is left out, and the correlation is NaN where fewer than
three are left or one side of these does not vary.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.seeds import key
from uproar.statistics.design import LEVEL
from uproar.statistics.intervals import ROUNDING, Interval, Scale, nanmean, standard_error, to_fisher
from uproar.statistics.student_t import Numbers

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


def correlation_interval(values: Numbers, ranked: bool = True) -> Interval:
    """The mean correlation over methods and replicates, with an interval that allows for other replicates and images.

    `values` are those of two metrics, (replicates, methods, images, 2); every replicate has the same images, and NaN
    stands where a value is not defined. The variance over replicates is that of their own mean correlations, the
    variance over images comes from resamples that all methods and replicates share, with ranks of their own; both on
    Fisher's scale.
    """
    return _replicated(nanmean(_resampled(values, ranked), 1), values.shape[2], "fisher")


def spread_interval(values: Numbers, others: Numbers) -> Interval:
    """How much more the rank correlations of `values` differ from method to method than those of `others`.

    The difference of their standard deviations, mean over replicates; both are as `correlation_interval` takes them.
    """
    first, second = _resampled(values, True), _resampled(others, True)
    both = np.isfinite(first) & np.isfinite(second)
    spreads = [_spread(np.where(both, correlations, np.nan)) for correlations in (first, second)]
    return _replicated(spreads[0] - spreads[1], values.shape[2], "linear")


def _resampled(values: Numbers, ranked: bool) -> Numbers:
    """The correlations over all images, and over resamples of them, (replicates, methods, 1 + resamples)."""
    n = values.shape[2]
    draws = np.random.default_rng(key("claims", "images"))
    counts = draws.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(float)
    weights = np.concatenate([np.ones((1, n)), counts])
    return np.stack([[_weighted(table, ranked, weights) for table in methods] for methods in values])


def _replicated(numbers: Numbers, images: int, scale: Scale) -> Interval:
    """The mean over replicates of (replicates, 1 + resamples) numbers, the first of all images; symmetric on scale."""
    numbers = numbers[np.isfinite(numbers[:, 0])]
    if not len(numbers):
        return Interval(math.nan, n=images, replicates=0)
    value, drawn = float(numbers[:, 0].mean()), nanmean(numbers[:, 1:])
    drawn = drawn[np.isfinite(drawn)]
    to = to_fisher if scale == "fisher" else np.asarray
    variance = float(to(drawn).var(ddof=1)) if len(drawn) >= RESAMPLES // 2 else math.nan
    error, df = standard_error(to(numbers[:, 0]), variance, images)
    if not error > ROUNDING:
        note = "the same in every replicate and resample of the images: it has no interval"
        return Interval(value, n=images, replicates=len(numbers), note=note if error <= ROUNDING else "")
    known = Interval(value, value, value, images, len(numbers), float(df), scale=scale, error=float(error))
    interval = known.at_level(LEVEL)
    return replace(interval, p=interval.p_against(0.0))


def _weighted(table: Numbers, ranked: bool, weights: Numbers) -> Numbers:
    """The correlation of the two columns under every row of weights; ranks are those of the weighted images."""
    whole = np.isfinite(table).all(1)
    w = weights[:, whole]
    total = np.maximum(w.sum(1), 1)
    a, b = (_weighted_ranks(c, w) if ranked else (c - c.mean()) * np.ones_like(w) for c in table[whole].T)
    a, b = (c - (w * c).sum(1, keepdims=True) / total[:, None] for c in (a, b))
    size = np.sqrt((w * a**2).sum(1) * (w * b**2).sum(1))
    least = 1e-12 * np.maximum(np.abs(a).max(1, initial=0) * np.abs(b).max(1, initial=0) * total, 1e-300)
    r = (w * a * b).sum(1) / np.maximum(size, least)
    return np.where((size > least) & (np.count_nonzero(w, axis=1) >= FEW), np.clip(r, -1, 1), np.nan)


def _weighted_ranks(values: Numbers, weights: Numbers) -> Numbers:
    """Mid-ranks of values that occur as often as each row of weights says, (rows, values).

    >>> _weighted_ranks(np.array([5.0, 1.0, 5.0]), np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0]])).tolist()
    [[2.0, 0.5, 2.0], [2.0, 0.5, 2.0]]
    """
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(group.max(initial=-1) + 1))
    counts = np.add.reduceat(weights[:, order], starts, axis=1) if len(starts) else weights
    return np.asarray((np.cumsum(counts, axis=1) - counts / 2)[:, group])


def _spread(correlations: Numbers) -> Numbers:
    """Standard deviation over the methods, the second axis, of which at least three have a correlation."""
    present = np.isfinite(correlations)
    n = present.sum(1)
    squares = np.where(present, (correlations - nanmean(correlations, 1)[:, None]) ** 2, 0.0).sum(1)
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
