"""The area under the ROC curve: how well values tell some pixels of an image from the others."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.student_t import Numbers


def area_under_roc(values: ArrayLike, positive: ArrayLike) -> Numbers:
    """Per row of (n, pixels) the probability that a positive one has a higher value than another, ties half.

    NaN where all or none are positive.

    >>> area_under_roc([[0.9, 0.1, 0.5], [1, 1, 0]], [[True, False, False], [True, False, False]]).tolist()
    [1.0, 0.75]
    """
    chosen = np.asarray(positive, dtype=bool)
    ones, zeros = chosen.sum(1).astype(float), (~chosen).sum(1)
    above = (scipy.stats.rankdata(values, axis=1) * chosen).sum(1) - ones * (ones + 1) / 2
    with np.errstate(invalid="ignore"):
        return np.asarray(above / (ones * zeros))
