"""What metrics say of single images, as one array: higher is better for every metric.

An audit that compares metrics needs the same images, estimators and replicates for all of them; what is not finished
for all is left out and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uproar.audits.base import Part
from uproar.errors import NotApplicable
from uproar.metrics.base import read_metric, sign_of
from uproar.statistics.design import BASELINE
from uproar.statistics.variance_components import Estimate, estimate

Numbers = NDArray[np.float64]


RESAMPLED = "resampled"
"""The response that holds a metric's number for many resamples of the images, the same for every estimator."""


@dataclass(frozen=True)
class Judged:
    """Values of metrics for single images."""

    metrics: tuple[str, ...]
    estimators: tuple[str, ...]
    """Without the baseline."""
    seeds: tuple[int, ...]
    values: Numbers
    """(metrics, seeds, estimators, images); higher is better, NaN where not defined."""
    notes: tuple[str, ...] = ()

    @property
    def images(self) -> int:
        """How many test images there are."""
        return int(self.values.shape[3])


def judged(part: Part, names: Sequence[str], least: int = 2, images: int = 10) -> Judged:
    """What some metrics say of the images of a part; refused with the reason where too little is finished.

    A metric whose numbers are those of an earlier one, under another name, is left out.
    """
    chains = [name for name in part.estimators if name != BASELINE]
    done = part.scores
    seeds = tuple(part.study.seeds)
    notes: list[str] = []
    kept: list[str] = []
    columns: list[Numbers] = []
    chains = [c for c in chains if _whole(done, c, names, seeds)]
    if len(chains) < least:
        raise NotApplicable(
            f"{_some(len(chains), 'estimator')} beside random {'has' if len(chains) == 1 else 'have'} finished "
            f"metrics; name at least {least} in the study"
        )
    for name in names:
        if not _finished(done, name, chains, seeds):
            notes.append(f"{name} is not defined here, or not finished, for all estimators.")
            continue
        values = sign_of(name) * np.array(
            [[part.responses(name, c, s)["value"].astype(float) for c in chains] for s in seeds]
        )
        twin = next((k for k, v in zip(kept, columns, strict=True) if np.array_equal(v, values, equal_nan=True)), None)
        if twin is not None:
            notes.append(f"{name} has the numbers of {twin} and is not compared with it.")
            continue
        kept.append(name)
        columns.append(values)
    if len(kept) < 2:
        raise NotApplicable(
            f"{_some(len(kept), 'metric')} finished; two that differ are needed, e.g. insertion and road"
        )
    found = Judged(tuple(kept), tuple(chains), seeds, np.array(columns), tuple(notes))
    if found.images < images:
        raise NotApplicable(
            f"{_some(found.images, 'test image')} cannot show whether metrics agree; use at least {images}"
        )
    return found


def advantage(part: Part, metric: str, estimator: str, other: str = BASELINE) -> Estimate | None:
    """How much better an estimator is than another by a metric, positive = better; None where it is not known."""
    sign, gaps, draws, images = sign_of(metric), [], [], 0
    rows = part.scores
    rows = rows[rows["metric"] == str(read_metric(metric))]
    value = rows.set_index(["estimator", "seed"])["value"]
    for seed in part.study.seeds:
        if (estimator, seed) in value.index and (other, seed) in value.index:
            gaps.append(sign * (value[estimator, seed] - value[other, seed]))
            own, its = (part.responses(metric, c, seed)[RESAMPLED] for c in (estimator, other))
            draws.append(sign * (own - its))
            images = len(part.responses(metric, estimator, seed)["value"])
    if not gaps or not np.isfinite(gaps).all():
        return None
    resampled = np.mean(draws, axis=0)
    resampled = resampled[np.isfinite(resampled)]
    variance = float(resampled.var(ddof=1)) if len(resampled) > 1 else float("nan")
    return estimate(gaps, variance, images)


def _finished(done: pd.DataFrame, name: str, chains: Sequence[str], seeds: Sequence[int]) -> bool:
    rows = done[(done["metric"] == str(read_metric(name))) & done["estimator"].isin(chains)]
    return len(rows) == len(chains) * len(seeds) > 0


def _whole(done: pd.DataFrame, chain: str, names: Sequence[str], seeds: Sequence[int]) -> bool:
    """Whether an estimator has at least one metric in every replicate."""
    rows = done[(done["estimator"] == chain) & done["metric"].isin([str(read_metric(n)) for n in names])]
    return bool((rows.groupby("metric")["seed"].nunique() == len(seeds)).any())


def _some(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
