"""How much of the ranking is blurriness? (Song et al., Figures 6 to 10)"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pandas as pd
import scipy
from pydantic import Field

from uproar.audits.blur import Filters, left_out, plain_names, squared
from uproar.audits.registry import Evidence, StudyEvidence, audit, conclude, lines, scatter, unique_names
from uproar.errors import NotApplicable
from uproar.protocols import protocol_named
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.correlation import partial_spearman, spearman
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import mean_interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

MAPS, ROAD = "total_variation", "road"
MASKS = ("masks", "total variation of the removed masks")
LEAST = 5
"""Estimators through which a line can be judged."""
SPREAD = 1e-9
"""Means closer than this count as equal."""
HALF = 0.5
"""Share of the differences from which blurriness counts as the main cause."""


def _studies(study: Study, *, protocol: str, squares: bool, sigma: float, size: int) -> Mapping[str, Study]:
    """The study's estimators as they are and squared, plain and filtered, with the variation of their maps."""
    plain = plain_names(study)
    if len(plain) < LEAST:
        raise NotApplicable(
            f"{counted(len(plain), 'unfiltered estimator')} with random are too few for a line; use at least {LEAST}"
        )
    bases = unique_names(plain, list(squared(plain).values()) if squares else [])
    filters = Filters(sigma, size)
    names = unique_names(bases, [name for one in bases for name in filters.named(one).values()])
    return {"filtered": study.with_changes(estimators=names, protocols=(protocol,), metrics=(MAPS, ROAD))}


@audit(
    title="Variation",
    question="How much of the ranking of the estimators is the blurriness of their maps?",
    studies=_studies,
    paper="Song et al., Figures 6 to 10",
    needs=f"at least {LEAST} unfiltered estimators, random included",
)
def variation(
    evidence: Evidence,
    *,
    protocol: Literal["roar", "kar"] = "roar",
    squares: bool = True,
    sigma: Annotated[float, Field(gt=0)] = 1.0,
    size: Annotated[int, Field(ge=3)] = 3,
) -> Finding:
    """Total variation of the removed masks and of the maps against accuracy, estimator by estimator.

    The verdict rests on the masks, since nothing else of a map reaches the retrained network.
    """
    part, filters = evidence["filtered"], Filters(sigma, size)
    plain = plain_names(evidence.study)
    points = _points(part, protocol, plain, squares, filters)
    fitted = fits(points)
    whole = fitted[(fitted["fraction"] == "all") & (fitted["of"] == "masks") & (fitted["set"] == "as they are")]
    if whole.empty or not math.isfinite(whole["r2"].iloc[0]):
        raise NotApplicable(
            f"fewer than {LEAST} estimators differ in variation and accuracy; see the report's list of problems"
        )
    line = whole.iloc[0]
    sign = protocol_named(protocol).direction
    ranked = adjusted(points, sign)
    beside = _beside(points, part.metric_values(ROAD))
    return Finding(
        state(line, sign),
        _sentence(line, ranked, protocol, sign),
        plots=(*_scatters(points, fitted, protocol), *_trajectories(points, protocol)),
        tables={
            "accuracy against total variation": fitted,
            "ranking before and after taking variation out": ranked,
            "agreement of the ranking with ROAD": beside,
            "points": _means(points),
        },
        notes=(
            "Masks: mean size of the steps between neighbours in the masks of removed test pixels; maps: the same in "
            "the maps of test images, each scaled to [0, 1]. Low is blurry.",
            "A line through estimators shows that accuracy and blurriness go together, not which causes which; the "
            "filtered versions of one estimator (trajectories) come nearer to that.",
            *left_out(evidence.study),
        ),
    )


def mask_variation(removed: np.ndarray) -> float:
    """Mean over images and pixels of |right difference| + |down difference| of masks, (n, [c,] h, w)."""
    a = removed.astype(np.int8)
    steps = np.abs(np.diff(a, axis=-1)).sum() + np.abs(np.diff(a, axis=-2)).sum()
    return float(steps / a.size)


