"""Do metrics see the values of a map, or only its order? (Li et al., section 5.2 and Table 1)"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pandas as pd
import scipy
import torch
from numpy.typing import NDArray
from pydantic import Field

from uproar.audits.registry import Evidence, StudyEvidence, Style, audit, bars, conclude, lines, unique_names
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.expression import Call, parse
from uproar.metrics.registry import metrics, read_metric
from uproar.metrics.soundness import Rule, sound_curve
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.intervals import Interval, replicated_interval

if TYPE_CHECKING:
    from uproar.study.spec import Study

Points = NDArray[np.float64]

RESAMPLES = 40
"""Resamples of the images for the interval of a distance."""
SCHEMES = ("constant", "random", "partial")


def changed_chains(estimator: str, scheme: str, clip: bool) -> dict[str, str]:
    """The chains of the plain map, of it with values removed and with values introduced."""
    options = tuple(sorted(({"scheme": scheme} | ({} if clip else {"clip": False})).items()))
    changes = {"removed": "remove_values", "introduced": "introduce_values"}
    changed = {name: read_chain(str(Call(how, (parse(estimator),), options))).name for name, how in changes.items()}
    return {"plain": estimator, **changed}


def variants() -> Iterator[tuple[str, bool]]:
    """The schemes, each cut to [0, 1] or not; setting pixels to values of the map leaves nothing to cut."""
    for scheme in SCHEMES:
        yield scheme, True
        if scheme != "partial":
            yield scheme, False


class ChangedCurves:
    """The curves of a metric for maps and for the same maps with values removed and introduced."""

    def __init__(self, evidence: StudyEvidence) -> None:
        self.evidence = evidence
        self._responses = functools.cache(evidence.responses)
        self._call, self._chains = functools.cache(read_metric), functools.cache(changed_chains)

    def table(self, estimators: Sequence[str]) -> pd.DataFrame:
        """The smallest distance of the three curves by metric, estimator, scheme and replicate.

        `resampled` has the same for resamples of the images, `images` says how many there are.
        """
        study, rows = self.evidence.study, []
        for case in itertools.product(study.metric_names, estimators, variants(), study.seeds):
            metric, estimator, (scheme, clip), seed = case
            curves = self.three(metric, estimator, scheme, clip, seed)
            if curves is None:
                continue
            n = len(self._responses(metric, estimator, seed)["value"])
            samples = resampled_images(n, RESAMPLES, name="distance of curves").numpy()
            drawn = [self.three(metric, estimator, scheme, clip, seed, images) for images in samples]
            resampled = np.array([np.nan if curve is None else least_distance(curve) for curve in drawn])
            rows.append((metric, estimator, scheme, clip, seed, least_distance(curves), n, resampled))
        if not rows:
            raise NotApplicable(
                f"no metric of {' or '.join(estimators)} with values removed and introduced is finished; "
                "name others, e.g. values(estimators=[ig])"
            )
        columns = ["metric", "estimator", "scheme", "clipped", "seed", "distance", "images", "resampled"]
        return pd.DataFrame(rows, columns=columns)

    def three(
        self, metric: str, estimator: str, scheme: str, clip: bool, seed: int, images: NDArray[np.int64] | None = None
    ) -> dict[str, Points] | None:
        """The curves of the plain map, of it with values removed and with values introduced; None if one is missing."""
        chains = self._chains(estimator, scheme, clip)
        try:
            return {name: self.points(metric, chain, seed, images) for name, chain in chains.items()}
        except NotApplicable:
            return None

    def points(self, metric: str, estimator: str, seed: int, images: NDArray[np.int64] | None = None) -> Points:
        """A metric's curve over all test images or a sample of them, (points, 2), in its own units.

        Soundness against the accuracy reached; the others against their fraction or threshold.
        """
        call = self._call(metric)
        responses = self._responses(metric, estimator, seed)
        if images is not None:
            n = len(responses["value"])
            responses = {k: v[images] for k, v in responses.items() if np.ndim(v) and len(v) == n}
        if call.name == "soundness":
            options = metrics[call.name].bind(**dict(call.options))
            tensors = {k: torch.from_numpy(np.array(v)) for k, v in responses.items()}
            across, up = sound_curve(tensors, options["by"], Rule(options["epsilon"]))
            points = np.stack([across.numpy(), up.numpy()], 1)
        else:
            values = responses["curve"].astype(float)
            defined = np.isfinite(responses["value"])
            if not defined.any():
                raise NotApplicable(f"{metric} of {estimator} is defined for no image")
            points = np.stack([np.asarray(self.evidence.axis(metric)), values[defined].mean(0)], 1)
        finite = np.isfinite(points).all(1)
        if not finite.any():
            raise NotApplicable(f"{metric} of {estimator} has no curve")
        return np.asarray(points[finite])


def mean_distance(rows: pd.DataFrame) -> Interval:
    """The mean distance of some rows of one metric, with an interval over replicates and images."""
    by_seed = rows.groupby("seed")["distance"].mean().to_numpy()
    drawn = np.stack(list(rows["resampled"])).mean(0)
    drawn = drawn[np.isfinite(drawn)]
    variance = float(drawn.var(ddof=1)) if len(drawn) > 1 else np.nan
    return replicated_interval(by_seed, variance, int(rows["images"].max())).clipped(0.0, np.inf)


def hausdorff(a: Points, b: Points) -> float:
    """The Hausdorff distance of two sets of points, (n, 2): how far a point of one can be from the other set.

    >>> hausdorff(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.5]]))
    0.5
    """
    between = scipy.spatial.distance.cdist(a, b)
    return float(max(between.min(0).max(), between.min(1).max()))


def least_distance(curves: Mapping[str, Points]) -> float:
    """The smallest Hausdorff distance of any two curves: near 0 where some two lie on each other."""
    return min(hausdorff(a, b) for a, b in itertools.combinations(curves.values(), 2))


ALTERED = "altered"
DISTANCES = "smallest Hausdorff distance by metric"
CUT, ALL = "cut to [0, 1]", "all"
"""Which changes of values a row of that table is over."""
ESTIMATORS = ("grad_cam", "ig")
METRICS = {
    "completeness": "completeness(threshold=absolute)",
    "soundness": "soundness(steps=20)",
    "deletion": "road(fill=mean)",
    "road": "road",
}
"""The four metrics of the paper; its completeness has absolute thresholds, its deletion goes by accuracy, as ROAD does,
with the mean colour."""

BLIND = 0.05
"""Curves nearer than this lie on each other: the paper's order-based metrics have 0.014 and 0.019, the others 0.18 and
more."""


def _studies(study: Study, estimators: Sequence[str], replicates: int) -> Mapping[str, Study]:
    """Maps as they are, with values removed and with values introduced, under the four metrics."""
    names = [read_chain(e).name for e in estimators]
    chains = [c for n in names for scheme, clip in variants() for c in changed_chains(n, scheme, clip).values()]
    metrics = tuple(str(read_metric(m)) for m in METRICS.values())
    seeds = study.seeds[:replicates]
    return {ALTERED: study.with_changes(estimators=unique_names(chains, ()), metrics=metrics, seeds=seeds)}


@audit(
    title="Values of maps",
    question="Do metrics see the values of a map, or only the order of its pixels?",
    studies=_studies,
    paper="Li et al., section 5.2",
    needs="a network that has what the estimators need",
)
def values(
    evidence: Evidence, *, estimators: tuple[str, ...] = ESTIMATORS, replicates: Annotated[int, Field(ge=1)] = 1
) -> Finding:
    """How far apart the curves of maps and of the same maps with values removed and introduced are, by metric."""
    curves = ChangedCurves(evidence[ALTERED])
    names = [read_chain(e).name for e in estimators]
    table = curves.table(names)
    table["metric"] = table["metric"].map(label)
    summary = by_metric(table)
    each = {ALL: summary, CUT: by_metric(table[table["clipped"]])}
    tables = {
        DISTANCES: pd.concat(
            [_summary_table(summary_of_changes).assign(changes=changes) for changes, summary_of_changes in each.items()]
        ),
        "by estimator and scheme": table.drop(columns=["images", "resampled"]),
    }
    plots = (_bars(summary, order_kept(table)), _curves_plot(curves, names[0], summary))
    notes = (
        "Removed: − 0.6, − U(0, 0.6), or a fifth of the pixels set to 0; introduced: + 0.6, + U(0, 0.6), or the "
        "lowest 40 % raised to the 80th percentile; of maps scaled to [0, 1], cut to [0, 1] afterwards or not. Cutting "
        "makes ties, which change the order too.",
        "Curves are sets of points with both axes in their own units; the distance is the smallest Hausdorff distance "
        "among plain, removed and introduced.",
    )
    kept = order_kept(table)
    return Finding(state_of(kept), _sentence(summary, kept), plots=plots, tables=tables, notes=notes)


def label(metric: str) -> str:
    """The metric's name in the paper."""
    return next((k for k, m in METRICS.items() if str(read_metric(m)) == metric), metric)


