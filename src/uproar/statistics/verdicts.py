"""Retrained metrics (ROAR, KAR): areas under replicated curves, compared by paired t-tests over replicates.

The input is a tidy table of one protocol with the columns `estimator`, `replicate`, `fraction` and `value`. Each curve
becomes one area, over the fractions that every estimator has. A study may be analysed several times while replicates
are added (`sequential`): every planned analysis has an equal share of the error rate, so that all of them together err
no more often than one test would.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from uproar.statistics.areas import areas_of
from uproar.statistics.comparisons import FEWER, compare, holm, paired_difference, sides
from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES, LEAST_REPLICATES
from uproar.statistics.intervals import detectable, t_quantile
from uproar.wording import counted

COLUMNS = (
    *("estimator", "n", "area", "baseline_area", "advantage", "low", "high", "se", "df", "p", "p_holm"),
    *("verdict", "side", "detectable", "missing"),
)


def compare_with_baseline(
    table: pd.DataFrame,
    baseline: str = BASELINE,
    higher_is_better: bool = False,
    alpha: float = ALPHA,
    others: Collection[str] = (),
) -> pd.DataFrame:
    """One row per estimator, best first: its advantage over the baseline, and the verdict.

    n              replicates in which this estimator and the baseline both have a whole curve
    area           baseline_area plus or minus the advantage: the mean area, in a complete study
    advantage      difference of the areas; positive is better than the baseline
    low, high      its 95 % t-interval, for this estimator alone
    se, df         its standard error and degrees of freedom, n - 1
    p, p_holm      the paired t-test of it; adjusted by Holm over the estimators
    verdict        "better than random", "worse than random", "not significantly different (5 replicates)",
                   or why there is no test
    side           1 for better, -1 for worse, 0 where it is not significantly different
    detectable     the advantage that a t-test with this se and df finds with 80 % power, at Holm's first step
    missing        replicates of the study that are not in n

    Fewer than five shared replicates have no verdict, and replicates that do not vary have none: they are copies of one
    run more often than they are proof. `others` are further baselines, which are not tested against this one. `attrs`
    names the fractions that the areas are over.

    >>> rows = [("random", s, 0.5, value) for s, value in enumerate((0.90, 0.80, 0.88, 0.84, 0.86))]
    >>> rows += [("gradient", s, 0.5, value) for s, value in enumerate((0.72, 0.60, 0.69, 0.66, 0.67))]
    >>> table = pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])
    >>> compare_with_baseline(table)[["estimator", "advantage", "verdict"]].round(3)
      estimator  advantage             verdict
    0  gradient      0.188  better than random
    """
    areas, fractions = areas_of(table)
    sign = 1 if higher_is_better else -1
    reference = areas.loc[baseline].to_numpy(dtype=float)
    rows = []
    for name in areas.index.drop(baseline):
        difference = paired_difference(sign * areas.loc[name].to_numpy(dtype=float), sign * reference)
        tested = difference.n >= LEAST_REPLICATES and name not in others
        row = {"estimator": name, **difference.as_row("advantage", with_n=True), "se": difference.standard_error}
        rows.append({**row, "df": difference.df, "p": difference.p if tested else np.nan})
    frame = pd.DataFrame(rows, columns=[name for name in COLUMNS if name in (*rows[0],)] if rows else list(COLUMNS))
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    frame["side"] = sides(frame["advantage"], frame["p_holm"], alpha)
    frame["baseline_area"] = float(np.nanmean(reference))
    frame["area"] = frame["baseline_area"] + sign * frame["advantage"]
    frame["detectable"] = detectable(frame["se"], frame["df"], int(frame["p"].notna().sum()), alpha)
    frame["missing"] = areas.shape[1] - frame["n"]
    frame["verdict"] = [_verdict(row, baseline, row.estimator in others) for row in frame.itertuples()]
    frame = frame.sort_values(["advantage", "estimator"], ascending=[False, True], ignore_index=True)[list(COLUMNS)]
    frame.attrs = {"fractions": fractions}
    return frame


def _verdict(row: object, baseline: str, is_baseline: bool) -> str:
    side, n, p = (getattr(row, name) for name in ("side", "n", "p"))
    if is_baseline:
        return "baseline"
    if side:
        return f"{'better' if side > 0 else 'worse'} than {baseline}"
    if n < LEAST_REPLICATES:
        return FEWER
    return (
        "no test: the values do not vary" if np.isnan(p) else f"not significantly different ({counted(n, 'replicate')})"
    )


def compare_pairs(
    table: pd.DataFrame, higher_is_better: bool = False, alpha: float = ALPHA, baselines: Collection[str] = ()
) -> pd.DataFrame:
    """Every pair of estimators of one protocol by its difference of areas over shared replicates: see `compare`."""
    areas, _ = areas_of(table)
    rows = {
        name: areas.loc[name].to_numpy(dtype=float) for name in dict.fromkeys(table["estimator"]) if name in areas.index
    }
    return compare(rows, baselines, higher_is_better, alpha=alpha)


def gains(table: pd.DataFrame, pairs: Sequence[tuple[str, str]], sign: int) -> pd.DataFrame:
    """How much better the first of each pair is than the second, one row per pair.

    `table` holds areas, estimators by seeds; `sign` is 1 where larger is better. p is adjusted by Holm over the pairs,
    and `better` and `worse` are decided at 5 %.

    >>> table = pd.DataFrame([[.9, .8, .85], [.7, .61, .64]], index=["random", "grad"])
    >>> gains(table, [("grad", "random")], -1)[["gain", "better"]].round(3).to_numpy().tolist()
    [[0.2, True]]
    """
    rows = []
    for first, second in pairs:
        gain = paired_difference(sign * table.loc[first].to_numpy(float), sign * table.loc[second].to_numpy(float))
        rows.append((first, second, gain.n, gain.value, gain.low, gain.high, gain.p))
    result = pd.DataFrame(rows, columns=["first", "second", "n", "gain", "low", "high", "p"])
    result["p_holm"] = holm(result["p"].to_numpy(dtype=float))
    side = sides(result["gain"], result["p_holm"])
    return result.assign(better=side > 0, worse=side < 0)


def intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and 95 % t-interval over replicates for each estimator and fraction, with n.

    Descriptive: the interval holds the variance between replicates, which paired comparisons remove, so overlapping
    intervals may differ significantly. Missing values are left out of n; n = 1 has no interval.
    """
    values = table.groupby(["estimator", "fraction"])["value"]
    result = values.agg(n="count", mean="mean", sd="std").reset_index()
    n = result["n"].to_numpy(dtype=np.int64)
    half = t_quantile(n - 1) * result.pop("sd") / np.sqrt(np.maximum(n, 1))
    return result.assign(low=result["mean"] - half, high=result["mean"] + half)


