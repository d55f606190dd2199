"""Intervals over images, by resampling the images.

A metric is a statistic of per-image responses: the mean of its values, or the data set's own number. The bootstrap
draws images with replacement and takes the statistic anew, so that it is right for both. All methods are judged on the
same draws: a comparison is paired.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from uproar.expression import Call
from uproar.metrics.base import Responses, metrics, statistic
from uproar.seeds import generator

DRAWS = 1000
WHOLE_DRAWS = 200
"""Draws for statistics of a whole data set, which are taken anew each time."""


def bootstrap(call: Call, responses: Responses, seed: int = 0) -> np.ndarray:
    """The metric's number for many resamples of the images; NaN where a resample has no defined image."""
    entry = metrics[call.name]
    n = len(responses["value"])
    whole = entry.facts["whole"]
    rows = torch.randint(n, (DRAWS if whole is None else WHOLE_DRAWS, n), generator=generator(seed, "bootstrap", n))
    if whole is None:
        return _means(responses["value"].double(), rows).numpy()
    return np.array(statistic(call, ({name: v[r] for name, v in responses.items()} for r in rows)))


def _means(values: Tensor, rows: Tensor) -> Tensor:
    defined = torch.isfinite(values)
    filled = torch.where(defined, values, 0.0)
    return filled[rows].sum(1) / defined[rows].sum(1)


def interval(draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The middle `level` of the resamples.

    >>> interval(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return math.nan, math.nan
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
