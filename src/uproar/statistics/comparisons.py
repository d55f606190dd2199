"""Paired comparisons: every method against every baseline, and method against method, corrected by Holm's procedure.

The families of tests are what is asked together: the methods against one baseline, and the pairs of methods. Baselines
are not tested against each other. A method is better than the best baseline where it is better than every one of them
(intersection-union: the largest p counts), with Holm's procedure over the methods (`against_baselines`).

Retrained metrics (ROAR, KAR) give curves: a tidy table of one metric with the columns `estimator`, `replicate`,
`fraction` and `value`. Each curve becomes one area, over the fractions that every estimator has, and the areas are
compared over replicates. A study may be analysed several times while replicates are added (`sequential`): every planned
analysis has an equal share of the error rate, so that all of them together err no more often than one test would.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from uproar.errors import BadInput
from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES, LEAST_REPLICATES
from uproar.statistics.intervals import Interval, Measurements, Numbers, area, detectable, mean_interval, t_quantile
from uproar.wording import counted

Values = Mapping[str, Measurements | ArrayLike]
"""By method: one number per replicate, (replicates,), or (replicates, images), or `Measurements`.

All have the same replicates and images, NaN where there is no value."""

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
"""The columns of verdicts against the random ranking: see `against_random`."""


def paired(values: Values, pairs: Iterable[tuple[str, str]], higher_is_better: bool = True) -> pd.DataFrame:
    """How much better the first of each pair is than the second (`difference`), one row per pair, each with its t-test.

    >>> areas = {"random": [0.90, 0.80, 0.85], "grad": [0.70, 0.61, 0.64]}
    >>> paired(areas, [("grad", "random")], higher_is_better=False)[["difference", "n"]].round(3).values.tolist()
    [[0.2, 3.0]]
    """
    rows = []
    for first, second in pairs:
        lead = paired_difference(values[first], values[second])
        lead = lead if higher_is_better else -lead
        ends = (lead.low, lead.high, lead.error, lead.df, lead.p)
        rows.append((first, second, lead.value, *ends, lead.n, lead.replicates))
    columns = ["first", "second", "difference", "low", "high", "se", "df", "p", "n", "replicates"]
    return pd.DataFrame(rows, columns=columns)


def paired_difference(first: Measurements | ArrayLike, second: Measurements | ArrayLike) -> Interval:
    """The mean of paired differences: over replicates, or over replicates and images."""
    if isinstance(first, Measurements) and isinstance(second, Measurements):
        return (first - second).interval()
    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    return mean_interval(gaps) if gaps.ndim == 1 else Measurements(gaps).interval()


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


def corrected(family: pd.DataFrame, alpha: float = ALPHA, effect: str = "difference") -> pd.DataFrame:
    """One family of tests: its p adjusted by Holm's procedure, and the sign (`side`) of each effect that it decides.

    >>> corrected(pd.DataFrame({"difference": [0.2, -0.1, 0.3], "p": [0.001, 0.02, 0.06]}))["side"].tolist()
    [1, -1, 0]
    """
    adjusted = holm(family["p"])
    return family.assign(p_holm=adjusted, side=np.where(adjusted <= alpha, np.sign(family[effect]), 0).astype(int))


def compare(
    values: Values,
    baselines: Collection[str] = (),
    higher_is_better: bool = True,
    unranked: Mapping[str, str] | None = None,
    alpha: float = ALPHA,
    single_network: bool = True,
) -> pd.DataFrame:
    """Every method against every baseline, and every two methods, the better one first; see COLUMNS.

    Several networks are compared from five replicates on; one by its images, unless `single_network` is False because
    the network is not the one that was asked about. `unranked` says why a method is not ranked: its pairs have no test.

    >>> mine, ig = [0.60, 0.52, 0.61, 0.55, 0.58], [0.72, 0.65, 0.72, 0.68, 0.69]
    >>> compare({"mine": mine, "ig": ig}, higher_is_better=False)[["better", "worse", "difference", "verdict"]].round(3)
      better worse  difference      verdict
    0   mine    ig       -0.12  mine better
    """
    methods = [name for name in values if name not in baselines]
    against = [(method, name) for method in methods for name in values if name in baselines]
    frame = paired(values, [*against, *itertools.combinations(methods, 2)], higher_is_better)
    frame = frame[(frame["replicates"] > 0) & frame["difference"].notna()]
    first, second, behind = frame["first"], frame["second"], frame["difference"] < 0
    ends = frame[["low", "high"]].to_numpy(dtype=float)
    same_way = (behind != higher_is_better).to_numpy()  # the difference, as the metric counts, keeps its sign

    images = any(isinstance(value, Measurements) or np.ndim(value) == 2 for value in values.values())
    one_network = (frame["replicates"] == 1) & (single_network and images)
    tested = (frame["replicates"] >= LEAST_REPLICATES) | one_network
    why = unranked or {}
    reasons = [why.get(winner) or why.get(loser) or "" for winner, loser in zip(first, second, strict=True)]
    reason = pd.Series(reasons, frame.index, dtype=object)
    frame = frame.assign(
        better=second.where(behind, first),
        worse=first.where(behind, second),
        against=second.where(second.isin(list(baselines)), ""),
        difference=frame["difference"].abs() * (1 if higher_is_better else -1),
        low=np.where(same_way, ends[:, 0], -ends[:, 1]),
        high=np.where(same_way, ends[:, 1], -ends[:, 0]),
        p=frame["p"].where(tested),
        ranked=reason == "",
        verdict=reason.where((reason != "") | tested, FEWER),
    )
    return decide(frame.drop(columns=["first", "second"]), alpha)


def decide(frame: pd.DataFrame, alpha: float = ALPHA) -> pd.DataFrame:
    """The table of one metric with Holm's correction over each family and the verdicts at an error rate.

    >>> frame = compare({"a": [[0.2, 0.5, 0.4, 0.6]], "b": [[0.1, 0.4, 0.2, 0.5]]})
    >>> [decide(frame, alpha)["verdict"].item() for alpha in (0.05, 0.01)]
    ['a better', 'not significantly different (4 images)']
    """
    frame = frame.reset_index(drop=True)
    tested = frame.assign(p=frame["p"].where(frame["ranked"].astype(bool)), side=0)
    adjusted = tested.groupby("against", sort=False)["p"].transform(holm)
    hardest = against_baselines(margins(tested))
    hardest = hardest[hardest["margin"] > 0]
    adjusted[hardest.index] = hardest["p_holm"]  # so that a method beats every baseline only where this says so
    frame = frame.assign(p_holm=adjusted.astype(float), side=(adjusted <= alpha).astype(int))
    verdicts = []
    for row in frame.itertuples():
        replicates = f"{int(row.replicates)} replicates and " if row.n != row.replicates > 1 else ""
        n = counted(int(row.n), "replicate" if row.n == row.replicates else "image")
        verdict = f"{row.better} better" if row.side else f"not significantly different ({replicates}{n})"
        verdict = NO_TEST if math.isnan(row.p) else verdict
        verdicts.append(verdict if row.ranked and row.verdict != FEWER else str(row.verdict))
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
    hardest = order.drop_duplicates("method").drop(columns="unclear").sort_index()
    return corrected(hardest, alpha, "margin")


def comparisons_with(frame: pd.DataFrame, name: str, alpha: float = ALPHA) -> pd.DataFrame:
    """The pairs of one method, corrected over these alone: for a question that was asked beforehand.

    >>> frame = compare({"a": [[2, 5, 4, 6]], "b": [[1, 4, 2, 5]], "c": [[3, 4, 1, 6]]})
    >>> comparisons_with(frame, "a")[["worse", "p", "p_holm"]].round(3).values.tolist()
    [['b', 0.015, 0.031], ['c', 0.444, 0.444]]
    """
    pairs = frame[(frame["better"] == name) | (frame["worse"] == name)]
    if pairs.empty:
        known = ", ".join(dict.fromkeys([*frame["better"], *frame["worse"]]))
        raise BadInput(f"There is no {name!r} to compare with; there are {known or 'no pairs'}.")
    return decide(pairs.assign(against=""), alpha).assign(against=pairs["against"].to_numpy())


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


def against_random(
    table: pd.DataFrame, higher_is_better: bool = False, alpha: float = ALPHA, others: Collection[str] = ()
) -> pd.DataFrame:
    """One row per estimator, best first: its advantage over the random ranking, and the verdict.

    n              replicates in which this estimator and the random ranking both have a whole curve
    area           baseline_area plus or minus the advantage: the mean area, in a complete study
    advantage      difference of the areas; positive is better than random
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
    >>> against_random(table)[["estimator", "advantage", "verdict"]].round(3)
      estimator  advantage             verdict
    0  gradient      0.188  better than random
    """
    areas, fractions = areas_of(table)
    names = areas.index.drop(BASELINE)
    frame = paired(areas.T.to_dict("series"), [(name, BASELINE) for name in names], higher_is_better)
    frame = frame.rename(columns={"first": "estimator", "difference": "advantage"})
    baseline, enough = frame["estimator"].isin(list(others)), frame["n"] >= LEAST_REPLICATES
    frame = corrected(frame.assign(p=frame["p"].where(enough & ~baseline)), alpha, "advantage")
    frame["baseline_area"] = float(np.nanmean(areas.loc[BASELINE]))
    frame["area"] = frame["baseline_area"] + (1 if higher_is_better else -1) * frame["advantage"]
    frame["detectable"] = detectable(frame["se"], frame["df"], int(frame["p"].notna().sum()), alpha)
    frame["missing"] = areas.shape[1] - frame["n"]
    neither = "not significantly different (" + frame["n"].map(lambda n: counted(n, "replicate")) + ")"
    verdict = frame["side"].map({1: f"better than {BASELINE}", -1: f"worse than {BASELINE}"}).fillna(neither)
    verdict = verdict.mask(frame["p"].isna(), NO_TEST).where(enough, FEWER).mask(baseline, "baseline")
    frame = frame.assign(verdict=verdict.astype(object))
    frame = frame.sort_values(["advantage", "estimator"], ascending=[False, True], ignore_index=True)
    frame = frame[list(VERDICT_COLUMNS)]
    frame.attrs = {"fractions": fractions}
    return frame


def sequential(
    table: pd.DataFrame,
    higher_is_better: bool = False,
    analyses: Sequence[int] = INTERIM_ANALYSES,
    others: Collection[str] = (),
    alpha: float = ALPHA,
) -> pd.DataFrame:
    """The verdicts of `against_random`, each as of the analysis that decided it (column `analysis`), best first.

    Each analysis has alpha / analyses. An estimator that is decided leaves, and only the rest is tested at the next
    analysis: as long as nothing was decided wrongly, all estimators that equal the baseline are still among those
    tested. Replicates count in the order of their numbers. An analysis is made when everyone who is still undecided,
    and the baseline, have whole curves for as many replicates.
    """
    replicates, remaining = sorted(table["replicate"].unique()), set(table["estimator"]) - {BASELINE}
    share, decided = alpha / len(analyses), []
    still_open = against_random(table, higher_is_better, share, others).assign(analysis=0, side=0)
    still_open["verdict"] = still_open["verdict"].where(still_open["verdict"] == "baseline", FEWER)
    for n in analyses:
        names = [*remaining, BASELINE]
        curves = table[table["estimator"].isin(names) & table["replicate"].isin(replicates[:n])]
        points = curves.dropna(subset="value").groupby("estimator").size().reindex(names, fill_value=0)
        whole = len(replicates) >= n and (points >= n * curves["fraction"].nunique()).all()
        if not whole or remaining <= set(others):
            break
        verdicts = against_random(curves, higher_is_better, share, others).assign(analysis=n)
        decided.append(verdicts[verdicts["side"] != 0])
        still_open = verdicts[verdicts["side"] == 0]
        remaining = set(still_open["estimator"])
    result = pd.concat([frame for frame in (*decided, still_open) if len(frame)], ignore_index=True)
    return result.sort_values("advantage", ascending=False, ignore_index=True)


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