def sequential(
    table: pd.DataFrame,
    baseline: str = BASELINE,
    higher_is_better: bool = False,
    analyses: Sequence[int] = INTERIM_ANALYSES,
    others: Collection[str] = (),
    alpha: float = ALPHA,
) -> pd.DataFrame:
    """The verdicts of `compare_with_baseline`, each as of the analysis that decided it (column `analysis`), best first.

    Each analysis has alpha / analyses. An estimator that is decided leaves, and only the rest is tested at the next
    analysis: as long as nothing was decided wrongly, all estimators that equal the baseline are still among those
    tested. Replicates count in the order of their numbers. An analysis is made when everyone who is still undecided,
    and the baseline, have whole curves for as many replicates.
    """
    replicates = sorted(table["replicate"].unique())
    remaining = set(table["estimator"]) - {baseline}
    parts: list[pd.DataFrame] = []
    last: pd.DataFrame | None = None
    share = alpha / len(analyses)
    for n in analyses:
        names = {*remaining, baseline}
        part = table[table["estimator"].isin(names) & table["replicate"].isin(replicates[:n])]
        if not remaining - set(others) or len(replicates) < n or not _complete(part, names, n):
            break
        verdicts = compare_with_baseline(part, baseline, higher_is_better, share, others).assign(analysis=n)
        decided = verdicts["side"] != 0
        parts.append(verdicts[decided])
        last = verdicts[~decided]
        remaining -= set(verdicts.loc[decided, "estimator"])
    if last is None:
        last = compare_with_baseline(table, baseline, higher_is_better, share, others).assign(analysis=0, side=0)
        last["verdict"] = last["verdict"].where(last["verdict"] == "baseline", FEWER)
    parts.append(last[last["estimator"].isin(remaining)])
    result = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return result.sort_values("advantage", ascending=False, ignore_index=True)


def undecided_estimators(verdicts: pd.DataFrame) -> list[str]:
    """The methods whose verdict is open, with the baselines they are compared with; none where all are decided."""
    rest = verdicts[verdicts["side"] == 0]
    return list(rest["estimator"]) if (rest["verdict"] != "baseline").any() else []


def _complete(table: pd.DataFrame, names: set[str], n: int) -> bool:
    """Whether everyone has every fraction in all n replicates."""
    fractions = table["fraction"].nunique()
    counts = table.dropna(subset="value").groupby("estimator").size()
    return all(counts.get(name, 0) >= n * fractions for name in names)
