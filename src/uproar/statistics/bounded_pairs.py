"""Differences of two methods under a metric with two bounds, where one varies more between replicates than the other.

Near a bound the values of replicates have a long tail towards the middle. Of a method that varies much, few replicates
may show nothing of it: the method then seems nearer to the bound than it is. Where two methods vary alike this leaves
their difference; where they do not, Student's interval of the difference is too short on the side of the tail.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import scipy

from uproar.statistics.intervals import Interval, Limits, Measurements
from uproar.statistics.logit_scale import logit_spread, tail_factor
from uproar.statistics.student_t import t_quantile, two_sided_p

VARY_ALIKE = 0.75
"""Two methods vary alike up to this quantile of F for the ratio of the variances of their replicates' logits."""


def with_tail(difference: Interval, first: Measurements, second: Measurements, limits: Limits) -> Interval:
    """A difference of two methods, first minus second, with the side of its interval where a tail was not drawn.

    That side is as long as the larger of Student's half width, and the root of the sum of squares of 1.96 standard
    errors and `tail`. The p value follows from the side on which 0 lies.
    """
    if not (np.isfinite(limits).all() and math.isfinite(difference.low) and difference.replicates > 1):
        return difference
    reach, quantile = tail(first.where(second), second.where(first), limits), float(t_quantile(difference.df))
    half = difference.half_width
    longer = math.hypot(float(t_quantile(math.inf)) * half / quantile, reach)
    if longer <= half:
        return difference
    ends = (difference.low, difference.value + longer) if reach > 0 else (difference.value - longer, difference.high)
    wider = replace(difference, low=ends[0], high=ends[1], note=_noted(difference.note, longer / half))
    if reach * difference.value > 0:
        return replace(wider, error=half / quantile)
    error = longer / quantile
    return replace(wider, error=error, p=float(two_sided_p(difference.value, error, difference.df)))


def tail(first: Measurements, second: Measurements, limits: Limits) -> float:
    """How far the difference of two methods may lie beside its estimate because a long tail was not drawn; signed.

    0 where both vary alike. It is what the tail of the one that varies more may add to a mean half way between the two,
    less what that of the other may: of methods with one mean, which the test asks for.

    >>> wide, calm = (Measurements(np.array([[r - 0.01, r + 0.01] for r in rows]))
    ...               for rows in ((0.99, 0.9, 0.98), (0.92, 0.93, 0.91)))
    >>> round(tail(wide, calm, (0, 1)), 2), round(tail(calm, wide, (0, 1)), 2), tail(calm, calm, (0, 1))
    (-0.1, 0.1, 0.0)
    """
    span, spreads = limits[1] - limits[0], []
    for one in (first, second):
        values, variance, images = one.components()
        if len(values) < 2 or images < 2 or not math.isfinite(variance):
            return 0.0
        spreads.append(logit_spread(np.clip((values - limits[0]) / span, 0, 1), variance / span**2, images))
    n, (a, b) = len(values), (float(variance) for _, variance in spreads)
    if max(a, b) <= _largest_ratio(n) * min(a, b):
        return 0.0
    centre = float(scipy.special.logit(np.mean([middle for middle, _ in spreads])))
    own, other = (float(scipy.special.expit(centre * tail_factor(variance, n))) for variance in (a, b))
    return span * (own - other)


@functools.cache
def _largest_ratio(n: int) -> float:
    """Of two variances over n replicates that count as alike."""
    return float(scipy.special.fdtri(n - 1, n - 1, VARY_ALIKE))


def _noted(note: str, times: float) -> str:
    """What is said of a difference whose interval is longer on one side."""
    own = f"one of the two varies more next to a bound: {times:.1f} times as wide on the side of its tail"
    return "; ".join(filter(None, (note, own)))
