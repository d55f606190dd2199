"""Paired comparisons: every method against every baseline, and method against method, corrected by Holm's procedure.

The families of tests are what is asked together: the methods against one baseline, and the pairs of methods. Baselines
are not tested against each other. A method is better than the best baseline where it is better than every one of them
(intersection-union: the largest p counts), with Holm's procedure over the methods (`against_baselines`).

Retrained metrics (ROAR, KAR) give curves: a tidy table of one protocol with the columns `estimator`, `replicate`,
`fraction` and `value`. Each curve becomes one area, over the fractions that every estimator has, and the areas are
compared over replicates. A study may be analysed several times while replicates are added (`sequential`): every planned
analysis has an equal share of the error rate, so that all of them together err no more often than one test would.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from uproar.errors import BadInput
from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES, LEAST_REPLICATES
from uproar.statistics.intervals import Interval, Measurements, Numbers, area, detectable, mean_interval, t_quantile
from uproar.wording import counted, series

COLUMNS = {
    "better": "the method with the better value",
    "worse": "the other",
    "against": "the one of the two that is a baseline; empty for two methods",
    "difference": "better minus worse",
    "low": "lower end of its 95 % interval, for this pair alone",
    "high": "upper end",
    "se": "its standard error",
    "df": "degrees of freedom of the t-test",
    "p": "of no difference, for this pair alone; NaN where there is no test",
    "p_holm": "the same, adjusted by Holm's method: over the pairs of methods, or over the methods against this "
    "baseline; of the baseline that a method beats least clearly, over the methods against all baselines",
    "verdict": "`<method> better`, or why there is none",
    "side": "1 where `better` is significantly better, else 0",
    "ranked": "whether both are ranked by the metric; other pairs are not tested",
    "n": "what was paired: replicates under a retrained metric, else images",
    "replicates": "replicates in which both have a value",
}
"""The columns of a table of comparisons."""

FEWER = f"fewer than {LEAST_REPLICATES} replicates"
"""The verdict where too few replicates are finished for a test."""
NO_TEST = "no test: the values do not vary"

VERDICT_COLUMNS = (
    *("estimator", "n", "area", "baseline_area", "advantage", "low", "high", "se", "df", "p", "p_holm"),
    *("verdict", "side", "detectable", "missing"),
)
"""The columns of verdicts against the random ranking: see `compare_with_baseline`."""


def compare(
    values: Mapping[str, Measurements | ArrayLike],
    baselines: Collection[str] = (),
    higher_is_better: bool = True,
    unranked: Mapping[str, str] | None = None,
    alpha: float = ALPHA,
    single_network: bool = True,
) -> pd.DataFrame:
    """Every method against every baseline, and every two methods, the better one first; see COLUMNS.

    `values` are one number per replicate, (replicates,), or (replicates, images), or `Measurements`; all have the same
    replicates and images, NaN where there is no value. Several networks are compared from five replicates on; one by
    its images, unless `single_network` is False because the network is not the one that was asked about. `unranked`
    says why a method is not ranked: its pairs have no test.

    >>> mine, ig = [0.60, 0.52, 0.61, 0.55, 0.58], [0.72, 0.65, 0.72, 0.68, 0.69]
    >>> compare({"mine": mine, "ig": ig}, higher_is_better=False)[["better", "worse", "difference", "verdict"]].round(3)
      better worse  difference      verdict
    0   mine    ig       -0.12  mine better
    """
    methods = [name for name in values if name not in baselines]
    against = [(method, name) for method in methods for name in values if name in baselines]
    why, rows = unranked or {}, []
    for first, second in [*against, *itertools.combinations(methods, 2)]:
        one = values[first]
        lead = paired_difference(one, values[second])
        swap = lead.value < 0 if higher_is_better else lead.value > 0
        better, worse, lead = (second, first, -lead) if swap else (first, second, lead)
        images = isinstance(one, Measurements) or np.ndim(one) == 2
        tested = lead.replicates >= LEAST_REPLICATES or (single_network and images and lead.replicates == 1)
        rows.append(
            {
                "better": better,
                "worse": worse,
                "against": second if second in baselines else "",
                "difference": lead.value,
                "low": lead.low,
                "high": lead.high,
                "se": lead.standard_error,
                "df": lead.df,
                "p": lead.p if tested else math.nan,
                "ranked": not (why.get(first) or why.get(second)),
                "n": lead.n,
                "replicates": lead.replicates,
                "verdict": why.get(first) or why.get(second) or ("" if tested else FEWER),
            }
        )
    frame = pd.DataFrame(rows, columns=[name for name in COLUMNS if name not in ("p_holm", "side")])
    return decide(frame[(frame["replicates"] > 0) & frame["difference"].notna()], alpha)


def paired_difference(first: Measurements | ArrayLike, second: Measurements | ArrayLike) -> Interval:
    """The mean of paired differences: over replicates, or over replicates and images."""
    if isinstance(first, Measurements) and isinstance(second, Measurements):
        return (first - second).interval()
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    return mean_interval(difference) if difference.ndim == 1 else Measurements(difference).interval()


def decide(frame: pd.DataFrame, alpha: float = ALPHA) -> pd.DataFrame:
    """The table of one metric with Holm's correction over each family and the verdicts at an error rate.

    >>> frame = compare({"a": [[0.2, 0.5, 0.4, 0.6]], "b": [[0.1, 0.4, 0.2, 0.5]]})
    >>> [decide(frame, alpha)["verdict"].item() for alpha in (0.05, 0.01)]
    ['a better', 'not significantly different (4 images)']
    """
    frame = frame.reset_index(drop=True)
    adjusted = np.full(len(frame), np.nan)
    p = frame["p"].where(frame["ranked"].astype(bool)).to_numpy(dtype=float)
    for family in frame["against"].unique():
        rows = (frame["against"] == family).to_numpy()
        adjusted[rows] = holm(p[rows])
    hardest = against_baselines(margins(frame.assign(p=p, side=0)))
    hardest = hardest[hardest["margin"] > 0]
    adjusted[hardest.index] = hardest["p_holm"]  # so that a method beats every baseline only where this says so
    frame = frame.assign(p_holm=adjusted, side=(adjusted <= alpha).astype(int))
    verdicts = []
    for row in frame.itertuples():
        several = f"{int(row.replicates)} replicates and " if row.replicates > 1 else ""
        unit = "replicate" if row.n == row.replicates else "image"
        open_ = f"not significantly different ({several * (unit == 'image')}{counted(int(row.n), unit)})"
        tested = NO_TEST if math.isnan(row.p) else f"{row.better} better" if row.side else open_
        verdicts.append(tested if row.ranked and row.verdict != FEWER else str(row.verdict))
    table = frame.assign(verdict=pd.Series(verdicts, dtype=object))
    return table[[*(name for name in COLUMNS if name in table), *(name for name in table if name not in COLUMNS)]]


def margins(frame: pd.DataFrame) -> pd.DataFrame:
    """Every method against every baseline from a table of comparisons: how much better the method is (`margin`).

    The margin and its ends are positive where the method is better, whatever the direction of the metric; `side` is 1
    or -1 where the method is significantly better or worse. The index is that of the table.
    """
    rows = frame[(frame["against"] != "") & frame["ranked"].astype(bool)]
    ahead = rows["worse"] == rows["against"]
    sign = np.where(ahead, 1, -1)
    turn = sign * np.where(rows["difference"] < 0, -1, 1)
    ends = np.sort(rows[["low", "high"]].to_numpy(dtype=float) * turn[:, None], axis=1)
    return rows.drop(columns=["better", "worse", "difference", "ranked", "verdict"]).assign(
        method=rows["better"].where(ahead, rows["worse"]),
        baseline=rows["against"],
        margin=sign * rows["difference"].abs(),
        low=ends[:, 0],
        high=ends[:, 1],
        side=sign * rows["side"],
    )


def against_baselines(margins: pd.DataFrame, alpha: float = ALPHA) -> pd.DataFrame:
    """One row per method: is it better than every baseline? `margins` has the baselines that count.

    `baseline` is the one that the method beats least clearly, or that is furthest ahead of it, `p` that of not beating
    every one: the largest, 1 where the method is not ahead, NaN without a test. `p_holm` is adjusted over the methods,
    and `side` is 1 where it decides, else 0.
    """
    p = margins["p"].where((margins["margin"] > 0) | margins["p"].isna(), 1.0)
    order = margins.assign(p=p, unclear=p.fillna(np.inf)).sort_values(["unclear", "margin"], ascending=[False, True])
    table = order.drop_duplicates("method").drop(columns="unclear").sort_index()
    adjusted = holm(table["p"].to_numpy(dtype=float))
    return table.assign(p_holm=adjusted, side=(adjusted <= alpha).astype(int))


def comparisons_with(frame: pd.DataFrame, name: str, alpha: float = ALPHA) -> pd.DataFrame:
    """The pairs of one method, corrected over these alone: for a question that was asked beforehand.

    >>> frame = compare({"a": [[2, 5, 4, 6]], "b": [[1, 4, 2, 5]], "c": [[3, 4, 1, 6]]})
    >>> comparisons_with(frame, "a")[["worse", "p", "p_holm"]].round(3).values.tolist()
    [['b', 0.015, 0.031], ['c', 0.444, 0.444]]
    """
    own = frame[(frame["better"] == name) | (frame["worse"] == name)]
    if own.empty:
        known = ", ".join(dict.fromkeys([*frame["better"], *frame["worse"]]))
        raise BadInput(f"There is no {name!r} to compare with; there are {known or 'no pairs'}.")
    together = decide(own.assign(against=""), alpha)
    return together.assign(against=own["against"].to_numpy())


def holm(p: ArrayLike) -> Numbers:
    """P-values adjusted by Holm's step-down procedure; NaN stays NaN and is not counted.

    >>> holm([0.04, 0.01, 0.03]).round(12).tolist()
    [0.06, 0.03, 0.06]
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)  # NaN last
    factors = np.maximum(np.isfinite(p).sum() - np.arange(len(p)), 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def sides(effect: ArrayLike, p_adjusted: ArrayLike, alpha: float = ALPHA) -> NDArray[np.int64]:
    """The sign of each effect where its adjusted p decides it, else 0.

    >>> sides([0.2, -0.1, 0.3], [0.01, 0.05, 0.06]).tolist()
    [1, -1, 0]
    """
    return np.where(np.asarray(p_adjusted) <= alpha, np.sign(effect), 0).astype(np.int64)


def pairs_sentence(frame: pd.DataFrame) -> str:
    """Which method beats most others, and how many pairs of methods are decided."""
    frame = frame[frame["ranked"].astype(bool) & (frame["against"] == "")]
    if frame.empty:
        return "no two methods could be compared"
    methods, total = len({*frame["better"], *frame["worse"]}), len(frame)
    n, replicates = int(frame["n"].max()), int(frame["replicates"].max())
    images = "" if n == replicates else f" of {counted(n, 'image')}" if replicates > 1 else counted(n, "image")
    basis = f"{counted(replicates, 'replicate') if n == replicates or replicates > 1 else ''}{images}"
    wins = frame.loc[frame["side"] == 1, "better"].value_counts(sort=False)
    if wins.empty:
        return f"no two of {methods} methods are significantly different ({basis})"
    first = [str(name) for name in wins.index[wins == wins.max()]]
    who = series(first) if len(first) <= 3 else f"{len(first)} methods"
    beat = f"{who} {'beats' if len(first) == 1 else 'each beat'} {wins.max()} of {methods - 1} other methods"
    return f"{beat}; {wins.sum()} of {counted(total, 'pair')} significantly different ({basis})"


def areas_of(table: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """Areas (estimator x replicate, NaN where a curve has a gap), and the common fractions that they are over.

    `table` has the columns `estimator`, `replicate`, `fraction` and `value`, each point of a curve once.
    """
    curves = table.assign(fraction=table["fraction"].astype(float).round(9))  # 0.1 + 0.2 is 0.3
    points = curves.pivot(index=["estimator", "replicate"], columns="fraction", values="value").astype(float)
    present = points.notna().groupby(level="estimator").any()
    present = present[present.any(axis=1)]  # an estimator that failed throughout must not empty the study
    fractions = points.columns[present.all(axis=0).to_numpy()].to_numpy(dtype=float)
    if present.empty or not fractions.size:
        raise BadInput(
            "No fraction is common to all estimators, so their areas cannot be compared; "
            f"the table has the fractions {', '.join(f'{t:g}' for t in points.columns)}."
        )
    areas = points.assign(area=area(fractions, points[fractions].to_numpy()))["area"].unstack("replicate")
    return areas, fractions.tolist()


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
        lead = paired_difference(sign * areas.loc[name].to_numpy(dtype=float), sign * reference)
        p = lead.p if lead.n >= LEAST_REPLICATES and name not in others else np.nan
        rows.append((name, lead.n, lead.value, lead.low, lead.high, lead.standard_error, lead.df, p))
    columns = ["estimator", "n", "advantage", "low", "high", "se", "df", "p"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=float))
    frame["side"] = sides(frame["advantage"], frame["p_holm"], alpha)
    frame["baseline_area"] = float(np.nanmean(reference))
    frame["area"] = frame["baseline_area"] + sign * frame["advantage"]
    frame["detectable"] = detectable(frame["se"], frame["df"], int(frame["p"].notna().sum()), alpha)
    frame["missing"] = areas.shape[1] - frame["n"]
    verdicts = []
    for row in frame.itertuples():
        decided = f"{'better' if row.side > 0 else 'worse'} than {baseline}" if row.side else ""
        untested = FEWER if row.n < LEAST_REPLICATES else NO_TEST if np.isnan(row.p) else ""
        neither = f"not significantly different ({counted(row.n, 'replicate')})"
        verdicts.append("baseline" if row.estimator in others else decided or untested or neither)
    frame["verdict"] = pd.Series(verdicts, dtype=object)
    frame = frame.sort_values(["advantage", "estimator"], ascending=[False, True], ignore_index=True)
    frame = frame[list(VERDICT_COLUMNS)]
    frame.attrs = {"fractions": fractions}
    return frame


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
        points = part.dropna(subset="value").groupby("estimator").size().reindex([*names], fill_value=0)
        whole = bool((points >= n * part["fraction"].nunique()).all())
        if not remaining - set(others) or len(replicates) < n or not whole:
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
