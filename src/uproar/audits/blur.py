"""Do maps score better after a filter that cannot add information? (Song et al., Figures 4 and 5)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from uproar.audits.registry import OWN, Evidence, Style, audit, conclude, heat_map, unique_names
from uproar.errors import NotApplicable
from uproar.estimators import Chain, read_chain
from uproar.expression import Call, parse
from uproar.metrics.retraining import retraining_named
from uproar.results.finding import Finding, Mark, Plot, State
from uproar.statistics.comparisons import corrected, paired
from uproar.statistics.design import BASELINE
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

SMOOTH_CONTROL = "random_blurred"
SQUARES = ("sq", "sg_sq", "var")
"""Transforms whose maps are squares already."""


@dataclass(frozen=True)
class Filters:
    """A Gaussian and a maximum filter with their sizes."""

    sigma: float = 1.0
    size: int = 3

    def named(self, name: str) -> dict[str, str]:
        """The names of a filtered estimator by filter.

        >>> Filters().named("grad")
        {'max': 'max(grad)', 'gaussian': 'gaussian(grad)'}
        """
        inner = parse(name)
        calls = {
            "max": Call("max", (inner,), (("size", self.size),)),
            "gaussian": Call("gaussian", (inner,), (("sigma", float(self.sigma)),)),
        }
        return {kind: read_chain(str(call)).name for kind, call in calls.items()}


def plain_names(study: Study) -> tuple[str, ...]:
    """The estimators that can be filtered and are not yet; refused where the random ranking is the only one."""
    names = tuple(chain.name for chain in study.chains if _plain(chain))
    if len(names) < 2:
        raise NotApplicable(
            f"none of {', '.join(study.estimators)} is a plain map that can be filtered; add one, e.g. grad"
        )
    return names


def left_out(study: Study) -> tuple[str, ...]:
    """Why some estimators were not filtered, a sentence each."""
    why = {
        chain.name: "it removes without a map to filter" if chain.is_direct else "it is smooth already"
        for chain in study.chains
        if not _plain(chain)
    }
    return tuple(f"{name} was left out: {reason}." for name, reason in why.items())


def _plain(chain: Chain) -> bool:
    return not (chain.filters or chain.is_direct or chain.name.startswith(SMOOTH_CONTROL))


ROAD = "road"
Sigma = Annotated[float, Field(gt=0)]
Size = Annotated[int, Field(ge=3)]


def _studies(study: Study, *, metric: str, sigma: float, size: int, road: bool, **_: object) -> Mapping[str, Study]:
    """The study's estimators plain and filtered, and blurred random, under the metric and ROAD."""
    plain = plain_names(study)
    filters = Filters(sigma, size)
    filtered = [name for estimator in plain for name in filters.named(estimator).values()]
    names = unique_names(plain, [*filtered, SMOOTH_CONTROL])
    return {"filtered": study.with_changes(estimators=names, metrics=(metric, ROAD) if road else (metric,))}


@audit(
    title="Blur",
    question="Do maps score better after a filter that cannot add information about the model?",
    studies=_studies,
    paper="Song et al., Figures 4 and 5",
    needs="at least 2 seeds and one unfiltered estimator beside random",
)
def blur(
    evidence: Evidence,
    *,
    metric: Literal["roar", "kar"] = "roar",
    sigma: Sigma = 1.0,
    size: Size = 3,
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.01,
    road: bool = True,
) -> Finding:
    """Every estimator plain, max-filtered and Gaussian-filtered; random with the same filters is the control.

    `holds` needs every gain to be below `margin` with 95 % confidence; `road=false` saves the time of ROAD.
    """
    filtered, filters, sign = evidence["filtered"], Filters(sigma, size), retraining_named(metric).direction
    plain = plain_names(evidence.study)
    table = filtered.areas(metric)
    gained = filter_gains(table, plain, filters, sign)
    road_gained = filter_gains(filtered.metric_values(ROAD), plain, filters, -1)
    if gained.empty or BASELINE not in table.index:
        raise NotApplicable("no estimator is finished both plain and filtered; see the report's list of problems")
    controls = control_gains(table, filters, sign)
    tables = {f"gain by filtering, {metric} (mean over the curve)": gained}
    curves = {name: curve.mean() for name, curve in filtered.curves(metric).items()}
    fractions = filtered.study.fractions
    counts: dict[str, Count] = {metric: Count.of(gained)}
    plots = [_differences(metric, curves, fractions, plain, filters, counts[metric], sign < 0)]
    if len(road_gained):
        tables["gain by filtering, road (area)"], counts[ROAD] = road_gained, Count.of(road_gained)
        shares, curves = filtered.axis(ROAD), {}
        for name in filtered.metric_values(ROAD).dropna().index:
            by_seed = [np.nanmean(filtered.responses(ROAD, name, s)["curve"], 0) for s in filtered.study.seeds]
            curves[name] = pd.Series(np.mean(by_seed, 0), index=shares)
        common = set(shares) & set(fractions)
        shown = [t for t in shares if 0 < t < 1 and (t in common or not common)]
        plots.append(_differences(ROAD, curves, shown, plain, filters, counts[ROAD], True))
    helped = " and ".join(f"{count} under {judge.upper()}" for judge, count in counts.items())
    sentence = f"A filter that cannot add information improves {helped}"
    if len(controls):
        best = controls.loc[controls["gain"].idxmax()]
        sentence += f"; smoothness alone ({best['first']}) gains {_in_points(best)} points on random"
    return Finding(
        state(gained, controls, margin),
        f"{sentence} ({counted(table.shape[1], 'replicate')}, Holm at 5 %).",
        plots=tuple(plots),
        tables={**tables, "controls": controls},
        marks=marks(evidence[OWN].verdicts(metric), table, filters, controls, metric, sign),
        notes=(
            "Gain is positive where the filtered map is better; the filters see the finished map alone, so what they "
            "gain was not learned from the model.",
            *left_out(evidence.study),
        ),
    )


