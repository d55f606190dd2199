"""The two-way layout of areas, estimator and replicate: least squares, pooled residual variance, contrasts, power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from uproar.statistics.intervals import Numbers, nanmean, two_sided_p
from uproar.statistics.paired import ROUNDING

UNEVEN = 0.05
"""Level of the F-test that an estimator varies more than the others."""


@dataclass(frozen=True)
class TwoWay:
    """Least-squares fit of estimator and replicate effects, residual variance pooled."""

    effects: Numbers  # (..., e), one constant free
    unit: Numbers  # (e, e): covariance of the effects, in units of the residual variance
    squares: Numbers  # (...), residual sum of squares
    df: int


def two_way(areas: Numbers) -> TwoWay:
    """Effects and residuals of (..., estimator, replicate) areas; NaN is missing.

    Leading axes are tables of their own with the same cells missing. Replicates are swept out first, which leaves one
    equation per estimator; it needs no dummy variables.
    """
    present = _present(areas)
    used = present.any(0)
    present, y = present[:, used], np.where(present, areas, 0.0)[..., used]
    share = present / present.sum(0)
    information = np.diag(present.sum(1)) - share @ present.T
    eigen = np.linalg.eigvalsh(information)
    unit = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    effects = (y.sum(-1) - y.sum(-2) @ share.T) @ unit
    left = y - effects[..., None] * present
    residual = left - (left.sum(-2) / present.sum(0))[..., None, :] * present
    rank = int((eigen > 1e-10 * max(eigen.max(initial=0), 1)).sum())
    df = int(present.sum()) - present.shape[1] - rank
    return TwoWay(effects, unit, np.asarray((residual**2).sum((-2, -1))), df)


@dataclass(frozen=True)
class Contrasts:
    """Each estimator minus the baseline; the arrays run over all rows, the baseline included."""

    n: NDArray[np.int64]  # (e,)
    difference: Numbers  # (..., e)
    se: Numbers  # (..., e); NaN where there is no test
    df: int
    p: Numbers
    p_own: Numbers
    spread: Numbers  # (..., e): sd as a multiple of the others' where it widened se, else 1
    residual_sd: Numbers  # (...)
    baseline_area: Numbers  # (...)
    replicates: int


def contrasts(areas: Numbers, baseline: int, unequal_variances: bool = True) -> Contrasts:
    """Differences to the baseline row, with their tests, of (..., estimator, replicate) areas."""
    fit = two_way(areas)
    whole = _present(areas)
    n = (whole & whole[baseline]).sum(-1)
    difference = np.where(n > 0, fit.effects - fit.effects[..., [baseline]], np.nan)
    sd = _residual_sd(fit, areas)
    unit = np.diag(fit.unit) + fit.unit[baseline, baseline] - 2 * fit.unit[baseline]
    testable = (n > 1) & (np.arange(len(n)) != baseline) & (sd > 0)[..., None]
    se = np.where(testable, sd[..., None] * np.sqrt(np.maximum(unit, 0)), np.nan)
    own = _own_se(areas, baseline)
    spread = _uneven(areas, baseline) if unequal_variances else np.ones(se.shape)
    spread = np.where((spread > 1) & (own > se), spread, 1.0)
    se = np.where(spread > 1, own, se)
    return Contrasts(
        n=n,
        difference=difference,
        se=se,
        df=fit.df,
        p=two_sided_p(difference, se, fit.df),
        p_own=two_sided_p(nanmean(areas - areas[..., [baseline], :], -1), own, n - 1),
        spread=spread,
        residual_sd=sd,
        baseline_area=nanmean(areas[..., baseline, :], -1),
        replicates=areas.shape[-1],
    )


def _present(areas: Numbers) -> NDArray[np.bool_]:
    """Which cells of (..., estimator, replicate) areas are there, in every one of the tables."""
    return np.asarray(np.isfinite(areas).all(axis=tuple(range(areas.ndim - 2))))


def _residual_sd(fit: TwoWay, areas: Numbers) -> Numbers:
    """Pooled residual standard deviation; exactly 0 for mere rounding, NaN without freedom."""
    if fit.df < 1:
        return np.full(fit.squares.shape, np.nan)
    sd = np.sqrt(fit.squares / fit.df)
    return np.where(sd > _rounding(areas), sd, 0.0)


def _rounding(areas: Numbers) -> Numbers:
    """Spread below which areas of this size count as equal."""
    return np.asarray(ROUNDING * np.abs(np.nan_to_num(areas)).max((-2, -1), initial=0))


def _own_se(areas: Numbers, baseline: int) -> Numbers:
    """Standard error of each row's mean difference to the baseline, from that row alone."""
    differences = areas - areas[..., [baseline], :]
    n = np.isfinite(differences).sum(-1)
    squares = np.nansum((differences - nanmean(differences, -1)[..., None]) ** 2, -1)
    se = np.sqrt(squares / np.maximum((n - 1) * n, 1))
    return np.where((n > 1) & (se > _rounding(areas)[..., None]), se, np.nan)


def _uneven(areas: Numbers, baseline: int) -> Numbers:
    """Standard deviation of each row as a multiple of the others', where evidently larger; else 1.

    What the residual sum of squares loses when a row is left out is that row's, so the ratio of the two mean squares is
    an F under equal variances, in unbalanced layouts too. A row also counts as uneven when the baseline is: the
    difference contains it.
    """
    everything = two_way(areas)
    ratios = []
    for row in range(areas.shape[-2]):
        rest = two_way(np.delete(areas, row, axis=-2))
        df = everything.df - rest.df
        if rest.df < 1 or df < 1:
            return np.ones(areas.shape[:-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            f = ((everything.squares - rest.squares) / df) / (rest.squares / rest.df)
        evident = f > scipy.stats.f.isf(UNEVEN, df, rest.df)
        ratios.append(np.sqrt(np.where(evident, f, 1.0)))
    ratio = np.stack(ratios, -1)
    return np.asarray(np.maximum(ratio, ratio[..., [baseline]]))


def noncentrality(df: int, level: float, power: float) -> float:
    """Difference, in standard errors, that a two-sided t-test at `level` finds with `power`."""
    if df < 1:
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
