"""Every two metrics compared: over images, given how easy an image is, and within images. Never one with itself."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from uproar.statistics.comparisons import holm
from uproar.statistics.correlation import association_matrix, partial_spearman, row_correlations
from uproar.statistics.design import ALPHA
from uproar.statistics.intervals import Interval, Numbers, crossed_mean, half_width, nanmean

DRAWS = 100
"""Resamples of the images for the interval of a correlation."""
OPPOSED = -0.1
"""Two metrics contradict each other where their mean rank correlation within images is significantly below this."""


@dataclass(frozen=True)
class ValuesPerImage:
    """What several metrics say of the same images, estimators and replicates."""

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


def pairwise(data: ValuesPerImage, clean: Numbers | None, seed: int = 0) -> pd.DataFrame:
    """A row for every two metrics: over images, over images given the clean score, and within images.

    `clean` is (seeds, images). `over_images` is the mean over estimators and replicates with an interval over
    replicates and resamples of the images; `within` is the mean over images of the rank correlation across estimators.
    `opposed` says whether that is below −0.1, with Holm's correction over all pairs (`p_opposed`).
    """
    everything = np.moveaxis(data.values, 0, -1)  # (seeds, estimators, images, metrics)
    over = _mean_matrix(everything)
    draws = np.random.default_rng(seed)
    n = data.images
    resampled = np.array([_mean_matrix(everything[:, :, draws.integers(n, size=n)]) for _ in range(DRAWS)])
    by_seed = np.stack([_mean_matrix(one[None]) for one in everything])
    half = half_width(by_seed, nanmean((resampled - nanmean(resampled)) ** 2), n)
    half = np.where(half > 0, half, np.nan)  # nothing varies: no interval
    rows = []
    for i, j in itertools.combinations(range(len(data.metrics)), 2):
        within = within_images(data.values[i], data.values[j])
        rows.append(
            {
                "metric": data.metrics[i],
                "other": data.metrics[j],
                "over_images": over[i, j],
                "over_low": np.clip(over[i, j] - half[i, j], -1, 1),
                "over_high": np.clip(over[i, j] + half[i, j], -1, 1),
                "given_clean_score": _mean_partial(data.values[i], data.values[j], clean),
                "within_images": within.value,
                "within_low": within.low,
                "within_high": within.high,
                "p_opposed": within.p_against(OPPOSED),
            }
        )
    table = pd.DataFrame(rows)
    table["p_opposed"] = holm(table["p_opposed"])
    return table.assign(opposed=(table["p_opposed"] <= ALPHA) & (table["within_images"] < OPPOSED))


def within_images(a: Numbers, b: Numbers) -> Interval:
    """Mean over images of the rank correlation of two metrics across estimators; both are (seeds, estimators, images).

    The interval has the variance between replicates and that between images.
    """
    return crossed_mean(np.array([row_correlations(x.T, y.T) for x, y in zip(a, b, strict=True)]))


def per_estimator(data: ValuesPerImage) -> pd.DataFrame:
    """Correlation of every two metrics over images: a row per pair, a column per estimator."""
    everything = np.moveaxis(data.values, 0, -1)
    by_chain = [nanmean(association_matrix(everything[:, e])) for e in range(len(data.estimators))]
    return pd.DataFrame(
        [
            {"metric": data.metrics[i], "other": data.metrics[j]}
            | {name: by_chain[e][i, j] for e, name in enumerate(data.estimators)}
            for i, j in itertools.combinations(range(len(data.metrics)), 2)
        ]
    )


def _mean_matrix(everything: Numbers) -> Numbers:
    matrices = association_matrix(everything)
    return nanmean(matrices.reshape(-1, *matrices.shape[-2:]))


def _mean_partial(a: Numbers, b: Numbers, clean: Numbers | None) -> float:
    if clean is None:
        return math.nan
    correlations = [
        partial_spearman(x, y, given)
        for by_a, by_b, given in zip(a, b, clean, strict=True)
        for x, y in zip(by_a, by_b, strict=True)
    ]
    return float(nanmean(np.array(correlations)))


def both_ways(pairs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Both triangles of a symmetric table, rows and columns in one order; its diagonal is empty."""
    names = list(dict.fromkeys([*pairs["metric"], *pairs["other"]]))
    values = {frozenset(pair): v for *pair, v in zip(pairs["metric"], pairs["other"], pairs[column], strict=True)}
    rows = [(a, b, values.get(frozenset((a, b)), math.nan)) for b in names for a in names]
    return pd.DataFrame(rows, columns=["metric", "other", "correlation"])
