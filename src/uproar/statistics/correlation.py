"""How far judges agree: correlations of two, concordance of many. Pure functions of arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]

FEW = 3
"""Fewer pairs than this have no correlation worth a number."""


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is positive."""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is negative."""
        return self.high < 0

    def p(self, bound: float = 0.0) -> float:
        """Two-sided p of "the mean is `bound`"; NaN for fewer than two values."""
        if self.n < 2:
            return math.nan
        error = (self.high - self.low) / 2 / float(scipy.stats.t.ppf(0.975, self.n - 1))
        if error == 0:
            return float(self.value == bound)
        return float(2 * scipy.stats.t.sf(abs(self.value - bound) / error, self.n - 1))

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def mean_of(values: ArrayLike) -> Mean:
    """The mean of independent values with its t interval; NaN values do not count.

    >>> print(mean_of([0.0, 0.5, 1.0]))
    0.50 [-0.74, 1.74]
    """
    finite = np.asarray(values, dtype=float).ravel()
    finite = finite[np.isfinite(finite)]
    if len(finite) == 0:
        return Mean(math.nan, math.nan, math.nan, 0)
    mean = float(finite.mean())
    if len(finite) == 1:
        return Mean(mean, math.nan, math.nan, 1)
    half = float(scipy.stats.t.ppf(0.975, len(finite) - 1) * finite.std(ddof=1) / math.sqrt(len(finite)))
    return Mean(mean, mean - half, mean + half, len(finite))


def is_binary(values: ArrayLike) -> bool:
    """Whether only 0 and 1 occur, NaN aside; a sign may have been turned."""
    seen = np.unique(np.abs(np.asarray(values, dtype=float)))
    return set(seen[np.isfinite(seen)]) <= {0.0, 1.0}


def association(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's correlation; point-biserial where one side is binary, Pearson's where both are.

    Pairs with a NaN do not count; without three pairs, or where one side does not vary, NaN.

    >>> association([1, 2, 3, 4], [1, 4, 9, 16])
    1.0
    >>> round(association([0, 0, 1, 1], [1, 2, 3, 5]), 3)
    0.845
    """
    x, y = _pairs(a, b)
    if is_binary(x) or is_binary(y):
        return _pearson(x, y)
    return _pearson(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


def partial_spearman(a: ArrayLike, b: ArrayLike, given: ArrayLike) -> float:
    """Spearman's correlation of a and b with what ranks of `given` explain taken out of both.

    NaN where `given` explains one of them completely.
    """
    x, y, z = (scipy.stats.rankdata(column) for column in _pairs(a, b, given))
    xy, xz, yz = _pearson(x, y), _pearson(x, z), _pearson(y, z)
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
        found = np.where(either, _correlations(table), ranked)
        found[..., range(k), range(k)] = np.nan
        return found
    if table.ndim > 2:
        return np.array([association_matrix(part) for part in table])
    found = np.full((k, k), np.nan)
    whole = np.isfinite(table).all(0)
    if whole.any() and len(table) >= FEW:
        found[np.ix_(whole, whole)] = association_matrix(table[:, whole])
    for i in np.flatnonzero(~whole):
        there = table[np.isfinite(table[:, i])]
        fits = np.isfinite(there).all(0)
        if len(there) >= FEW:  # with these columns, the rows of this one are all that count
            place = int(fits[:i].sum())
            found[i, fits] = found[fits, i] = association_matrix(there[:, fits])[place]
        for j in np.flatnonzero(~fits):
            found[i, j] = found[j, i] = association(table[:, i], table[:, j])
    return found


def rank_correlations(a: Numbers, b: Numbers) -> Numbers:
    """Spearman's correlation of each row of a with the same row of b, (rows,); NaN as in `association`."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    whole = np.isfinite(left).all(1) & np.isfinite(right).all(1)
    found = np.full(len(left), np.nan)
    if left.shape[1] >= FEW and whole.any():
        x, y = (scipy.stats.rankdata(side[whole], axis=1) for side in (left, right))
        x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
        size = np.sqrt((x**2).sum(1) * (y**2).sum(1))
        with np.errstate(invalid="ignore", divide="ignore"):
            found[whole] = np.where(size > 0, (x * y).sum(1) / size, np.nan)
    for row in np.flatnonzero(~whole):
        x, y = _pairs(left[row], right[row])
        found[row] = _pearson(scipy.stats.rankdata(x), scipy.stats.rankdata(y))
    return found


@dataclass(frozen=True)
class Concordance:
    """Kendall's W of some judges, and p of "each orders at random"."""

    w: float
    p: float
    judges: int
    objects: int


def concordance(scores: ArrayLike, permutations: int = 2000, seed: int = 0) -> Concordance:
    """Kendall's W of (judges, objects) scores, ties shared, with a permutation test; there must be no NaN.

    W is 1 where all judges order alike and near 1 / judges where each orders at random.
    """
    ranks = scipy.stats.rankdata(np.asarray(scores, dtype=float), axis=1)
    copies = np.broadcast_to(ranks, (permutations, *ranks.shape))
    by_chance = np.random.default_rng(seed).permuted(copies, axis=2).sum(1)
    at_least = int((_spread(by_chance) >= _spread(ranks.sum(0)) - 1e-9).sum())
    return Concordance(kendalls_w(ranks), (1 + at_least) / (1 + permutations), *ranks.shape)


def _spread(sums: Numbers) -> Numbers:
    """Squared deviations of rank sums from their mean; W is this divided by what does not depend on the order."""
    return np.asarray(((sums - sums.mean(-1, keepdims=True)) ** 2).sum(-1))


def kendalls_w(ranks: ArrayLike) -> float:
    """Kendall's coefficient of concordance of (judges, objects) ranks, corrected for ties.

    >>> kendalls_w([[1, 2, 3], [1, 2, 3]]), kendalls_w([[1, 2, 3], [3, 2, 1]])
    (1.0, 0.0)
    """
    table = np.asarray(ranks, dtype=float)
    judges, objects = table.shape
    ties = sum((count**3 - count).sum() for count in (np.unique(r, return_counts=True)[1] for r in table))
    most = judges**2 * (objects**3 - objects) - judges * ties
    return float(12 * _spread(table.sum(0)) / most) if most > 0 else math.nan


def krippendorff_alpha(ratings: ArrayLike) -> float:
    """Krippendorff's alpha of (judges, units) ratings on an ordinal scale; NaN is a missing rating.

    1 where judges agree, 0 where their ratings of one unit are as different as those of any two, below 0 where they
    are more so.
    """
    table = np.asarray(ratings, dtype=float)
    table = table[:, np.isfinite(table).sum(0) >= 2]
    levels = np.unique(table[np.isfinite(table)])
    if len(levels) < 2:
        return math.nan
    coincidences = np.zeros((len(levels), len(levels)))
    for unit in table.T:
        given = np.searchsorted(levels, unit[np.isfinite(unit)])
        counts = np.bincount(given, minlength=len(levels)).astype(float)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(given) - 1)
    totals = coincidences.sum(0)
    below = np.cumsum(totals) - totals / 2
    distance = (below[:, None] - below[None, :]) ** 2
    n = totals.sum()
    expected = (np.outer(totals, totals) * distance).sum() / (n - 1)
    return float(1 - (coincidences * distance).sum() / expected)


def _pairs(*columns: ArrayLike) -> tuple[Numbers, ...]:
    table = np.stack([np.asarray(column, dtype=float) for column in columns])
    kept = table[:, np.isfinite(table).all(0)]
    return tuple(kept)


def _pearson(x: Numbers, y: Numbers) -> float:
    if len(x) < FEW or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x @ y) / math.sqrt((x @ x) * (y @ y)), -1, 1))


def _correlations(table: Numbers) -> Numbers:
    """Pearson's correlation of every two columns of (..., n, k) values; NaN where one does not vary."""
    centred = table - table.mean(-2, keepdims=True)
    size = np.sqrt((centred**2).sum(-2))
    size[np.ptp(table, axis=-2) == 0] = np.nan
    products = np.swapaxes(centred, -1, -2) @ centred
    return np.asarray(np.clip(products / (size[..., :, None] * size[..., None, :]), -1, 1))
