"""Paired differences over replicates, with an interval: what most sentences of an audit say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from uproar.errors import NotApplicable

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences with its t interval."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def decided(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    @property
    def in_points(self) -> str:
        """Size and half width in hundredths, e.g. `3.1 ± 0.4`."""
        half = (self.high - self.low) / 2
        return f"{100 * abs(self.mean):.1f} ± {100 * half:.1f}"


def paired(a: pd.Series | np.ndarray, b: pd.Series | np.ndarray) -> Difference:
    """a minus b, replicate by replicate; a series is matched by its index.

    >>> d = paired(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0]))
    >>> d.mean, d.n, d.decided
    (1.0, 3, True)
    """
    values = np.asarray((a - b), dtype=float)
    values = values[np.isfinite(values)]
    if len(values) < 2:
        raise NotApplicable(
            f"{len(values)} replicate{'s' if len(values) != 1 else ''} cannot give an interval; run at least 2 seeds"
        )
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    half = float(scipy.stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return Difference(mean, mean - half, mean + half, len(values))