def filter_gains(table: pd.DataFrame, plain: Sequence[str], filters: Filters, sign: int) -> pd.DataFrame:
    """What each filter gains for each estimator that has both curves; Holm over all, the random ranking left out."""
    chosen = {
        (done, name): kind
        for name in plain
        for kind, done in filters.named(name).items()
        if name != BASELINE and name in table.index and done in table.index
    }
    if not chosen:
        return pd.DataFrame()
    result = gains(table, list(chosen), sign)
    result = result.rename(columns={"first": "filtered", "second": "estimator"})
    result.insert(1, "filter", list(chosen.values()))
    return result


def gains(table: pd.DataFrame, pairs: Sequence[tuple[str, str]], sign: int) -> pd.DataFrame:
    """How much better the first of each pair is than the second; `table` holds areas, estimators by seeds."""
    frame = corrected(paired(table.T, pairs, sign > 0)).rename(columns={"difference": "gain"})
    frame = frame[["first", "second", "n", "gain", "low", "high", "p", "p_holm", "side"]]
    return frame.assign(better=frame["side"] > 0, worse=frame.pop("side") < 0)


def control_gains(table: pd.DataFrame, filters: Filters, sign: int) -> pd.DataFrame:
    """What smoothness alone gains: random rankings with the same filters, and random blobs, against random."""
    names = [*filters.named(BASELINE).values(), SMOOTH_CONTROL]
    pairs = [(name, BASELINE) for name in names if name in table.index]
    return gains(table, pairs, sign) if pairs else pd.DataFrame(columns=["first", "gain", "better", "high"])


def state(gained: pd.DataFrame, controls: pd.DataFrame, margin: float) -> State:
    """Misled by any decided gain; sound if no gain can be as large as the margin."""
    both = pd.concat([gained[["better", "high"]], controls[["better", "high"]]])
    return conclude(misleads=bool(both["better"].any()), holds=bool((both["high"] < margin).all()))


@dataclass(frozen=True)
class Count:
    """How many estimators a filter helps, harms, or neither as far as can be told."""

    better: int
    worse: int
    total: int

    @classmethod
    def of(cls, gained: pd.DataFrame) -> Count:
        """An estimator is helped if one of its filters is significantly better, harmed if only worse ones are."""
        by = gained.groupby("estimator", sort=False)[["better", "worse"]].any()
        return cls(int(by["better"].sum()), int((by["worse"] & ~by["better"]).sum()), len(by))

    def __str__(self) -> str:
        rest = self.total - self.better - self.worse
        return f"{self.better} of {counted(self.total, 'estimator')} ({self.worse} get worse, {rest} cannot be told)"


def _in_points(row: pd.Series, column: str = "gain") -> str:
    """A difference in hundredths with half the width of its interval, e.g. `-3.1 ± 0.4`."""
    return f"{100 * row[column]:.1f} ± {50 * (row['high'] - row['low']):.1f}"


def marks(
    verdicts: pd.DataFrame, table: pd.DataFrame, filters: Filters, controls: pd.DataFrame, metric: str, sign: int
) -> tuple[Mark, ...]:
    """Verdicts of the study that smoothness explains: matched by a smooth random ranking, or turned by a filter."""
    better, worse = ([e for e in verdicts.index[verdicts["side"] == side] if e in table.index] for side in (1, -1))
    reasons: dict[str, str] = {}
    smooth = controls[controls["better"].astype(bool)]
    if better and len(smooth):
        control = str(smooth.loc[smooth["gain"].idxmax(), "first"])
        ahead = gains(table, [(name, control) for name in better], sign)
        for _, row in ahead[~ahead["better"]].iterrows():
            advantage = _in_points(verdicts.loc[row["first"]], "advantage")
            reasons[row["first"]] = (
                f"{advantage} points better than random, but {_in_points(row)} than {control}, which knows nothing"
            )
    versions = {f: name for name in worse for f in filters.named(name).values() if f in table.index}
    if versions:
        turned = gains(table, [(f, BASELINE) for f in versions], sign)
        turned = turned[turned["better"]]
        best = turned.loc[turned.groupby(turned["first"].map(versions), sort=False)["gain"].idxmax()]
        for _, row in best.iterrows():
            reasons[versions[row["first"]]] = (
                f"worse than random, but {row['first']} is {_in_points(row)} points better"
            )
    return tuple(Mark(metric, name, "explained by blur", why) for name, why in reasons.items())


def _differences(
    judge: str,
    mean: Mapping[str, pd.Series],
    fractions: Sequence[float],
    plain: Sequence[str],
    filters: Filters,
    rated: Count,
    lower_is_better: bool,
) -> Plot:
    """Accuracy by share of pixels (index of the series), filtered minus plain."""
    rows = [
        {"estimator": name, "filter at share": f"{kind} {100 * t:g} %", "difference": mean[done][t] - mean[name][t]}
        for t in fractions
        for name in plain
        for kind, done in filters.named(name).items()
        if name in mean and done in mean and t in mean[name] and t in mean[done]
    ]
    reading = (
        "Accuracy with the filtered map minus with the plain one, in points, by share of pixels: magenta is lower, "
        f"cyan higher; {'lower' if lower_is_better else 'higher'} is better for the map."
    )
    title = f"Filters improve {rated.better} of {rated.total} estimators under {judge.upper()}"
    axes = (("filter at share", "filter and share of pixels"), ("estimator", ""))
    style: Style = {"value": "difference", "changes": True, "percent": True}
    return heat_map(f"blur-{judge}", title, reading, pd.DataFrame(rows), *axes, **style)