def _points(part: StudyEvidence, protocol: str, plain: Sequence[str], squares: bool, filters: Filters) -> pd.DataFrame:
    """One row per estimator as it is or squared, filter, fraction and seed: accuracy and variation.

    Plain training has no mask and is left out.
    """
    sets = {"as they are": {name: name for name in plain}}
    if squares:
        sets["squared"] = sets["as they are"] | squared(plain)
    maps = part.metric_values(MAPS)
    measured = {
        name: [
            {
                "fraction": t,
                "seed": seed,
                "accuracy": curve.loc[seed, t],
                "masks": mask_variation(part.removed(name, seed, t)),
                "maps": maps.loc[name, seed] if name in maps.index and seed in maps else math.nan,
            }
            for t in part.study.fractions
            if t in curve.columns and 0 < t < 1
            for seed in curve.index
        ]
        for name, curve in part.curves(protocol).items()
    }
    rows = [
        {"set": which, "estimator": name, "kind": kind, "chain": chain, **point}
        for which, members in sets.items()
        for name, base in members.items()
        for kind, chain in {"plain": base, **filters.named(base)}.items()
        for point in measured.get(chain, ())
    ]
    return pd.DataFrame(rows)


def _plain(points: pd.DataFrame) -> pd.DataFrame:
    """The unfiltered estimators as they are."""
    return points[(points["kind"] == "plain") & (points["set"] == "as they are")]


def _wide(points: pd.DataFrame, column: str) -> pd.DataFrame:
    """A column by estimator and seed, mean over fractions; estimators that lack a seed are left out."""
    return points.pivot_table(index="estimator", columns="seed", values=column, sort=False).dropna()


def fits(points: pd.DataFrame) -> pd.DataFrame:
    """The line of accuracy over variation through the unfiltered estimators, for each fraction and for their mean.

    `r2` is the share of the differences between estimators that the line explains, with Fisher's interval over
    estimators; `p` is that of the slope.
    """
    rows = []
    for which, group in points[points["kind"] == "plain"].groupby("set", sort=False):
        parts = {**dict(list(group.groupby("fraction"))), "all": group}
        for (fraction, some), of in itertools.product(parts.items(), ("masks", "maps")):
            x, y = _wide(some, of), _wide(some, "accuracy")
            both = x.index.intersection(y.index)
            if len(both) >= LEAST and x.columns.tolist() == y.columns.tolist():
                a, b = x.loc[both].to_numpy(), y.loc[both].to_numpy()
                rows.append({"set": which, "fraction": fraction, "of": of, "estimators": len(both), **_fit(a, b)})
    columns = ["set", "fraction", "of", "estimators", "slope", "r2", "low", "high", "p", "tau"]
    return pd.DataFrame(rows, columns=columns)


