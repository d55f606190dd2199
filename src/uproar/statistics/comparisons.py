"""Method against method: every pair under one protocol or metric, paired, and corrected over the pairs.

Under a protocol each replicate gives one difference of areas per pair. Its variance is the largest of the pair's own,
on n - 1 degrees of freedom, that of the residuals of the two methods, and that pooled over all methods; a pair with the
baseline is tested as the verdicts are (`twoway.py`). Under a metric the differences are paired over images; with
several replicates the variance between replicates, by the same rule, and the variance between images add up. Holm's
procedure keeps the chance of any wrong verdict among the pairs of a protocol or metric at 5 %.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from uproar.errors import BadInput
from uproar.statistics.areas import areas_of, tidy_curves
from uproar.statistics.bounded_pairs import with_surplus
from uproar.statistics.design import ALPHA, BASELINE
from uproar.statistics.intervals import ROUNDING, UNLIMITED, Interval, Limits, Measurements, nanmean, t_interval
from uproar.statistics.multiple_testing import holm, sides
from uproar.statistics.twoway import Components, components, contrasts, own_error_note, pair_variance
from uproar.wording import counted, series

COLUMNS = {
    "better": "the method with the better value",
    "worse": "the other",
    "difference": "better minus worse",
    "low": "lower end of its 95 % interval, for this pair alone",
    "high": "upper end",
    "df": "degrees of freedom of the t-test",
    "p": "of no difference",
    "p_holm": "the same, adjusted by Holm's method over all pairs of ranked methods; NaN for others",
    "verdict": "`<method> better`, that it cannot be told, or that a method is not ranked",
    "side": "1 where `better` is decidedly better, else 0",
    "ranked": "whether both methods are ranked; other pairs are not tested",
    "n": "what was paired: replicates under a protocol, images under a metric",
    "replicates": "replicates in which both have a value",
    "note": "why there is no interval, how many times the pooled standard error is the one that the test uses, or how "
    "many times Student's interval is as wide, where one of two varies more between the bounds of a metric",
}
"""The columns of a table of comparisons."""
_FIELDS = ("low", "high", "df", "p", "n", "replicates", "note")


Pairs = Mapping[tuple[str, str], Interval]
"""Differences of two methods, first minus second."""


def compare_pairs(table: pd.DataFrame, higher_is_better: bool = False, alpha: float = ALPHA) -> pd.DataFrame:
    """Every pair of estimators of one protocol by its difference of areas over shared replicates; see COLUMNS.

    `table` has the columns `estimator`, `replicate`, `fraction` and `value`, as for `compare`.

    >>> table = pd.DataFrame(
    ...     [("mine", 0, 0.5, 0.60), ("mine", 1, 0.5, 0.52), ("mine", 2, 0.5, 0.61),
    ...      ("ig", 0, 0.5, 0.72), ("ig", 1, 0.5, 0.65), ("ig", 2, 0.5, 0.72)],
    ...     columns=["estimator", "replicate", "fraction", "value"])
    >>> compare_pairs(table)[["better", "worse", "difference", "p", "n", "verdict"]].round(3)
      better worse  difference      p  n      verdict
    0   mine    ig       -0.12  0.002  3  mine better
    """
    order = dict.fromkeys(table["estimator"])
    areas, _ = areas_of(tidy_curves(table))
    rows = {name: areas.loc[name].to_numpy(dtype=float) for name in order if name in areas.index}
    pairs = compare_rows(rows, itertools.combinations(rows, 2))
    shared = {pair: difference for pair, difference in pairs.items() if difference.n}
    return comparison_table(shared, higher_is_better, "replicates", alpha)


def compare_rows(rows: Mapping[str, np.ndarray], pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Interval]:
    """The difference of each pair of rows of replicates, with the variance pooled over all rows; see `twoway.py`."""
    names = list(rows)
    table = np.stack([np.asarray(rows[name], dtype=float) for name in names])
    fit = contrasts(table, names.index(BASELINE)) if BASELINE in rows else None
    others = [name for name in names if name != BASELINE]
    parts = components(table[[name != BASELINE for name in names]])

    def difference(first: str, second: str) -> Interval:
        if fit is None or BASELINE not in (first, second):
            return _pair_interval(parts, rows[first], rows[second], (others.index(first), others.index(second)))
        row = names.index(second if first == BASELINE else first)
        interval = t_interval(fit.difference[row], fit.se[row], fit.df[row], int(fit.n[row]))
        interval = replace(interval, note=interval.note or own_error_note(fit.guarded[row], fit.df[row]))
        return -interval if first == BASELINE else interval

    return {pair: difference(*pair) for pair in pairs}


def _pair_interval(parts: Components, first: np.ndarray, second: np.ndarray, pair: tuple[int, int]) -> Interval:
    """A paired difference by the largest of its variances; none for replicates that do not vary."""
    gap = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    variance, df = (float(part) for part in pair_variance(parts, gap, pair))
    size = float(np.nanmax(np.abs([first, second]), initial=0))
    error = math.sqrt(variance) if variance > (ROUNDING * size) ** 2 else math.nan
    n = int(np.isfinite(gap).sum())
    return _noted(t_interval(float(nanmean(gap)), error, df, n), variance, parts, n)


def _noted(interval: Interval, variance: float, parts: Components, n: int) -> Interval:
    """A difference that says where the variance over replicates in it is larger than the pooled one."""
    if math.isnan(interval.low):
        return interval
    whole = interval.standard_error**2
    pooled = whole - variance + 2 * float(np.nan_to_num(parts.pooled)) / n
    return replace(interval, note=own_error_note(math.sqrt(whole / pooled) if pooled > 0 else 1.0, interval.df))


def compare_methods(
    methods: Mapping[str, Measurements],
    higher_is_better: bool,
    unranked: Mapping[str, str] | None = None,
    limits: Limits = UNLIMITED,
) -> pd.DataFrame:
    """Every pair of methods under one metric by its difference over shared replicates and images; see COLUMNS.

    A mean over images is compared by the t-test of the paired differences, over images alone with one replicate; with
    several, the variance between replicates is pooled over the methods as for protocols. Two methods alone have nothing
    to pool, and are tested as single values are (`intervals.cautious_df`). A
    statistic of the data set is compared by the same test with the variance of its difference over resamples of the
    images. `unranked` says why a method is not ranked; `limits` are the range of the metric, between which a method
    that varies more than another may lie further away than its replicates show (`bounded_pairs.py`).
    """
    pairs = method_differences(methods, itertools.combinations(methods, 2), limits)
    return comparison_table(pairs, higher_is_better, "images", unranked=unranked)


def method_differences(
    methods: Mapping[str, Measurements], pairs: Iterable[tuple[str, str]], limits: Limits = UNLIMITED
) -> dict[tuple[str, str], Interval]:
    """The difference of each pair of methods over replicates and images, tested as `compare_methods` says."""
    by_replicate = [method.by_replicate for method in methods.values()]
    several = len(methods) > 2 and len(by_replicate[0]) > 1
    parts, names = components(np.stack(by_replicate)) if several else None, list(methods)

    def symmetric(first: str, second: str) -> Interval:
        gap = methods[first] - methods[second]
        if parts is None:
            return gap.interval()
        over_replicates = gap.by_replicate
        variance, df = pair_variance(parts, over_replicates, (names.index(first), names.index(second)))
        shared = int(np.isfinite(over_replicates).sum())
        return _noted(gap.interval((float(variance), float(df))), float(variance), parts, shared)

    return {pair: with_surplus(symmetric(*pair), methods[pair[0]], methods[pair[1]], limits) for pair in pairs}


def gains(table: pd.DataFrame, pairs: Sequence[tuple[str, str]], sign: int) -> pd.DataFrame:
    """How much better the first of each pair is than the second, one row per pair.

    `table` holds areas, estimators by seeds; `sign` is 1 where larger is better. The variance is that of the study's
    comparisons (`compare_rows`), and p is adjusted by Holm over the pairs. `better` and `worse` are decided at 5 %; a
    pair that is neither cannot be told.

    >>> table = pd.DataFrame([[.9, .8, .85], [.7, .61, .64]], index=["random", "grad"])
    >>> gains(table, [("grad", "random")], -1)[["gain", "better"]].round(3).to_numpy().tolist()
    [[0.2, True]]
    """
    differences = compare_rows({str(name): row.to_numpy(dtype=float) for name, row in table.iterrows()}, pairs)
    rows = []
    for (first, second), one in differences.items():
        signed = one if sign > 0 else -one
        rows.append((first, second, one.n, signed.value, signed.low, signed.high, one.p))
    result = pd.DataFrame(rows, columns=["first", "second", "n", "gain", "low", "high", "p"])
    result["p_holm"] = holm(result["p"].to_numpy())
    side = sides(result["gain"], result["p_holm"])
    return result.assign(better=side > 0, worse=side < 0)


def comparison_table(
    pairs: Pairs, higher_is_better: bool, of: str, alpha: float = ALPHA, unranked: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """The pairs of one protocol or metric with the better method first, and Holm's correction over all of them.

    `of` says what is paired: "replicates" or "images"; `unranked` why a method is not ranked: its pairs have no
    verdict and do not count in the correction.
    """
    why = unranked or {}
    frame = pd.DataFrame([_row(*pair, d, higher_is_better) for pair, d in pairs.items()], columns=[*COLUMNS])
    reasons = [why.get(row.better) or why.get(row.worse) or "" for row in frame.itertuples()]
    return _with_verdicts(frame, of, alpha, reasons)


def comparisons_with(frame: pd.DataFrame, name: str, of: str, alpha: float = ALPHA) -> pd.DataFrame:
    """The pairs of one method, corrected over these alone: for a question that was asked beforehand.

    >>> frame = pd.DataFrame({"better": ["a", "a", "b"], "worse": ["b", "c", "c"], "p": [0.02, 0.3, 0.4],
    ...     "ranked": True, "verdict": "", "n": 5, "replicates": 5})
    >>> comparisons_with(frame, "a", "replicates")[["worse", "p_holm", "verdict"]].values.tolist()
    [['b', 0.04, 'a better'], ['c', 0.3, 'cannot tell with 5 replicates']]
    """
    own = frame[(frame["better"] == name) | (frame["worse"] == name)]
    if own.empty:
        known = ", ".join(dict.fromkeys([*frame["better"], *frame["worse"]]))
        raise BadInput(f"There is no {name!r} to compare with; there are {known or 'no pairs'}.")
    reasons = [("" if row.ranked else row.verdict) for row in own.itertuples()]
    return _with_verdicts(own.reset_index(drop=True), of, alpha, reasons)


def comparisons_at(frame: pd.DataFrame, of: str, alpha: float) -> pd.DataFrame:
    """The pairs of one protocol or metric with their verdicts at another error rate, e.g. that of an interim analysis.

    >>> frame = pd.DataFrame({"better": ["a"], "worse": ["b"], "p": [0.03], "ranked": True, "verdict": "a better",
    ...     "n": 64, "replicates": 1})
    >>> comparisons_at(frame, "images", 0.05 / 3)["verdict"].item()
    'cannot tell with 64 images'
    """
    reasons = [("" if row.ranked else row.verdict) for row in frame.itertuples()]
    return _with_verdicts(frame.reset_index(drop=True), of, alpha, reasons)


def pairs_sentence(frame: pd.DataFrame, of: str) -> str:
    """Who beats most others, and how many pairs are decided; `of` says what was paired."""
    if "ranked" in frame:  # methods that are not ranked are not compared
        frame = frame[frame["ranked"].astype(bool)]
    if frame.empty:
        return "no two methods could be compared"
    methods = len({*frame["better"], *frame["worse"]})
    n, total = int(frame["n"].max()), len(frame)
    basis = f"with {counted(n, of.removesuffix('s'))}"
    replicates = int(frame["replicates"].max())
    if of != "replicates" and replicates > 1:
        basis = f"with {replicates} replicates of {n} {of}"
    wins = frame.loc[frame["side"] == 1, "better"].value_counts(sort=False)
    if wins.empty:
        pairs = f"Holm over {total} pairs" if total > 1 else "one pair"
        return f"no two of {methods} methods can be told apart {basis} ({pairs})"
    others = f"{wins.max()} of {methods - 1} other methods" if methods > 2 else "the other method"
    most = [str(name) for name in wins.index[wins == wins.max()]]
    who = f"{series(most)} {'beats' if len(most) == 1 else 'each beat'}"
    if len(most) > 3:
        who = f"{len(most)} methods each beat"
    return f"{who} {others}; {wins.sum()} of {total} pair{'s' * (total > 1)} decided {basis} (Holm over the pairs)"


def _row(first: str, second: str, difference: Interval, higher_is_better: bool) -> dict[str, object]:
    """The better method first; Holm and the verdict come over all rows."""
    swap = difference.value < 0 if higher_is_better else difference.value > 0
    better, worse, d = (second, first, -difference) if swap else (first, second, difference)
    return {"better": better, "worse": worse, "difference": d.value, **{name: getattr(d, name) for name in _FIELDS}}


def _with_verdicts(frame: pd.DataFrame, of: str, alpha: float, reasons: Sequence[str]) -> pd.DataFrame:
    """Holm over the rows that have no reason against them, and the verdict in words."""
    ranked = np.array([not reason for reason in reasons], dtype=bool)
    adjusted = holm(np.where(ranked, frame["p"].to_numpy(dtype=float), np.nan))
    side = (adjusted <= alpha).astype(int)
    verdicts = [
        reason or (f"{row.better} better" if decided else _unclear(int(row.n), int(row.replicates), of))
        for row, decided, reason in zip(frame.itertuples(), side, reasons, strict=True)
    ]
    return frame.assign(p_holm=adjusted, verdict=pd.Series(verdicts, dtype=object), side=side, ranked=ranked)


def _unclear(n: int, replicates: int, of: str) -> str:
    if of == "replicates" or replicates < 2:
        return f"cannot tell with {counted(n, of.removesuffix('s'))}"
    return f"cannot tell with {replicates} replicates and {n} images"
