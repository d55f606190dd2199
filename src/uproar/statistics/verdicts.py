"""Verdicts from replicated curves: better than the baseline, worse, or cannot tell.

The input is a tidy table of one protocol with the columns `estimator`, `replicate`, `fraction` and `value`. Each curve
becomes one area; `twoway.py` has the model of their variance and the test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from uproar.errors import BadInput
from uproar.statistics.areas import areas_of, tidy_curves
from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES, LEVEL
from uproar.statistics.intervals import NO_SPREAD
from uproar.statistics.multiple_testing import check_share, holm, interim_alpha, sides
from uproar.statistics.student_t import t_quantile
from uproar.statistics.twoway import Contrasts, contrasts, noncentrality, own_error_note
from uproar.wording import counted

COLUMNS = (
    *("estimator", "n", "area", "baseline_area", "advantage", "low", "high", "se", "df", "p", "p_holm"),
    *("verdict", "side", "detectable", "p_own", "missing", "note"),
)
POWER = 0.8
SIMULATED = 40_000
"""How many rows are simulated for a detectable difference."""


def compare(
    table: pd.DataFrame,
    baseline: str = BASELINE,
    higher_is_better: bool = False,
    alpha: float = ALPHA,
    interim: Sequence[int] | bool | None = None,
) -> pd.DataFrame:
    """One row per estimator, best first: its advantage over the baseline, and the verdict.

    Areas are taken over the fractions every estimator has; a curve with a gap there counts as missing, and an advantage
    always compares curves of the same replicates.

    n              replicates in which this estimator and the baseline both have a whole curve
    area           baseline_area plus or minus the advantage: the mean area, in a complete study
    advantage      difference of the areas; positive is better than the baseline
    low, high      its interval at level 1 - alpha, for this estimator alone (not Holm's)
    se, df         its standard error and degrees of freedom (see `twoway.contrasts`)
    p, p_holm      the t-test of it; adjusted by Holm over the estimators
    verdict        "better than random", "worse than random" or "cannot tell with 5 replicates"
    side           1 for better, -1 for worse, 0 where it cannot be told
    detectable     the advantage that a t-test with this se and df finds with 80 % power, at Holm's first step
    p_own          paired t-test from this estimator's differences alone: n - 1 degrees of freedom
    missing        replicates of the study that are not in n
    note           why there is no test, or that the row is tested with its own standard error; else empty

    Fewer than two shared replicates, or areas without any spread beside what is shared, give no test: p is NaN and the
    verdict is "cannot tell". The last also when the difference is constant and not zero: replicates that do not vary
    are copies of one run more often than they are proof.

    `interim=True` (or the planned numbers of replicates) spends only this interim analysis's share of `alpha`. `attrs`
    holds what concerns the whole table: residual_sd, alpha, fractions, replicates, nan_values.

    >>> table = pd.DataFrame(
    ...     [("random", 0, 0.5, 0.90), ("random", 1, 0.5, 0.80),
    ...      ("gradient", 0, 0.5, 0.72), ("gradient", 1, 0.5, 0.60)],
    ...     columns=["estimator", "replicate", "fraction", "value"])
    >>> compare(table)[["estimator", "advantage", "p", "verdict"]].round(3)
      estimator  advantage      p             verdict
    0  gradient       0.19  0.033  better than random
    """
    areas, facts = areas_of(tidy_curves(table))
    if baseline not in areas.index:
        raise BadInput(
            f"The table has no estimator '{baseline}' to compare with; "
            f"it has {', '.join(areas.index)}. Name one of them as baseline."
        )
    level = _level(alpha, interim, areas.shape[1])
    fit = contrasts(areas.to_numpy(), list(areas.index).index(baseline))
    result = _frame(fit, areas.index, baseline, 1 if higher_is_better else -1, level)
    result.attrs = {**facts, "residual_sd": float(fit.residual_sd), "alpha": level}
    return result


def intervals(table: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Mean and t-interval over replicates for each estimator and fraction, with n.

    Descriptive: the interval holds the variance between replicates, which the paired comparison of `compare` removes,
    so overlapping intervals do not mean "cannot tell". Missing values are left out of n; n = 1 has no interval.
    """
    check_share("level", level)
    values = tidy_curves(table).groupby(["estimator", "fraction"])["value"]
    result = values.agg(n="count", mean="mean", sd="std").reset_index()
    n = result["n"].to_numpy(dtype=np.int64)
    half = t_quantile(n - 1, level) * result.pop("sd") / np.sqrt(np.maximum(n, 1))
    return result.assign(low=result["mean"] - half, high=result["mean"] + half)


def minimum_detectable(sd: float, n: int, estimators: int = 1, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest true advantage that `compare` decides with the given power; NaN when it has no test.

    `sd` is the standard deviation of an area, the same for all rows and the baseline, `n` the replicates, `estimators`
    how many are compared with the baseline. It asks for Holm's first and strictest step, alpha / estimators: what a
    lone difference must be. Simulated, with the same random numbers at every call.

    >>> round(minimum_detectable(0.01, n=5, estimators=10), 3)
    0.043
    """
    if not (sd >= 0 and n >= 1 and estimators >= 1):
        raise BadInput(
            "A detectable difference needs sd >= 0, n >= 1 and estimators >= 1; "
            f"got sd={sd}, n={n}, estimators={estimators}."
        )
    check_share("alpha", alpha)
    check_share("power", power)
    if sd == 0 or n < 2:
        return float("nan")
    studies = max(200, SIMULATED // estimators)
    fit = contrasts(np.random.default_rng(0).standard_normal((studies, 1 + estimators, n)), 0)
    needed = t_quantile(fit.df, 1 - alpha / estimators) * fit.se - fit.difference
    return sd * max(0.0, float(np.quantile(needed[:, 1:], power)))


def _frame(fit: Contrasts, names: pd.Index, baseline: str, sign: int, level: float) -> pd.DataFrame:
    """The rows of `compare`, best first."""
    rows = names != baseline
    p_holm = np.full(len(names), np.nan)
    p_holm[rows] = holm(fit.p[rows])
    tests = int(np.isfinite(fit.p[rows]).sum())
    advantage = sign * fit.difference
    side = sides(advantage, p_holm, level)
    half = t_quantile(fit.df, 1 - level) * fit.se
    shifts = [noncentrality(df, level / max(tests, 1), POWER) for df in fit.df.tolist()]
    frame = pd.DataFrame(
        {
            "estimator": names,
            "n": fit.n,
            "area": fit.baseline_area + fit.difference,
            "baseline_area": float(fit.baseline_area),
            "advantage": advantage,
            "low": advantage - half,
            "high": advantage + half,
            "se": fit.se,
            "df": fit.df,
            "p": fit.p,
            "p_holm": p_holm,
            "verdict": [_verdict(s, n, baseline) for s, n in zip(side.tolist(), fit.n.tolist(), strict=True)],
            "side": side,
            "detectable": shifts * fit.se,
            "p_own": fit.p_own,
            "missing": fit.replicates - fit.n,
            "note": [_note(fit, row, baseline) for row in range(len(names))],
        }
    )
    best = frame[rows].sort_values(["advantage", "estimator"], ascending=[False, True])
    return best.reset_index(drop=True)[list(COLUMNS)]


def _verdict(side: int, n: int, baseline: str) -> str:
    if side:
        return f"{'better' if side > 0 else 'worse'} than {baseline}"
    return f"cannot tell with {counted(n, 'replicate')}"


def _note(fit: Contrasts, row: int, baseline: str) -> str:
    if fit.n[row] < 2:
        return f"a test needs two replicates shared with {baseline}"
    if not np.isfinite(fit.se[row]):
        return NO_SPREAD
    return own_error_note(fit.guarded[row], fit.df[row])


def _level(alpha: float, interim: Sequence[int] | bool | None, n: int) -> float:
    """Error rate of this comparison: all of alpha, or the share of one interim analysis."""
    check_share("alpha", alpha)
    if interim is None or interim is False:
        return alpha
    return interim_alpha(n, alpha, INTERIM_ANALYSES if interim is True else interim)