def _fit(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The line through the means over replicates of (estimators, replicates)."""
    x, y = x.mean(1), y.mean(1)
    if min(np.ptp(x), np.ptp(y)) <= SPREAD:
        return dict.fromkeys(("slope", "r2", "low", "high", "p", "tau"), math.nan)
    line, correlation = scipy.stats.linregress(x, y), scipy.stats.pearsonr(x, y)
    ends = correlation.confidence_interval()
    low = 0.0 if ends.low < 0 < ends.high else min(ends.low**2, ends.high**2)
    fit = {"slope": line.slope, "r2": line.rvalue**2, "low": low, "high": max(ends.low**2, ends.high**2)}
    return fit | {"p": line.pvalue, "tau": float(scipy.stats.kendalltau(x, y).statistic)}


def state(line: pd.Series, sign: int) -> State:
    """Misled if blurrier maps score better, more than chance would have it, and that is half of the differences."""
    favours_blur = line["slope"] * sign < 0
    explains = line["p"] < 0.05 and line["r2"] >= HALF
    return conclude(misleads=bool(favours_blur and explains), holds=bool(line["high"] < HALF))


def adjusted(points: pd.DataFrame, sign: int) -> pd.DataFrame:
    """Ranks of the unfiltered estimators, before and after the line over the masks' variation is taken out.

    `left` is what remains of the accuracy, mean over replicates, `low` and `high` its 95 % interval over replicates.
    """
    accuracy, masks = (_wide(_plain(points), column) for column in ("accuracy", "masks"))
    both = accuracy.index.intersection(masks.index)
    y, x = accuracy.loc[both].to_numpy().T, masks.loc[both].to_numpy().T
    left = np.array([_residuals(*columns) for columns in zip(x, y, strict=True)])
    intervals = [mean_interval(values) for values in left.T]
    columns = {"estimator": list(both), "accuracy": y.mean(0), "variation of masks": x.mean(0)}
    columns |= {"rank": scipy.stats.rankdata(-sign * y.mean(0)), "left": left.mean(0)}
    columns |= {end: [getattr(interval, end) for interval in intervals] for end in ("low", "high")}
    columns |= {"rank after": scipy.stats.rankdata(-sign * left.mean(0))}
    return pd.DataFrame(columns).sort_values("rank after", ignore_index=True)


def _residuals(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What is left of y when the least-squares line over x is taken out."""
    slope = scipy.stats.linregress(x, y).slope if np.ptp(x) > 0 else 0.0
    return np.asarray(y - y.mean() - slope * (x - x.mean()))


def _beside(points: pd.DataFrame, road: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of the ranking with ROAD's, and what is left of it when variation is taken out of both."""
    columns = ["spearman", "partial spearman given variation", "estimators"]
    accuracy, masks = (_wide(_plain(points), c).mean(axis=1) for c in ("accuracy", "masks"))
    both = [name for name in accuracy.index if name in road.index and name in masks.index]
    if len(both) < LEAST:
        return pd.DataFrame(columns=columns)
    ranked, other = accuracy[both], road.loc[both].mean(axis=1)
    row = (spearman(ranked, other), partial_spearman(ranked, other, masks[both]), len(both))
    return pd.DataFrame([row], columns=columns)


def _sentence(line: pd.Series, ranked: pd.DataFrame, protocol: str, sign: int) -> str:
    tau = scipy.stats.kendalltau(ranked["rank"], ranked["rank after"]).statistic
    blurry = "blurrier masks score better" if line["slope"] * sign < 0 else "blurrier masks score worse"
    share = f"{100 * line['r2']:.0f} % (95 % interval {100 * line['low']:.0f} to {100 * line['high']:.0f} %)"
    return (
        f"The variation of the removed masks explains {share} of the differences between {line['estimators']} "
        f"estimators under {protocol.upper()} ({blurry}, p = {line['p']:.2g}); the ranking that is left "
        f"when it is taken out agrees with the original by Kendall's τ = {tau:.2f}."
    )


def _means(points: pd.DataFrame) -> pd.DataFrame:
    keys = ["set", "estimator", "kind", "chain", "fraction"]
    return points.groupby(keys, sort=False)[["accuracy", "masks", "maps"]].mean().reset_index()


def _scatters(points: pd.DataFrame, fits_: pd.DataFrame, protocol: str) -> list[Plot]:
    """One scatter per fraction, of what the verdict rests on: unfiltered estimators, variation of the masks."""
    fitted = fits_[(fits_["of"] == "masks") & (fits_["set"] == "as they are")].set_index("fraction")
    reading = "A point per estimator; left is blurry. Points on the line are ranked by blurriness alone."
    axes, plots = (MASKS, ("accuracy", f"accuracy ({protocol.upper()})"), "estimator"), []
    for t, some in _means(_plain(points)).groupby("fraction"):
        if t in fitted.index:
            r2, low, high = (f"{100 * fitted[name][t]:.0f}" for name in ("r2", "low", "high"))
            title = f"At {100 * t:g} %, blurriness explains {r2} % ({low} to {high} %) of the differences"
            name = f"variation-{100 * t:g}"
            plots.append(scatter(name, title, reading, some, *axes, line=True, percent=True))
    return plots


def _trajectories(points: pd.DataFrame, protocol: str) -> list[Plot]:
    """How accuracy moves with variation from plain to max to Gaussian, at the middle fraction."""
    mean = _means(points)
    fractions = sorted(mean["fraction"].unique())
    middle = fractions[len(fractions) // 2]
    reading = "A path per estimator: plain, max-filtered, Gaussian-filtered; a path down to the left gains by blur."
    axes, plots = (MASKS, ("accuracy", f"accuracy ({protocol.upper()})"), "estimator"), []
    for which, some in mean[mean["fraction"] == middle].groupby("set", sort=False):
        same, moved = together(some[some["estimator"] != BASELINE])
        title = f"Filtering moves variation and accuracy the same way in {same} of {moved} estimators "
        title += f"({which}, {100 * middle:g} %)"
        name = f"variation-paths-{'squared' if which == 'squared' else 'plain'}"
        plots.append(lines(name, title, reading, some, *axes, percent=True))
    return plots


def together(points: pd.DataFrame) -> tuple[int, int]:
    """In how many estimators the mean filtered version has moved variation and accuracy in the same direction."""
    moved = same = 0
    for _, path in points.groupby("estimator", sort=False):
        plain = path[path["kind"] == "plain"]
        rest = path[path["kind"] != "plain"]
        if len(plain) and len(rest):
            steps = [rest[c].mean() - plain[c].mean() for c in ("masks", "accuracy")]
            moved += 1
            same += int(steps[0] * steps[1] > 0)
    return same, moved
