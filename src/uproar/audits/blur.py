"""Do maps score better after a filter that cannot add information? (Song et al., Figures 4 and 5)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from uproar.audits.base import OWN, Evidence, Part, audit, merged
from uproar.audits.filtered import SMOOTH_CONTROL, Filters, left_out, plain_names
from uproar.audits.rankings import (
    areas,
    check_seeds,
    curves,
    direction,
    gains,
    in_points,
    metric_areas,
    several,
    verdicts,
)
from uproar.errors import NotApplicable
from uproar.results.finding import Finding, Mark, Plot, State
from uproar.statistics.design import BASELINE

if TYPE_CHECKING:
    from uproar.study.spec import Study

ROAD = "road"
Sigma = Annotated[float, Field(gt=0)]
Size = Annotated[int, Field(ge=3)]
Margin = Annotated[float, Field(gt=0, lt=1)]


def _studies(study: Study, *, protocol: str, sigma: float, size: int, road: bool, **_: object) -> Mapping[str, Study]:
    """The study's estimators plain and filtered, and blurred random, under the protocol and ROAD."""
    plain = plain_names(study)
    filters = Filters(sigma, size)
    filtered = [name for one in plain for name in filters.named(one).values()]
    names = merged(plain, [*filtered, SMOOTH_CONTROL])
    return {"filtered": study.with_changes(estimators=names, protocols=(protocol,), metrics=(ROAD,) if road else ())}


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
    protocol: Literal["roar", "kar"] = "roar",
    sigma: Sigma = 1.0,
    size: Size = 3,
    margin: Margin = 0.01,
    road: bool = True,
) -> Finding:
    """Every estimator plain, max-filtered and Gaussian-filtered; random with the same filters is the control.

    `holds` needs every gain to be below `margin` with 95 % confidence; `road=false` saves the time of ROAD.
    """
    part, filters, sign = evidence["filtered"], Filters(sigma, size), direction(protocol)
    plain = plain_names(evidence.study)
    found = curves(part, protocol, part.estimators)
    table = areas(found)
    check_seeds(table)
    gained = filter_gains(table, plain, filters, sign)
    road_gained = filter_gains(metric_areas(part, ROAD, part.estimators), plain, filters, -1)
    if gained.empty or BASELINE not in table.index:
        raise NotApplicable("no estimator is finished both plain and filtered; see the report's list of problems")
    rated = Count.of(gained)
    plots = [_heat_map(part, protocol, found, plain, filters, rated, protocol.upper())]
    plots += _road_map(part, plain, filters, road_gained)
    tables = {f"gain by filtering, {protocol} (mean over the curve)": gained}
    if len(road_gained):
        tables["gain by filtering, road (area)"] = road_gained
    controls = control_gains(table, filters, sign)
    tables["controls"] = controls
    return Finding(
        state(gained, controls, margin),
        _sentence(protocol, rated, road_gained, controls, table.shape[1]),
        plots=tuple(plots),
        tables=tables,
        marks=marks(verdicts(evidence[OWN], protocol), table, filters, controls, protocol, sign),
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


def control_gains(table: pd.DataFrame, filters: Filters, sign: int) -> pd.DataFrame:
    """What smoothness alone gains: random rankings with the same filters, and random blobs, against random."""
    names = [*filters.named(BASELINE).values(), SMOOTH_CONTROL]
    pairs = [(name, BASELINE) for name in names if name in table.index]
    return gains(table, pairs, sign) if pairs else pd.DataFrame(columns=["first", "gain", "better"])


def state(gained: pd.DataFrame, controls: pd.DataFrame, margin: float) -> State:
    """Misled by any decided gain; sound if no gain can be as large as the margin."""
    if gained["better"].any() or controls["better"].any():
        return "misleads"
    highest = pd.concat([gained["high"], controls["high"]])
    return "holds" if bool((highest < margin).all()) else "cannot tell"


class Count:
    """How many estimators a filter helps, harms, or neither as far as can be told."""

    def __init__(self, better: int, worse: int, total: int) -> None:
        self.better, self.worse, self.total = better, worse, total

    @classmethod
    def of(cls, gained: pd.DataFrame) -> Count:
        """An estimator is helped if one of its filters is decidedly better, harmed if only worse ones are."""
        by = gained.groupby("estimator", sort=False)[["better", "worse"]].any()
        return cls(int(by["better"].sum()), int((by["worse"] & ~by["better"]).sum()), len(by))

    def __str__(self) -> str:
        rest = self.total - self.better - self.worse
        return f"{self.better} of {several(self.total, 'estimator')} ({self.worse} get worse, {rest} cannot be told)"


def _sentence(protocol: str, rated: Count, road: pd.DataFrame, controls: pd.DataFrame, n: int) -> str:
    words = f"A filter that cannot add information improves {rated} under {protocol.upper()}"
    words += f" and {Count.of(road)} under ROAD" if len(road) else ""
    if len(controls):
        best = controls.loc[controls["gain"].idxmax()]
        gain = in_points(best["gain"], best["low"], best["high"])
        words += f"; smoothness alone ({best['first']}) gains {gain} points on random"
    return f"{words} ({several(n, 'replicate')}, Holm at 5 %)."


def marks(
    own: pd.DataFrame, table: pd.DataFrame, filters: Filters, controls: pd.DataFrame, protocol: str, sign: int
) -> tuple[Mark, ...]:
    """Verdicts of the study that smoothness explains: matched by a smooth random ranking, or turned by a filter."""
    found: list[Mark] = []
    better = [e for e in own.index if own["verdict"][e].startswith("better") and e in table.index]
    smooth = controls[controls["better"]]
    if better and len(smooth):
        control = str(smooth.loc[smooth["gain"].idxmax(), "first"])
        ahead = gains(table, [(name, control) for name in better], sign)
        for row in ahead[~ahead["better"]].itertuples():
            one = own.loc[row.first]
            over = in_points(one["advantage"], one["low"], one["high"])
            still = in_points(row.gain, row.low, row.high)
            why = f"{over} points better than random, but {still} than {control}, which knows nothing"
            found.append(Mark(protocol, row.first, "explained by blur", why))
    worse = [e for e in own.index if own["verdict"][e].startswith("worse") and e in table.index]
    pairs = [(f, BASELINE) for e in worse for f in filters.named(e).values() if f in table.index]
    turned = gains(table, pairs, sign) if pairs else pd.DataFrame(columns=["first", "better"])
    for name in worse:
        rows = turned[turned["better"].astype(bool) & turned["first"].isin(filters.named(name).values())]
        if len(rows):
            row = rows.loc[rows["gain"].idxmax()]
            gain = in_points(row["gain"], row["low"], row["high"])
            why = f"worse than random, but {row['first']} is {gain} points better"
            found.append(Mark(protocol, name, "explained by blur", why))
    return tuple(found)


def _heat_map(
    part: Part,
    protocol: str,
    found: Mapping[str, pd.DataFrame],
    plain: Sequence[str],
    filters: Filters,
    rated: Count,
    label: str,
) -> Plot:
    rows = [
        {
            "estimator": name,
            "filter at share": f"{kind} {100 * t:g} %",
            "difference": float((found[done][t] - found[name][t]).mean()),
        }
        for t in part.study.fractions
        for name in plain
        for kind, done in filters.named(name).items()
        if name in found and done in found and t in found[name] and t in found[done]
    ]
    good = "lower" if direction(protocol) < 0 else "higher"
    return _differences(
        f"blur-{protocol}", rows, f"Filters improve {rated.better} of {rated.total} estimators under {label}", good
    )


def _road_map(part: Part, plain: Sequence[str], filters: Filters, gained: pd.DataFrame) -> list[Plot]:
    """ROAD's accuracy by share, filtered minus plain; nothing where ROAD is not finished."""
    if gained.empty:
        return []
    rated, shares = Count.of(gained), part.axis(ROAD)
    finished = metric_areas(part, ROAD, part.estimators).dropna().index
    mean = {
        name: np.mean([np.nanmean(part.responses(ROAD, name, s)["curve"], 0) for s in part.study.seeds], 0)
        for name in finished
    }
    rows = [
        {
            "estimator": name,
            "filter at share": f"{kind} {100 * t:g} %",
            "difference": float(mean[done][i] - mean[name][i]),
        }
        for i, t in enumerate(shares)
        if 0 < t < 1 and (t in part.study.fractions or not set(shares) & set(part.study.fractions))
        for name in plain
        for kind, done in filters.named(name).items()
        if name in mean and done in mean
    ]
    title = f"Filters improve {rated.better} of {rated.total} estimators under ROAD"
    return [_differences("blur-road", rows, title, "lower")]


def _differences(name: str, rows: list[dict], title: str, good: str) -> Plot:
    return Plot(
        name,
        "heatmap",
        title,
        "Accuracy with the filtered map minus with the plain one, in points, by share of pixels: magenta is lower, "
        f"cyan higher; {good} is better for the map.",
        pd.DataFrame(rows),
        "filter at share",
        "estimator",
        "filter and share of pixels",
        "",
        value="difference",
        changes=True,
        percent=True,
    )
