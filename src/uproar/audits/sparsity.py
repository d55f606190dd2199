"""Do metrics reward a coarse map for being coarse? (Vandersmissen and Oramas, section 4.4)"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from uproar.audits.agreement import advantage, advantage_table
from uproar.audits.registry import Evidence, StudyEvidence, audit, bars, conclude, knows_truth, lines, unique_names
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.expression import Call, parse
from uproar.metrics.registry import read_metric
from uproar.metrics.shape import GRID
from uproar.results.finding import Finding, Plot, State

if TYPE_CHECKING:
    from uproar.study.spec import Study

GRAIN, BLURRED = "grain", "blurred"
DENSITY = "value_density"
METRICS = ("insertion(steps=20)", "deletion(steps=20)", "road", "average_drop", "increase_in_confidence")
POINTING = "pointing_game"
FINE = ("ig", "sg(grad)")
"""The maps that are blurred: as fine as gradients are."""

FEW = 10


def coarsened(estimator: str) -> str:
    """The blurred version of an estimator's map."""
    return str(Call("coarse", (parse(estimator),)))


def _studies(
    study: Study, estimators: Sequence[str], metrics: Sequence[str], replicates: int, margin: float
) -> Mapping[str, Study]:
    """The density of values of all estimators, and the metrics of fine maps, plain and blurred."""
    names = unique_names([str(read_metric(m)) for m in metrics], [POINTING] if knows_truth(study.tasks[0]) else [])
    some = {"protocols": (), "seeds": study.seeds[:replicates]}
    blurred = {name: coarsened(name) for name in _canonical(estimators)}
    everyone = unique_names([chain.name for chain in study.chains], [*blurred, *blurred.values()])
    pairs = tuple(name for pair in blurred.items() for name in pair)
    return {
        GRAIN: study.with_changes(estimators=everyone, metrics=(DENSITY,), **some),
        BLURRED: study.with_changes(estimators=pairs, metrics=names, **some),
    }


def _canonical(estimators: Sequence[str]) -> list[str]:
    return [read_chain(name).name for name in estimators]


@audit(
    title="Sparse and coarse maps",
    question="Do metrics reward a map for being coarse?",
    studies=_studies,
    paper="Vandersmissen and Oramas, section 4.4",
    needs="10 test images",
)
def sparsity(
    evidence: Evidence,
    *,
    estimators: tuple[str, ...] = FINE,
    metrics: tuple[str, ...] = METRICS,
    replicates: Annotated[int, Field(ge=1)] = 3,
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.01,
) -> Finding:
    """How dense each estimator's values are, and what blurring, which adds nothing, does to every metric.

    `holds` needs every gain to be below `margin` with 95 % confidence.
    """
    grain, part = evidence[GRAIN], evidence[BLURRED]
    density = densities(grain)
    effects = blurring(part, _canonical(estimators))
    if not len(effects):
        raise NotApplicable(f"no metric of {' or '.join(_canonical(estimators))} and its blurred version is finished")
    sparse = _sparseness(grain)
    return Finding(
        state_of(effects, margin),
        _sentence(effects, sparse),
        plots=(_density_plot(density, sparse), _effect_plot(effects)),
        tables={
            "effect of blurring, positive = better": effects,
            "mean value in [0, 1]": sparse,
            "density of values": density,
        },
        notes=(
            "Values are the positive part of each map, scaled to [0, 1]; the density is a Gaussian kernel estimate, "
            "bandwidth 0.05, of all pixels of all test images.",
            "Blurring mixes neighbouring values and cannot add information about the network: a metric that improves "
            "rewards the grain. One that gets worse may do so rightly.",
        ),
    )


