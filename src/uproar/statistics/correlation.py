"""Correlations and agreement: of two columns and of rankings, with their intervals.

One rule for NaN throughout: a pair with a NaN is left out, and a correlation is NaN where fewer than three
are left or one side of these does not vary.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.intervals import Interval, Numbers, mean_interval, nanmean, resampled_interval

FEW = 3
"""Fewer pairs than this have no correlation."""


def row_correlations(a: ArrayLike, b: ArrayLike, ranked: bool = True) -> Numbers:
    """Spearman's correlation of each row of a with the same row of b, (rows,); Pearson's unless `ranked`."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    both = np.isfinite(left) & np.isfinite(right)
    if not both.all():
        if len(left) > 1:
            return np.array([row_correlations(x[None], y[None], ranked)[0] for x, y in zip(left, right, strict=True)])
        left, right = left[both][None], right[both][None]
    if left.shape[1] < FEW:
        return np.full(len(left), np.nan)
    if ranked:
        left, right = scipy.stats.rankdata(left, axis=1), scipy.stats.rankdata(right, axis=1)
    varies = (np.ptp(left, axis=1) > 0) & (np.ptp(right, axis=1) > 0)
    left, right = left - left.mean(1, keepdims=True), right - right.mean(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = (left * right).sum(1) / np.sqrt((left**2).sum(1) * (right**2).sum(1))
    return np.where(varies, np.clip(correlation, -1, 1), np.nan)


def correlation_interval(values: Numbers, ranked: bool = True) -> Interval:
    """The mean correlation over methods and replicates, with an interval that allows for other replicates and images.

    `values` are those of two metrics, (replicates, methods, images, 2); every replicate has the same images, and NaN
    stands where a value is not defined. The variance over images comes from resamples that all methods and replicates
    share.
    """
    statistic, resampled = _resampled(values, ranked)
    return resampled_interval(nanmean(statistic, 1), nanmean(resampled, 1), values.shape[2]).clipped(-1, 1)


def spread_interval(values: Numbers, others: Numbers) -> Interval:
    """How much more the rank correlations of `values` differ from method to method than those of `others`.

    The difference of their standard deviations, mean over replicates; both are as `correlation_interval` takes them.
    """
    pairs = zip(_resampled(values, True), _resampled(others, True), strict=True)
    gap, resampled = (_spread(first, second) - _spread(second, first) for first, second in pairs)
    return resampled_interval(gap[np.isfinite(gap)], resampled[np.isfinite(gap)], values.shape[2])


def gap_interval(values: Numbers, others: Numbers) -> Interval:
    """How much higher the rank correlations of `values` are than those of `others`, both means over their methods."""
    (first, drawn), (second, again) = _resampled(values, True), _resampled(others, True)
    gap, resampled = nanmean(first, 1) - nanmean(second, 1), nanmean(drawn, 1) - nanmean(again, 1)
    return resampled_interval(gap, resampled, values.shape[2])


def _resampled(values: Numbers, ranked: bool) -> tuple[Numbers, Numbers]:
    """Correlations over all images, (replicates, methods), and over resamples, (replicates, methods, draws)."""
    rows = np.reshape(values, (-1, *values.shape[2:]))
    draws = [np.arange(values.shape[2]), *resampled_images(values.shape[2], name="correlation").numpy()]
    correlations = [row_correlations(rows[:, images, 0], rows[:, images, 1], ranked) for images in draws]
    table = np.stack(correlations, -1).reshape(*values.shape[:2], -1)
    return table[..., 0], table[..., 1:]


def _spread(correlations: Numbers, others: Numbers) -> Numbers:
    """Standard deviation over the methods, the second axis, that both have; of at least three."""
    both = np.isfinite(correlations) & np.isfinite(others)
    spread = np.ma.masked_array(correlations, ~both).std(1, ddof=1).filled(np.nan)
    return np.where(both.sum(1) >= FEW, spread, np.nan)


def line_interval(x: Numbers, y: Numbers) -> Interval:
    """R² of a line over x, negative where it falls: the mean over the replicates of y, (replicates, points).

    >>> x = np.arange(8.0)
    >>> interval = line_interval(x, 2 * x + np.random.default_rng(0).normal(size=(5, 8)))
    >>> interval.value > 0.95, interval.low > 0.9, interval.n
    (True, True, 5)
    """
    r = row_correlations(np.broadcast_to(x, y.shape), y, ranked=False)
    return mean_interval(r * np.abs(r)).clipped(-1, 1)


def kendall(a: ArrayLike, b: ArrayLike) -> Numbers:
    """Kendall's τ-a over the last axis: pairs in the same order minus pairs in the other, as a share of all.

    >>> float(kendall([1, 2, 3, 4], [1, 2, 4, 3]).round(3))
    0.667
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    first, second = np.triu_indices(x.shape[-1], 1)
    same = np.sign(x[..., first] - x[..., second]) * np.sign(y[..., first] - y[..., second])
    return np.asarray(same.mean(-1))


def concordance(scores: ArrayLike, permutations: int = 2000) -> tuple[float, float]:
    """Kendall's W of (raters, objects) scores, ties shared, and p of "each orders at random" by permutation.

    W is 1 where all raters order alike and near 1 / raters where each orders at random; there must be no NaN.

    >>> concordance([[1, 2, 3], [1, 2, 3]])[0], concordance([[1, 2, 3], [3, 2, 1]])[0]
    (1.0, 0.0)
    """
    table = np.asarray(scores, dtype=float)
    if table.shape[1] < FEW or not (np.ptp(table, axis=1) > 0).any():
        return math.nan, math.nan
    ranks = scipy.stats.rankdata(table, axis=1)
    w = scipy.stats.friedmanchisquare(*table.T).statistic / (len(table) * (table.shape[1] - 1))
    copies = np.broadcast_to(ranks, (permutations, *ranks.shape))
    by_chance = np.random.default_rng(0).permuted(copies, axis=2).sum(1).var(1)
    return float(w), float((1 + (by_chance >= ranks.sum(0).var() - 1e-9).sum()) / (1 + permutations))


def area_under_roc(values: ArrayLike, positive: ArrayLike) -> Numbers:
    """Per row of (n, pixels) the probability that a positive one has a higher value than another, ties half.

    NaN where all or none are positive.

    >>> area_under_roc([[0.9, 0.1, 0.5], [1, 1, 0]], [[True, False, False], [True, False, False]]).tolist()
    [1.0, 0.75]
    """
    chosen = np.asarray(positive, dtype=bool)
    ones, zeros = chosen.sum(1).astype(float), (~chosen).sum(1)
    above = (scipy.stats.rankdata(values, axis=1) * chosen).sum(1) - ones * (ones + 1) / 2
    with np.errstate(invalid="ignore"):
        return np.asarray(above / (ones * zeros))
