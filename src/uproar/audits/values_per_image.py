"""What metrics say of single images, as one array: higher is better for every metric.

An audit that compares metrics needs the same images, estimators and replicates for all of them; what is not finished
for all is left out and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uproar.audits.registry import StudyEvidence
from uproar.errors import NotApplicable
from uproar.metrics import metrics
from uproar.metrics.registry import read_metric, sign_of
from uproar.statistics.comparisons import holm, sides
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, Measurements
from uproar.statistics.metric_pairs import ValuesPerImage
from uproar.wording import counted

Numbers = NDArray[np.float64]


RESAMPLED = "resampled"
"""The response that holds a statistic of the data set for resamples of the images, the same for every estimator."""


def values_per_image(part: StudyEvidence, names: Sequence[str], least: int = 2, images: int = 10) -> ValuesPerImage:
    """What some metrics say of the images of a part; refused with the reason where too little is finished.

    A metric whose numbers are those of an earlier one, under another name, is left out.
    """
    seeds, done = tuple(part.study.seeds), part.scores
    done = done[done["metric"].isin([str(read_metric(name)) for name in names])]
    counts = done.groupby(["metric", "estimator"])["seed"].nunique()
    whole = set(counts.index[counts == len(seeds)])
    chains = [c for c in part.estimators if c != BASELINE and any(estimator == c for _, estimator in whole)]
    if len(chains) < least:
        raise NotApplicable(
            f"{counted(len(chains), 'estimator')} beside random {'has' if len(chains) == 1 else 'have'} finished "
            f"metrics; name at least {least} in the study"
        )
    notes: list[str] = []
    arrays: dict[str, Numbers] = {}
    for name in names:
        if not all((str(read_metric(name)), chain) in whole for chain in chains):
            notes.append(f"{name} is not defined here, or not finished, for all estimators.")
            continue
        values = sign_of(name) * np.array(
            [[part.responses(name, c, s)["value"].astype(float) for c in chains] for s in seeds]
        )
        twin = next((other for other, v in arrays.items() if np.array_equal(v, values, equal_nan=True)), None)
        if twin is None:
            arrays[name] = values
        else:
            notes.append(f"{name} has the numbers of {twin} and is not compared with it.")
    if len(arrays) < 2:
        raise NotApplicable(
            f"{counted(len(arrays), 'metric')} finished; two that differ are needed, e.g. insertion and road"
        )
    data = ValuesPerImage(tuple(arrays), tuple(chains), seeds, np.array(list(arrays.values())), tuple(notes))
    if data.images < images:
        raise NotApplicable(
            f"{counted(data.images, 'test image')} cannot show whether metrics agree; use at least {images}"
        )
    return data


def advantage(part: StudyEvidence, metric: str, estimator: str, other: str = BASELINE) -> Interval | None:
    """How much better an estimator is than another by a metric, positive = better; None where it is not known."""
    rows = part.scores
    value = rows[rows["metric"] == str(read_metric(metric))].set_index(["estimator", "seed"])["value"]
    seeds = [s for s in part.study.seeds if (estimator, s) in value.index and (other, s) in value.index]
    if not seeds:
        return None

    def measured(chain: str) -> Measurements:
        responses = [part.responses(metric, chain, seed) for seed in seeds]
        by_image = np.stack([one["value"].astype(float) for one in responses])
        if metrics[read_metric(metric).name].facts["statistic"] is None:
            return Measurements(by_image)
        numbers = np.array([value[chain, seed] for seed in seeds], dtype=float)
        return Measurements(by_image, numbers, np.stack([one[RESAMPLED] for one in responses]))

    difference = (measured(estimator) - measured(other)).interval()
    if np.isnan(difference.value):
        return None
    return difference if sign_of(metric) > 0 else -difference


def advantage_table(
    advantages: Iterable[tuple[tuple[str, ...], Interval | None]], columns: Sequence[str], value: str = "advantage"
) -> pd.DataFrame:
    """A row for each advantage that is known: p is adjusted by Holm over all rows, `side` is its sign where decided."""
    rows = [(*keys, each.value, each.low, each.high, each.p) for keys, each in advantages if each is not None]
    table = pd.DataFrame(rows, columns=[*columns, value, "low", "high", "p_holm"])
    table["p_holm"] = holm(table["p_holm"].to_numpy(dtype=float))
    return table.assign(side=sides(table[value], table["p_holm"]))
