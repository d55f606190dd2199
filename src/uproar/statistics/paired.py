"""Paired differences over replicates: Student's t on n - 1 degrees of freedom."""

from __future__ import annotations

import numpy as np
import pandas as pd

from uproar.errors import NotApplicable
from uproar.statistics.intervals import Interval, mean_interval
from uproar.wording import counted


def paired_difference(first: pd.Series | np.ndarray, second: pd.Series | np.ndarray) -> Interval:
    """The mean difference with its interval, refused for fewer than two replicates; series are matched by their index.

    >>> print(paired_difference(np.array([1.0, 2.0, 3.3]), np.array([0.0, 1.0, 2.0])))
    1.10 [0.67, 1.53]
    """
    interval = mean_interval(first - second)
    if interval.n < 2:
        raise NotApplicable(f"{counted(interval.n, 'replicate')} cannot give an interval; run at least 2 seeds")
    return interval