def densities(part: StudyEvidence) -> pd.DataFrame:
    """The density of values of each estimator at 100 points, over all images and replicates."""
    by_name: dict[str, list[np.ndarray]] = {}
    for name, seed in itertools.product(part.estimators, part.study.seeds):
        with contextlib.suppress(NotApplicable):
            by_name.setdefault(name, []).append(part.responses(DENSITY, name, seed)["density"])
    rows = []
    for name, curves in by_name.items():
        whole = np.concatenate(curves)
        whole = whole[np.isfinite(whole).all(1)]
        if len(whole):
            rows += [(name, *point) for point in zip(GRID.tolist(), whole.mean(0), strict=True)]
    return pd.DataFrame(rows, columns=["estimator", "value", "density"])


def _sparseness(part: StudyEvidence) -> pd.DataFrame:
    """Mean value of each estimator's maps, the sparsest first."""
    table = part.scores.groupby("estimator", sort=False)["value"].mean().dropna()
    if not len(table):
        raise NotApplicable("no estimator has finished maps with values")
    return table.rename("mean_value").sort_values().reset_index()


def blurring(part: StudyEvidence, estimators: Sequence[str]) -> pd.DataFrame:
    """What blurring does to each metric of each estimator: a difference with its interval, positive = better.

    `better` and `worse` are decided at 5 % with Holm's correction over all rows.
    """
    gains = {}
    for metric, estimator in itertools.product(part.study.metric_names, estimators):
        gain = advantage(part, metric, coarsened(estimator), estimator)
        if gain is None:
            continue
        images = len(part.responses(metric, estimator, part.study.seeds[0])["value"])
        if images < FEW:
            raise NotApplicable(f"{images} test images cannot show what blurring does; use at least {FEW}")
        gains[metric, estimator] = gain
    table = advantage_table(gains.items(), ["metric", "estimator"], "gain")
    return table.assign(better=table["side"] > 0, worse=table["side"] < 0).drop(columns="side")


def state_of(effects: pd.DataFrame, margin: float) -> State:
    """Misleads where blurring significantly improves some metric; holds where no gain can be as large as the margin."""
    return conclude(misleads=bool(effects["better"].any()), holds=bool((effects["high"] < margin).all()))


def _sentence(effects: pd.DataFrame, sparse: pd.DataFrame) -> str:
    better, worse = effects[effects["better"]], effects[effects["worse"]]
    text = (
        f"Blurring {' and '.join(effects['estimator'].unique())} improves {len(better)} and worsens {len(worse)} of "
        f"{len(effects)} scores significantly (Holm at 5 %)"
    )
    if len(better):
        most = better.loc[better["gain"].idxmax()]
        text += (
            f", most {most['metric']} of {most['estimator']} by {most['gain']:.3f} "
            f"[{most['low']:.3f}, {most['high']:.3f}]"
        )
    first, last = sparse.iloc[0], sparse.iloc[-1]
    return (
        f"{text}; maps mark from {first['mean_value']:.2f} ({first['estimator']}) to {last['mean_value']:.2f} "
        f"({last['estimator']}) of the image on average."
    )


def _density_plot(density: pd.DataFrame, sparse: pd.DataFrame) -> Plot:
    title = f"{sparse.iloc[0]['estimator']} is the sparsest, {sparse.iloc[-1]['estimator']} the coarsest of the maps"
    reading = "How common each value is in the maps, scaled to [0, 1]; a peak at 0 is a sparse map."
    axes = (("value", "value of a pixel"), ("density", "density"), "estimator")
    return lines("sparsity-density", title, reading, density, *axes)


def _effect_plot(effects: pd.DataFrame) -> Plot:
    better = sorted(set(effects.loc[effects["better"], "metric"]))
    title = f"Blurring improves {', '.join(better)}" if better else "Blurring improves no metric clearly"
    reading = "Score of the blurred map minus that of the plain one; above 0 the blurred map is better."
    axes = (("metric", "metric"), ("gain", "gain by blurring"), "estimator")
    return bars("sparsity-blur", title, reading, effects, *axes, band=True, reference=(0.0, "no difference"))
