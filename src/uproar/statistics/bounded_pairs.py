"""Differences of two methods under a metric with two bounds, where one varies more between replicates than the other.

Between two bounds the replicates of a method that varies much have a long tail towards the middle, or lie at both ends.
Few of them may all come from one end: the method then seems nearer to a bound, and calmer, than it is. Where two
methods vary alike this leaves their difference. Where they do not, Student's interval of the difference is too short,
and gets what the one that varies more may lie further away than the other (`surplus`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import scipy

from uproar.statistics.intervals import Interval, Limits, Measurements
from uproar.statistics.logit_scale import logit_half_width, logit_spread
from uproar.statistics.student_t import Numbers, t_quantile, two_sided_p
from uproar.statistics.twoway import WORTH_A_NOTE

VARY_ALIKE = 0.75
"""Two methods vary alike up to this quantile of Student's t in the test of Pitman and Morgan."""


def difference_between(first: Measurements, second: Measurements, limits: Limits) -> Interval:
    """The difference of two methods alone, first minus second, of values that lie between the limits.

    Values beyond them, as those of a regression may be, have Student's interval.
    """
    numbers = np.concatenate([np.ravel(m.by_image if m.statistic is None else m.statistic) for m in (first, second)])
    rounding = 1e-6 * (limits[1] - limits[0])
    beyond = (numbers < limits[0] - rounding) | (numbers > limits[1] + rounding)
    difference = (first - second).interval()
    return difference if beyond.any() else with_surplus(difference, first, second, limits)


def with_surplus(difference: Interval, first: Measurements, second: Measurements, limits: Limits) -> Interval:
    """A difference of two methods, first minus second, whose interval allows for the one that varies more.

    On either side the square of the half width is that of Student's and the square of `surplus`. The p value follows
    from the side on which 0 lies.
    """
    if not (np.isfinite(limits).all() and math.isfinite(difference.low) and difference.replicates > 1):
        return difference
    below, above = surplus(first.where(second), second.where(first), limits)
    if not (below or above):
        return difference
    half, value = difference.half_width, difference.value
    low, high = math.hypot(half, below), math.hypot(half, above)
    error = (low if value > 0 else high) / float(t_quantile(difference.df))
    note, p = _noted(difference.note, max(low, high) / half), float(two_sided_p(value, error, difference.df))
    return replace(difference, low=value - low, high=value + high, error=error, p=p, note=note)


def surplus(first: Measurements, second: Measurements, limits: Limits) -> tuple[float, float]:
    """How much further below and above the difference of two methods may lie because they vary differently.

    Each method may lie away from its mean by the half width of its interval on the logit scale, which is not symmetric
    on that of the values. The surplus is what the one that varies more may lie away beyond the other, both around the
    mean of the two: of methods with one mean, which the test asks for. The calmer one is given as much of the variance
    of the other as chance may have taken from it (`_largest_ratio`), so that methods that vary alike have none.

    >>> wide, calm = (Measurements(np.array([[r - 0.01, r + 0.01] for r in rows]))
    ...               for rows in ((0.99, 0.9, 0.98), (0.92, 0.93, 0.91)))
    >>> [round(one, 2) for one in (*surplus(wide, calm, (0, 1)), *surplus(calm, wide, (0, 1)))]
    [0.14, 0.0, 0.0, 0.14]
    >>> surplus(calm, calm, (0, 1))
    (0.0, 0.0)
    """
    span, spreads = limits[1] - limits[0], []
    for one in (first, second):
        values, of_images, images = one.components()
        if len(values) < 2 or images < 2 or not math.isfinite(of_images):
            return 0.0, 0.0
        spreads.append(logit_spread(np.clip((values - limits[0]) / span, 0, 1), of_images / span**2, images))
    (mean, variance, logits), (other_mean, other_variance, other_logits) = spreads
    calm, wide = sorted((float(variance), float(other_variance)))
    calm = min(wide, calm * _largest_ratio(logits, other_logits))
    centre, n = float(scipy.special.logit((mean + other_mean) / 2)), len(logits)
    halves = np.array([logit_half_width(centre, one, n) for one in (wide, calm)])
    ends = span * scipy.special.expit(centre + np.outer((-1, 1), halves))
    towards_low, towards_high = (float(one) for one in np.abs(ends[:, 0] - ends[:, 1]))
    return (towards_low, towards_high) if variance >= other_variance else (towards_high, towards_low)


def _largest_ratio(logits: Numbers, others: Numbers) -> float:
    """Of the variances of two methods over shared replicates that vary alike, by the test of Pitman and Morgan.

    Sum and difference of two values are uncorrelated where both vary alike. So the test sees that two methods with the
    same luck differ a little in spread, and hardly that two with luck of their own differ much.
    """
    n = len(logits)
    if n < 3:  # two replicates are always correlated: nothing shows that a difference in spread is chance
        return 1.0
    own, other = logits - logits.mean(), others - others.mean()
    squares = float((own**2).sum() * (other**2).sum())
    unshared = max(1 - float((own * other).sum()) ** 2 / squares, 0.0) if squares > 0 else 1.0
    odds = _squared_quantile(n) / (n - 2) * unshared
    return 1 + 2 * odds + 2 * math.sqrt(odds * (odds + 1))


@functools.cache
def _squared_quantile(n: int) -> float:
    return float(scipy.special.stdtrit(n - 2, VARY_ALIKE)) ** 2


def _noted(note: str, times: float) -> str:
    """What is said of a difference whose interval is longer than Student's; nothing below `WORTH_A_NOTE`."""
    own = f"one of the two varies more between the bounds: up to {times:.1f} times as wide as by Student's t"
    return "; ".join(filter(None, (note, own if times >= WORTH_A_NOTE else "")))
