"""Numbers with two kinds of luck in them: which networks were trained, and which images were tested.

The value of replicate s on image i is thought of as mu + a_s + b_i + e_si: all replicates see the same images. The mean
over both then has the variance of the replicates' means divided by their number, plus the variance that resampling the
images gives. The sum counts the part of e twice, so that an interval is a little too wide and never too narrow. With
one replicate only the luck of the images is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates with its 95 % interval, and p of "it is 0"."""

    value: float
    low: float
    high: float
    p: float


def estimate(by_replicate: ArrayLike, image_variance: float, images: int) -> Estimate:
    """The mean of one number per replicate; `image_variance` is its variance over resamples of the images.

    >>> found = estimate([0.4, 0.5, 0.6], 0.0, 100)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.5, 0.252, 0.748)
    """
    values = np.asarray(by_replicate, dtype=float)
    mean = float(values.mean()) if values.size else float("nan")
    half = float(half_width(values, image_variance, images))
    error, freedom = standard_error(values, image_variance, images)
    if not np.isfinite(error):
        p = float("nan")
    elif error == 0:  # the same in every image and replicate: how likely is one sign throughout?
        p = 1.0 if mean == 0 else min(1.0, 2.0 ** (1 - images))
    else:
        p = float(2 * scipy.stats.t.sf(abs(mean) / error, freedom))
    return Estimate(mean, mean - half, mean + half, p)


def half_width(by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike) -> Numbers:
    """Half the width of the 95 % interval of the mean over the first axis; NaN where nothing can be said."""
    error, freedom = standard_error(by_replicate, image_variance, images)
    return np.asarray(scipy.stats.t.ppf(0.975, np.maximum(freedom, 1)) * error)


def standard_error(by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike) -> tuple[Numbers, Numbers]:
    """Standard error of the mean over the first axis, and Satterthwaite's degrees of freedom of it."""
    values, n = np.asarray(by_replicate, dtype=float), np.asarray(images, dtype=float)
    replicates = len(values)
    shape = np.broadcast_shapes(values.shape[1:], np.shape(image_variance))
    luck = values.var(0, ddof=1) / replicates if replicates > 1 else np.zeros(shape)
    other = np.where(n > 1, np.asarray(image_variance, dtype=float), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = luck**2 / max(replicates - 1, 1) + other**2 / (n - 1)
        freedom = np.where(parts > 0, (luck + other) ** 2 / parts, np.inf)
    return np.asarray(np.sqrt(luck + other)), np.asarray(freedom)
