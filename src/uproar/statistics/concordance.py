"""How far rankings agree: Kendall's tau of two, Kendall's W and Krippendorff's alpha of several judges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.student_t import Numbers


def kendall(a: ArrayLike, b: ArrayLike) -> Numbers:
    """Kendall's τ-a over the last axis: pairs in the same order minus pairs in the other, as a share of all.

    >>> float(kendall([1, 2, 3, 4], [1, 2, 4, 3]).round(3))
    0.667
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    first, second = np.triu_indices(x.shape[-1], 1)
    same = np.sign(x[..., first] - x[..., second]) * np.sign(y[..., first] - y[..., second])
    return np.asarray(same.mean(-1))


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
