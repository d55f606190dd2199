"""Areas of estimators over replicates: variance components, differences with their tests, power.

The areas of the estimators that are compared follow the two-way layout

    area[e, s] = estimator[e] + network[s] + residual[e, s]

where network[s] is what the rows of replicate s share: they explain the same network. The baseline is not in that
layout: it has variation of its own and shares only what the data do to all. The difference to it is split

    area[e, s] - baseline[s] = (network[s] - baseline[s]) + (area[e, s] - network[s])

The variance of the first part is that of its n values, on n - 1 degrees of freedom. The variance of the second is the
residual variance pooled over all rows, whose degrees of freedom are fewer the more the rows differ in spread; the sum
has Satterthwaite's. A row that varies more than the others is not tested with their variance: the largest of three
counts, with the pooled residual variance, with that of the row alone, and the variance of the row's paired differences,
on n - 1 degrees of freedom; always with the degrees of freedom of the one taken. The same rule holds for a pair of rows
(`pair_variance`), where the pooled variance has fewer degrees of freedom the more rows vary together.
docs/statistics.md says why, and how often it errs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from uproar.statistics.intervals import ROUNDING, nanmean
from uproar.statistics.student_t import Numbers, satterthwaite, two_sided_p

Estimate = tuple[Numbers, ArrayLike]
"""A variance with its degrees of freedom."""
WORTH_A_NOTE = 1.05
"""From how many times the pooled standard error on a test is said to use a larger one."""


def own_error_note(times: float, df: float) -> str:
    """What is said of a test whose standard error is so many times the pooled one; nothing below `WORTH_A_NOTE`."""
    if not times >= WORTH_A_NOTE:
        return ""
    error = f"its own standard error, {times:.1f} times the pooled, on {df:.3g} df"
    return f"varies more than the others: tested with {error}"


@dataclass(frozen=True)
class Components:
    """The variation of (..., estimator, replicate) areas, split into what rows share and what is their own."""

    network: Numbers  # (..., s): effect of each replicate, one constant free; NaN where no row has a value
    pooled: Numbers  # (...): residual variance of all rows together; NaN without degrees of freedom
    pooled_df: Numbers  # (...): its degrees of freedom
    pair_df: Numbers  # (...): the same for pairs of rows, where families of rows may vary together
    own: Numbers  # (..., e): variance of each row's residuals around the mean of the rows; 0 with fewer than two
    own_df: NDArray[np.int64]  # (e,): its degrees of freedom
    rows: int  # how many rows have two values or more

    @property
    def deviation(self) -> Numbers:
        """Variance of a row around the mean of the rows, by the pooled residual variance; 0 for a row alone."""
        return np.asarray(np.nan_to_num(self.pooled) * self._around_the_mean)

    def residual(self, row: int) -> tuple[Numbers, int]:
        """The residual variance of one row, by its residuals alone, with its degrees of freedom; 0 for a row alone."""
        share = self._around_the_mean
        return np.asarray(self.own[..., row] / share if share else 0 * self.own[..., row]), int(self.own_df[row])

    @property
    def _around_the_mean(self) -> float:
        """Which share of its residual variance a row has around a mean of rows that it is in itself."""
        return 1 - 1 / max(self.rows, 1)


def components(areas: Numbers) -> Components:
    """Effects by least squares, and variances; NaN is missing. Leading axes are tables with the same cells missing."""
    present = _present(areas)
    used = present.any(0)
    cells, y = present[:, used], np.where(present, areas, 0.0)[..., used]
    share = cells / cells.sum(0)
    information = np.diag(cells.sum(1)) - share @ cells.T
    effects = (y.sum(-1) - y.sum(-2) @ share.T) @ np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    left = y - effects[..., None] * cells
    network = np.full((*areas.shape[:-2], areas.shape[-1]), np.nan)
    network[..., used] = left.sum(-2) / cells.sum(0)
    residual = left - network[..., None, used] * cells
    rank = np.linalg.matrix_rank(information, tol=1e-10 * max(np.abs(information).max(initial=0), 1))
    df = int(cells.sum()) - cells.shape[1] - int(rank)
    squares, n = (residual**2).sum(-1), cells.sum(1)
    own = np.where(n > 1, squares / np.maximum(n - 1, 1), 0.0)
    pooled = squares.sum(-1) / df if df > 0 else np.full(squares.shape[:-1], np.nan)
    rows = int((n > 1).sum())
    pooled_df = _effective(own, rows, df)
    pair_df = np.asarray(np.minimum(pooled_df, _effective_in_families(residual, df)))
    return Components(network, np.asarray(pooled), pooled_df, pair_df, own, np.maximum(n - 1, 1), rows)


def _effective(variances: Numbers, rows: int, df: int) -> Numbers:
    """Degrees of freedom of a variance pooled over rows whose variances may differ: `df` where all are equal."""
    squares = (variances**2).sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        equal = variances.sum(-1) ** 2 / (rows * squares)
    return np.asarray(np.where(squares > 0, df * equal, df))


def _effective_in_families(residuals: Numbers, df: int) -> Numbers:
    """Degrees of freedom of their pooled variance where residuals of a replicate may be correlated between rows.

    Rows of one family (a method and its smoothed versions) share luck that others do not have. With Σ the covariance of
    the rows they are m tr(Σ)²/tr(Σ²), m = n - 1; both are estimated without bias from the n replicates, as Huynh and
    Feldt do (1976). The second is taken 1 + 2/m times as large, since few replicates in which families happen to vary
    little also seem to vary less together. No fewer than m, no more than `df`.
    """
    m = residuals.shape[-1] - 1
    if m < 2 or df <= m:
        return np.full(residuals.shape[:-2], float(df))
    gram = np.swapaxes(residuals, -1, -2) @ residuals / m
    total, squares = np.trace(gram, axis1=-2, axis2=-1), (gram**2).sum((-2, -1))
    of_squares = m**2 / ((m - 1) * (m + 2)) * (squares - total**2 / m)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimated = m * (total**2 - 2 * of_squares / m) / (of_squares * (1 + 2 / m))
    return np.asarray(np.where(of_squares > 0, np.clip(estimated, m, df), df))


@dataclass(frozen=True)
class Contrasts:
    """Each estimator minus the baseline; the arrays run over all rows, the baseline included."""

    n: NDArray[np.int64]  # (e,): replicates that the row shares with the baseline
    difference: Numbers  # (..., e)
    se: Numbers  # (..., e); NaN where there is no test
    df: Numbers  # (..., e); NaN where there is no test
    p: Numbers
    p_own: Numbers
    guarded: Numbers  # (..., e): the standard error over the one with pooled variance, where that is not taken, else 1
    residual_sd: Numbers  # (...)
    baseline_area: Numbers  # (...)
    replicates: int


def contrasts(areas: Numbers, baseline: int) -> Contrasts:
    """Differences to the baseline row, with their tests, of (..., estimator, replicate) areas."""
    others = np.arange(areas.shape[-2]) != baseline
    parts = components(areas[..., others, :])
    differences = areas - areas[..., [baseline], :]
    n = _present(differences).sum(-1)
    shared = parts.network - areas[..., baseline, :]
    between = (_variance(shared), np.isfinite(shared).sum(-1) - 1)
    split, split_df = satterthwaite(between, (parts.deviation, parts.pooled_df))
    pooled = split[..., None], split_df[..., None]
    residual, residual_df = np.zeros(differences.shape[:-1]), np.ones(len(n), np.int64)
    residual[..., others], residual_df[others] = parts.own, parts.own_df
    single = satterthwaite((between[0][..., None], between[1][..., None]), (residual, residual_df))
    own, rounding = _variance(differences), _rounding(areas)[..., None] ** 2
    variance, df = _largest(pooled, single, (own, n - 1))
    testable = (n > 1) & others & (variance > rounding)
    se = np.where(testable, np.sqrt(variance / np.maximum(n, 1)), np.nan)
    difference = np.where(n > 0, nanmean(differences, -1), np.nan)
    own_se = np.where(testable & (own > rounding), np.sqrt(own / np.maximum(n, 1)), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        times = np.sqrt(variance / pooled[0])
    return Contrasts(
        n=n,
        difference=difference,
        se=se,
        df=np.where(testable, df, np.nan),
        p=two_sided_p(difference, se, df),
        p_own=two_sided_p(difference, own_se, n - 1),
        guarded=np.where(testable & (times > 1 + ROUNDING), times, 1.0),
        residual_sd=np.asarray(np.sqrt(parts.pooled)),
        baseline_area=nanmean(areas[..., baseline, :], -1),
        replicates=areas.shape[-1],
    )


def pair_variance(parts: Components, difference: Numbers, pair: tuple[int, int]) -> tuple[Numbers, Numbers]:
    """Variance of the mean of paired differences (..., replicate) of two rows, and its degrees of freedom.

    The largest of three: twice the pooled residual variance, the sum of the two rows' residual variances, and that of
    the differences, on the degrees of freedom of the one taken; NaN with fewer than two differences.
    """
    n = np.isfinite(difference).sum(-1)
    pooled = np.asarray(2 * np.nan_to_num(parts.pooled)), parts.pair_df
    single = satterthwaite(*(parts.residual(row) for row in pair))
    variance, df = _largest(pooled, single, (_variance(difference), n - 1))
    return np.where(n > 1, variance / np.maximum(n, 1), np.nan), np.where(n > 1, df, np.nan)


def _largest(pooled: Estimate, single: Estimate, own: Estimate) -> tuple[Numbers, Numbers]:
    """The largest of three variances by more than rounding, the first before the others, with its degrees of freedom.

    Residuals of single rows share what the mean of the rows takes from them: they count no more degrees of freedom than
    all rows together.
    """
    wider = single[0] > pooled[0] * (1 + ROUNDING)
    variance = np.where(wider, single[0], pooled[0])
    df = np.where(wider, np.minimum(single[1], pooled[1]), pooled[1])
    widest = own[0] > variance * (1 + ROUNDING)
    return np.where(widest, own[0], variance), np.where(widest, own[1], df)


def _present(areas: Numbers) -> NDArray[np.bool_]:
    """Which cells of (..., estimator, replicate) areas are there, in every one of the tables."""
    return np.asarray(np.isfinite(areas).all(axis=tuple(range(areas.ndim - 2))))


def _rounding(areas: Numbers) -> Numbers:
    """Spread below which areas of this size count as equal."""
    return np.asarray(ROUNDING * np.abs(np.nan_to_num(areas)).max((-2, -1), initial=0))


def _variance(values: Numbers) -> Numbers:
    """Variance over the last axis, on one degree of freedom less than there are values; 0 with fewer than two."""
    n = np.isfinite(values).sum(-1)
    squares = np.nansum((values - nanmean(values, -1)[..., None]) ** 2, -1)
    return np.where(n > 1, squares / np.maximum(n - 1, 1), 0.0)


@functools.cache
def noncentrality(df: float, level: float, power: float) -> float:
    """Difference, in standard errors, that a two-sided t-test at `level` finds with `power`."""
    if not df > 0:
        return float("nan")
    critical = float(scipy.stats.t.isf(level / 2, df))
    # quadrature over the estimated sd: scipy's noncentral t is NaN for large arguments
    chi = np.sqrt(scipy.stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, df) / df)

    def missing_power(shift: float) -> float:
        rejected = scipy.special.ndtr(shift - critical * chi) + scipy.special.ndtr(-critical * chi - shift)
        return power - float(rejected.mean())

    if missing_power(0.0) <= 0:  # a power no larger than the level needs no difference
        return 0.0
    return float(scipy.optimize.brentq(missing_power, 0.0, 10 * critical + 10))
