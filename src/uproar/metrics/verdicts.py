"""Verdicts from replicated curves: better than the baseline, worse, or cannot tell.

The input is a tidy table of one protocol with the columns `estimator`, `replicate`, `fraction` and
`value`. Each curve becomes one area, and the areas follow the two-way layout

    area[e, s] = estimator[e] + replicate[s] + residual[e, s]

whose residual variance is pooled over all estimators, the baseline included. docs/statistics.md
says why, and how often it errs.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from uproar.errors import BadInput
from uproar.metrics.curves import area
from uproar.metrics.looks import LOOKS

Array = NDArray[np.float64]
Freedom = int | NDArray[np.int64]

COLUMNS = (
    *("estimator", "n", "area", "baseline_area", "advantage", "low", "high", "p", "p_holm"),
    *("verdict", "detectable", "p_own", "missing", "note"),
)
POWER = 0.8
UNEVEN = 0.05  # level of the test that finds an estimator more variable than the others
ROUNDING = 1e-12  # residuals below this share of the largest area are rounding, not spread


def compare(
    table: pd.DataFrame,
    baseline: str = "random",
    higher_is_better: bool = False,
    alpha: float = 0.05,
    looks: Sequence[int] | bool | None = None,
    *,
    guard: bool = True,
) -> pd.DataFrame:
    """One row per estimator, best first: its advantage over the baseline, and the verdict.

    Areas are taken over the fractions every estimator has; a curve with a gap there counts as
    missing. Missing curves leave an unbalanced layout, which is fitted by least squares, so that an
    advantage always compares curves of the same replicates.

    n              replicates in which this estimator and the baseline both have a whole curve
    area           baseline_area plus or minus the advantage: the mean area, in a complete study
    advantage      difference of the areas; positive is better than the baseline
    low, high      its interval at level 1 - alpha, for this estimator alone (not Holm's)
    p, p_holm      t-test with the pooled residual variance; adjusted by Holm over the estimators
    verdict        "better than random", "worse than random" or "cannot tell with 5 replicates"
    detectable     the advantage this design finds with 80 % power (see `minimum_detectable`)
    p_own          paired t-test from this estimator's differences alone: n - 1 degrees of freedom
    missing        replicates of the study that are not in n
    note           why there is no test, or that the standard error was widened; else empty

    Fewer than two shared replicates, no residual degrees of freedom, or areas without any residual
    spread give no test: p is NaN and the verdict is "cannot tell". The last also when the
    difference is constant and not zero: replicates that do not vary are copies of one run more
    often than they are proof.

    With `guard`, an estimator that evidently varies more than the others (F-test at 5 %; the same
    for the baseline) is tested with its own standard error where that is the wider one.
    `looks=True` (or the planned numbers of replicates) spends only this look's share of `alpha`.
    `attrs` holds what concerns the whole table: residual_sd, df, alpha, fractions, replicates,
    nan_values.

    >>> table = pd.DataFrame(
    ...     [("random", 0, 0.5, 0.90), ("random", 1, 0.5, 0.80),
    ...      ("gradient", 0, 0.5, 0.72), ("gradient", 1, 0.5, 0.60)],
    ...     columns=["estimator", "replicate", "fraction", "value"])
    >>> compare(table)[["estimator", "advantage", "p", "verdict"]].round(3)
      estimator  advantage      p             verdict
    0  gradient       0.19  0.033  better than random
    """
    areas, facts = _areas(_checked(table))
    if baseline not in areas.index:
        raise BadInput(
            f"The table has no estimator '{baseline}' to compare with; "
            f"it has {', '.join(areas.index)}. Name one of them as baseline."
        )
    level = _level(alpha, looks, areas.shape[1])
    fit = contrasts(areas.to_numpy(), list(areas.index).index(baseline), guard=guard)
    result = _frame(fit, areas.index, baseline, 1 if higher_is_better else -1, level)
    result.attrs = {**facts, "residual_sd": float(fit.residual_sd), "df": fit.df, "alpha": level}
    return result


def look_alpha(n: int, alpha: float = 0.05, looks: Sequence[int] = LOOKS) -> float:
    """Share of `alpha` to spend on the look with `n` replicates: the same at every look.

    The shares add up to `alpha`, so all looks together err no more often than one whole test.
    Equal shares decide the large differences that remove-and-retrain usually meets with the fewest
    replicates, and they stay valid when a failed replicate leaves a look with fewer than planned:
    such an `n` belongs to the next look.

    >>> look_alpha(5)
    0.01
    """
    _check_share("alpha", alpha)
    if not looks or any(k < 1 for k in looks) or any(np.diff(looks) <= 0):
        raise BadInput(f"Looks must be positive and strictly increasing; got {tuple(looks)}.")
    if not 1 <= n <= looks[-1]:
        raise BadInput(
            f"{n} replicates are not among the planned looks {tuple(looks)}; the error budget "
            f"covers 1 to {looks[-1]} replicates. Plan a later look before the first one is taken."
        )
    return alpha / len(looks)


def intervals(table: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Mean and t-interval over replicates for each estimator and fraction, with n.

    Descriptive: the interval holds the spread between replicates, which the paired comparison of
    `compare` removes, so overlapping intervals do not mean "cannot tell". Missing values are left
    out of n; with n = 1 there is no interval.
    """
    _check_share("level", level)
    values = _checked(table).groupby(["estimator", "fraction"])["value"]
    result = values.agg(n="count", mean="mean", sd="std").reset_index()
    n = result["n"].to_numpy(dtype=np.int64)
    half = _t_quantile(level, n - 1) * result.pop("sd") / np.sqrt(np.maximum(n, 1))
    return result.assign(low=result["mean"] - half, high=result["mean"] + half)


def minimum_detectable(
    sd: float, n: int, estimators: int = 1, alpha: float = 0.05, power: float = POWER
) -> float:
    """Smallest true advantage that `compare` calls with the given power; NaN when it has no test.

    `sd` is the residual standard deviation of an area, `n` the replicates, `estimators` how many
    are compared with the baseline. It asks for Holm's first and strictest step, alpha / estimators:
    what a difference must be when it is the only one.

    >>> round(minimum_detectable(0.01, n=5, estimators=10), 4)
    0.0243
    """
    if not (sd >= 0 and n >= 1 and estimators >= 1):
        raise BadInput(
            "A detectable difference needs sd >= 0, n >= 1 and estimators >= 1; "
            f"got sd={sd}, n={n}, estimators={estimators}."
        )
    _check_share("alpha", alpha)
    _check_share("power", power)
    if sd == 0:
        return float("nan")
    noncentral = _noncentrality(estimators * (n - 1), alpha / estimators, power)
    return noncentral * sd * float(np.sqrt(2 / n))


def holm(p: ArrayLike) -> Array:
    """P-values adjusted by Holm's step-down over the last axis; NaN stays NaN and is not counted.

    >>> holm([0.04, 0.01, 0.03]).round(12).tolist()
    [0.06, 0.03, 0.06]
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, axis=-1)  # NaN last
    tests = np.isfinite(p).sum(-1, keepdims=True)
    factors = np.maximum(tests - np.arange(p.shape[-1]), 1)
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, -1) * factors, axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), -1)
    return adjusted


@dataclass(frozen=True)
class TwoWay:
    """Least-squares fit of estimator and replicate effects, residual variance pooled."""

    effects: Array  # (..., e), one constant free
    unit: Array  # (e, e): covariance of the effects, in units of the residual variance
    squares: Array  # (...), residual sum of squares
    df: int


def two_way(areas: Array) -> TwoWay:
    """Effects and residuals of (..., estimator, replicate) areas; NaN is missing.

    Leading axes are tables of their own with the same cells missing. Replicates are swept out
    first, which leaves one equation per estimator; it needs no dummy variables.
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
    difference: Array  # (..., e)
    se: Array  # (..., e); NaN where there is no test
    df: int
    p: Array
    p_own: Array
    spread: Array  # (..., e): sd as a multiple of the others' where it widened se, else 1
    residual_sd: Array  # (...)
    baseline_area: Array  # (...)
    replicates: int


def contrasts(areas: Array, baseline: int, guard: bool = True) -> Contrasts:
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
    spread = _uneven(areas, baseline) if guard else np.ones(se.shape)
    spread = np.where((spread > 1) & (own > se), spread, 1.0)
    se = np.where(spread > 1, own, se)
    return Contrasts(
        n=n,
        difference=difference,
        se=se,
        df=fit.df,
        p=_two_sided(difference, se, fit.df),
        p_own=_two_sided(_mean(areas - areas[..., [baseline], :]), own, n - 1),
        spread=spread,
        residual_sd=sd,
        baseline_area=_mean(areas[..., baseline, :]),
        replicates=areas.shape[-1],
    )


def _present(areas: Array) -> NDArray[np.bool_]:
    """Which cells of (..., estimator, replicate) areas are there, in every one of the tables."""
    return np.asarray(np.isfinite(areas).all(axis=tuple(range(areas.ndim - 2))))


def _residual_sd(fit: TwoWay, areas: Array) -> Array:
    """Pooled residual standard deviation; exactly 0 for mere rounding, NaN without freedom."""
    if fit.df < 1:
        return np.full(fit.squares.shape, np.nan)
    sd = np.sqrt(fit.squares / fit.df)
    return np.where(sd > _rounding(areas), sd, 0.0)


def _rounding(areas: Array) -> Array:
    """Spread below which areas of this size count as equal."""
    return np.asarray(ROUNDING * np.abs(np.nan_to_num(areas)).max((-2, -1), initial=0))


def _own_se(areas: Array, baseline: int) -> Array:
    """Standard error of each row's mean difference to the baseline, from that row alone."""
    differences = areas - areas[..., [baseline], :]
    n = np.isfinite(differences).sum(-1)
    squares = np.nansum((differences - _mean(differences)[..., None]) ** 2, -1)
    se = np.sqrt(squares / np.maximum((n - 1) * n, 1))
    return np.where((n > 1) & (se > _rounding(areas)[..., None]), se, np.nan)


def _uneven(areas: Array, baseline: int) -> Array:
    """Standard deviation of each row as a multiple of the others', where evidently larger; else 1.

    What the residual sum of squares loses when a row is left out is that row's, so the ratio of the
    two mean squares is an F under equal variances, in unbalanced layouts too. A row also counts as
    uneven when the baseline is: the difference contains it.
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
        evident = f > stats.f.isf(UNEVEN, df, rest.df)
        ratios.append(np.sqrt(np.where(evident, f, 1.0)))
    ratio = np.stack(ratios, -1)
    return np.asarray(np.maximum(ratio, ratio[..., [baseline]]))


def _mean(values: Array) -> Array:
    """Mean over the last axis without the missing values; NaN when all are missing."""
    n = np.isfinite(values).sum(-1)
    return np.where(n > 0, np.nansum(values, -1) / np.maximum(n, 1), np.nan)


def _two_sided(difference: Array, se: Array, df: Freedom) -> Array:
    """Two-sided p of a t-test; NaN where there is no standard error or no freedom."""
    return np.asarray(2 * stats.t.sf(np.abs(difference) / se, _freedom(df)))


def _t_quantile(level: float, df: Freedom) -> Array:
    """Half-width, in standard errors, of a two-sided t-interval; NaN without freedom."""
    return np.asarray(stats.t.isf((1 - level) / 2, _freedom(df)))


def _freedom(df: Freedom) -> Array:
    """Degrees of freedom as scipy takes them: NaN where there are none."""
    return np.where(np.asarray(df) > 0, df, np.nan)


def _noncentrality(df: int, level: float, power: float) -> float:
    """Difference, in standard errors, that a two-sided t-test at `level` finds with `power`."""
    if df < 1:
        return float("nan")
    critical = float(stats.t.isf(level / 2, df))
    # quadrature over the estimated sd: scipy's noncentral t is NaN for large arguments
    chi = np.sqrt(stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, df) / df)

    def missing_power(shift: float) -> float:
        found = special.ndtr(shift - critical * chi) + special.ndtr(-critical * chi - shift)
        return power - float(found.mean())

    if missing_power(0.0) <= 0:  # a power no larger than the level needs no difference
        return 0.0
    return float(optimize.brentq(missing_power, 0.0, 10 * critical + 10))


def _frame(fit: Contrasts, names: pd.Index, baseline: str, sign: int, level: float) -> pd.DataFrame:
    """The rows of `compare`, best first."""
    rows = names != baseline
    p_holm = np.full(len(names), np.nan)
    p_holm[rows] = holm(fit.p[rows])
    tests = int(np.isfinite(fit.p[rows]).sum())
    advantage = sign * fit.difference
    half = _t_quantile(1 - level, fit.df) * fit.se
    found = _noncentrality(fit.df, level / tests, POWER) if tests else np.nan
    frame = pd.DataFrame(
        {
            "estimator": names,
            "n": fit.n,
            "area": fit.baseline_area + fit.difference,
            "baseline_area": float(fit.baseline_area),
            "advantage": advantage,
            "low": advantage - half,
            "high": advantage + half,
            "p": fit.p,
            "p_holm": p_holm,
            "verdict": [
                _verdict(float(a), bool(p <= level), int(n), baseline)
                for a, p, n in zip(advantage, p_holm, fit.n, strict=True)
            ],
            "detectable": found * fit.se,
            "p_own": fit.p_own,
            "missing": fit.replicates - fit.n,
            "note": [_note(fit, row, baseline) for row in range(len(names))],
        }
    )
    best = frame[rows].sort_values(["advantage", "estimator"], ascending=[False, True])
    return best.reset_index(drop=True)[list(COLUMNS)]


def _verdict(advantage: float, decided: bool, n: int, baseline: str) -> str:
    if decided:
        return f"{'better' if advantage > 0 else 'worse'} than {baseline}"
    return f"cannot tell with {n} replicate{'' if n == 1 else 's'}"


def _note(fit: Contrasts, row: int, baseline: str) -> str:
    if fit.n[row] < 2:
        return f"a test needs two replicates shared with {baseline}"
    if not np.isfinite(fit.se[row]):
        return "the replicates do not vary at all: are they copies of one run?"
    if fit.spread[row] > 1:
        times = min(fit.spread[row], 99.0)  # infinite where the others do not vary at all
        return (
            f"it or {baseline} varies {times:.1f} times as much as the others: "
            "tested with its own, wider standard error"
        )
    return ""


def _level(alpha: float, looks: Sequence[int] | bool | None, n: int) -> float:
    """Error rate of this comparison: all of alpha, or one look's share."""
    _check_share("alpha", alpha)
    if looks is None or looks is False:
        return alpha
    return look_alpha(n, alpha, LOOKS if looks is True else looks)


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise BadInput(f"{name} must lie between 0 and 1; got {value}.")


def _checked(table: pd.DataFrame) -> pd.DataFrame:
    """The four columns with clean types; every flaw that would change a verdict is refused."""
    wanted = ["estimator", "replicate", "fraction", "value"]
    absent = [name for name in wanted if name not in table.columns]
    if absent or table.empty:
        raise BadInput(
            f"A table of curves needs rows and the columns {', '.join(wanted)}; it has "
            f"{len(table)} rows and the columns {', '.join(map(str, table.columns)) or 'none'}."
        )
    if "protocol" in table.columns and table["protocol"].nunique(dropna=False) > 1:
        found = ", ".join(map(str, table["protocol"].unique()))
        raise BadInput(f"A comparison takes one protocol at a time; the table has {found}.")
    keys = table[wanted[:3]]
    if keys.isna().to_numpy().any():
        raise BadInput("Every row needs an estimator, a replicate and a fraction; some are empty.")
    tidy = _typed(table[wanted])
    repeated = tidy.duplicated(wanted[:3])
    if repeated.any():
        e, s, t = tidy.loc[repeated, wanted[:3]].iloc[0]
        raise BadInput(
            f"Estimator '{e}', replicate {s}, fraction {t:g} occurs more than once; a table holds "
            "one task, model and protocol, each curve point once."
        )
    return tidy


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    try:
        replicate = table["replicate"].astype(int)
        if (replicate != table["replicate"]).any():
            raise ValueError("some replicates are not whole")
        tidy = pd.DataFrame(
            {
                "estimator": table["estimator"].astype(str).to_numpy(),
                "replicate": replicate.to_numpy(),
                "fraction": table["fraction"].astype(float).round(9).to_numpy(),  # 0.1 + 0.2 is 0.3
                "value": table["value"].astype(float).to_numpy(),
            }
        )
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"Replicates must be whole numbers, fractions and values numbers: {error}."
        ) from error
    if np.isinf(tidy[["fraction", "value"]].to_numpy()).any():
        raise BadInput("Fractions and values must be finite; some are infinite.")
    return tidy


def _areas(tidy: pd.DataFrame) -> tuple[pd.DataFrame, dict[Hashable, Any]]:
    """Areas (estimator x replicate, NaN where a curve has a gap) over the common fractions."""
    points = tidy.pivot(index=["estimator", "replicate"], columns="fraction", values="value")
    seen = points.notna().groupby(level="estimator").any()
    seen = seen[seen.any(axis=1)]  # an estimator that failed throughout must not empty the study
    fractions = points.columns[seen.all(axis=0).to_numpy()].to_numpy(dtype=float)
    if seen.empty or not fractions.size:
        raise BadInput(
            "No fraction is common to all estimators, so their areas cannot be compared; "
            f"the table has the fractions {', '.join(f'{t:g}' for t in points.columns)}."
        )
    curves = area(fractions, points[fractions].to_numpy())
    areas = pd.Series(curves, index=points.index).unstack("replicate")
    facts: dict[Hashable, Any] = {
        "fractions": fractions.tolist(),
        "replicates": int(areas.shape[1]),
        "nan_values": int(tidy["value"].isna().sum()),
    }
    return areas, facts
