"""Paired comparisons: every method against every baseline, and method against method, corrected by Holm's procedure.

The families of tests are what is asked together: the methods against one baseline, and the pairs of methods. Baselines
are not tested against each other. A method is better than the best baseline where it is better than every one of them
(intersection-union: the largest p counts), with Holm's procedure over the methods (`against_baselines`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from uproar.errors import BadInput
from uproar.statistics.design import ALPHA, LEAST_REPLICATES
from uproar.statistics.intervals import Interval, Measurements, Numbers, mean_interval
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
        difference = paired_difference(values[first], values[second])
        swap = difference.value < 0 if higher_is_better else difference.value > 0
        better, worse, difference = (second, first, -difference) if swap else (first, second, difference)
        one_network = single_network and difference.replicates == 1 and _has_images(values[first])
        tested = one_network or difference.replicates >= LEAST_REPLICATES
        rows.append(
            {
                "better": better,
                "worse": worse,
                "against": second if second in baselines else "",
                **difference.as_row("difference", with_n=True),
                "se": difference.standard_error,
                "df": difference.df,
                "p": difference.p if tested else math.nan,
                "ranked": not (why.get(first) or why.get(second)),
                "replicates": difference.replicates,
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


def _has_images(values: Measurements | ArrayLike) -> bool:
    return isinstance(values, Measurements) or np.ndim(values) == 2


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
    side = (adjusted <= alpha).astype(int)
    verdicts = [_verdict(row, decided) for row, decided in zip(frame.itertuples(), side.tolist(), strict=True)]
    table = frame.assign(p_holm=adjusted, side=side, verdict=pd.Series(verdicts, dtype=object))
    return table[[*(name for name in COLUMNS if name in table), *(name for name in table if name not in COLUMNS)]]


def _verdict(row: object, decided: int) -> str:
    better, verdict, p, n, replicates, ranked = (
        getattr(row, name) for name in ("better", "verdict", "p", "n", "replicates", "ranked")
    )
    if not ranked or verdict == FEWER:
        return str(verdict)
    if decided:
        return f"{better} better"
    if math.isnan(p):
        return "no test: the values do not vary"
    if n == replicates:
        return f"not significantly different ({counted(int(n), 'replicate')})"
    several = f"{int(replicates)} replicates and " if replicates > 1 else ""
    return f"not significantly different ({several}{counted(int(n), 'image')})"


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