def by_metric(table: pd.DataFrame) -> dict[str, Interval]:
    """The mean distance of each metric over estimators and schemes, with its interval over replicates and images."""
    return {str(metric): mean_distance(rows) for metric, rows in table.groupby("metric", sort=False)}


def order_kept(table: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Smallest and largest distance of each metric over the changes that leave the order of pixels as it is."""
    same = table[(table["scheme"] == "constant") & ~table["clipped"]]
    return {
        str(metric): (float(group.min()), float(group.max()))
        for metric, group in same.groupby("metric", sort=False)["distance"]
    }


def _blind(kept: Mapping[str, tuple[float, float]]) -> list[str]:
    return [metric for metric, (_, high) in kept.items() if high < BLIND]


def state_of(kept: Mapping[str, tuple[float, float]]) -> State:
    """Misleads where some metric has one curve for all maps of one order; holds where each always has several."""
    return conclude(misleads=bool(_blind(kept)), holds=bool(kept) and all(low > BLIND for low, _ in kept.values()))


def _summary_table(summary: Mapping[str, Interval]) -> pd.DataFrame:
    rows = []
    for metric, mean in summary.items():
        row = mean.as_row("distance", with_n=True)
        rows.append({"metric": metric, **row, "replicates": mean.replicates, "df": mean.df})
    return pd.DataFrame(rows)


def _sentence(summary: Mapping[str, Interval], kept: Mapping[str, tuple[float, float]]) -> str:
    blind, sees = _blind(kept), [metric for metric, (low, _) in kept.items() if low > BLIND]
    listed = ", ".join(f"{k} {m}" for k, m in summary.items())
    if blind:
        highest = max(kept[k][1] for k in blind)
        start = (
            f"{' and '.join(blind)} cannot distinguish maps that differ in values and not in order (curves at most "
            f"{highest:.3f} apart)" + (f", {' and '.join(sees)} can" if sees else "")
        )
    elif sees and len(sees) == len(kept):
        start = f"{' and '.join(sees)} distinguish maps that differ in values and not in order"
    else:
        start = "It is not clear which metrics distinguish maps that differ in values and not in order"
    return f"{start}; over all schemes the smallest distance of curves is {listed}."


def _bars(summary: Mapping[str, Interval], kept: Mapping[str, tuple[float, float]]) -> Plot:
    blind = _blind(kept)
    title = f"{' and '.join(blind).capitalize()} do not see values" if blind else "No metric clearly ignores values"
    reading = (
        "Smallest distance between the curves of a map, of it with values removed and with values introduced; near "
        "0 the metric cannot distinguish them."
    )
    axes = (("metric", "metric"), ("distance", "Hausdorff distance"))
    style: Style = {"reference": (BLIND, "same curve")}
    return bars("values-distance", title, reading, _summary_table(summary), *axes, band=True, **style)


def _curves_plot(curves: ChangedCurves, estimator: str, summary: Mapping[str, Interval]) -> Plot:
    """The curves of the metric that distinguishes maps best."""
    best, study = max(summary, key=lambda k: summary[k].value), curves.evidence.study
    metric = next(m for m in study.metric_names if label(m) == best)
    three = curves.three(metric, estimator, SCHEMES[0], True, study.seeds[0]) or {}
    rows = [(x, y, name) for name, points in three.items() for x, y in points[np.argsort(points[:, 0])]]
    title = f"{best.capitalize()} tells apart what was done to the values of {estimator}"
    reading = "One curve per map; where two lie on each other, the metric does not see what was done to the values."
    across = {"soundness": "accuracy", "completeness": "attribution threshold"}
    axes = (("x", across.get(best, "share of pixels removed")), ("y", best), "map")
    return lines("values-curves", title, reading, pd.DataFrame(rows, columns=["x", "y", "map"]), *axes)
