"""Least-squares lines: R² with its intervals over estimators and over replicates, residuals, a permutation test."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.seeds import key
from uproar.statistics.bootstrap import percentile_interval
from uproar.statistics.correlation import pearson
from uproar.statistics.design import LEVEL
from uproar.statistics.intervals import ROUNDING, Interval, t_interval, to_angle
from uproar.statistics.student_t import Numbers, t_quantile

DRAWS = 2000
SPREAD = 1e-9
"""Values closer than this, relative to their size, count as equal."""


def r_squared(x: ArrayLike, y: ArrayLike) -> float:
    """Share of the variance of y that a straight line over x explains; NaN where one of them is constant.

    >>> round(r_squared([0, 1, 2], [0, 1, 2.5]), 4)
    0.9868
    """
    return pearson(x, y, SPREAD) ** 2


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Slope of the least-squares line of y over x; NaN where x is constant."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    spread = float(((a - a.mean()) ** 2).sum())
    return float(((a - a.mean()) * (b - b.mean())).sum() / spread) if spread > 0 else math.nan


def residuals(x: ArrayLike, y: ArrayLike) -> Numbers:
    """What is left of y when the least-squares line over x is taken out; x may have leading axes (lines of their own).

    >>> residuals([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]).round(9).tolist()
    [0.0, 0.0, 0.0]
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    square = (a * a).sum(-1, keepdims=True)
    slope = np.divide((a * b).sum(-1, keepdims=True), square, out=np.zeros_like(square), where=square > 0)
    return np.asarray(b - slope * a)


def r_squared_interval(x: Numbers, y: Numbers, seed: int = 0) -> tuple[float, float]:
    """Bootstrap interval of R² between means over replicates, (estimators, replicates) each.

    Estimators and replicates are drawn with replacement: the interval says what other estimators of this kind and
    other replicates would have given. Draws with fewer than three different estimators have no line and are left out.
    """
    random = np.random.default_rng(key(seed, "bootstrap of a regression"))
    estimators, replicates = x.shape
    rows = random.integers(estimators, size=(DRAWS, estimators))
    columns = random.integers(replicates, size=(DRAWS, 1, replicates))
    rows = rows[(np.diff(np.sort(rows, axis=1), axis=1) > 0).sum(1) >= 2]
    a, b = (values[rows[:, :, None], columns[: len(rows)]].mean(2) for values in (x, y))
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    varies = (np.ptp(a, axis=1) > SPREAD) & (np.ptp(b, axis=1) > SPREAD)
    a, b = a[varies], b[varies]
    return percentile_interval((a * b).sum(1) ** 2 / ((a * a).sum(1) * (b * b).sum(1)))


def permutation_p(x: ArrayLike, y: ArrayLike, seed: int = 0) -> float:
    """How often estimators dealt out anew correlate as strongly, in either direction."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    observed = abs(pearson(a, b, SPREAD))
    if math.isnan(observed):
        return math.nan
    random = np.random.default_rng(key(seed, "permutations of a regression"))
    dealt = np.stack([random.permutation(b) for _ in range(DRAWS)])
    a, dealt = a - a.mean(), dealt - dealt.mean(1, keepdims=True)
    r = dealt @ a / (np.linalg.norm(a) * np.linalg.norm(dealt, axis=1))
    return float((1 + np.sum(np.abs(r) >= observed - 1e-12)) / (1 + DRAWS))


def signed_r_squared(x: ArrayLike, y: ArrayLike) -> float:
    """R², negative for a falling line."""
    r = pearson(x, y)
    return r * abs(r)


def line_interval(x: Numbers, y: Numbers) -> Interval:
    """`signed_r_squared` of the mean of y over x; y is (replicates, points), and the points are taken as given.

    R² is that of two numbers: the slope of the line, and how far the points scatter around it. Both have intervals from
    the variance of the points over replicates, and R² that of all angles that both intervals allow together.

    >>> x = np.arange(8.0)
    >>> noise = np.random.default_rng(0).normal(size=(5, 8))
    >>> interval = line_interval(x, 2 * x + noise)
    >>> interval.value > 0.95, interval.low > 0.9, interval.n
    (True, True, 5)
    """
    n, points = y.shape
    value = signed_r_squared(x, y.mean(0))
    if not math.isfinite(value) or n < 2 or points < 3:
        return Interval(value, n=n, replicates=n)
    centred = y - y.mean(1, keepdims=True)
    variances = ((centred - centred.mean(0)) ** 2).sum(0) / (n - 1) / (1 - 1 / points)
    if not variances.max() > (ROUNDING * np.abs(y).max()) ** 2:
        return t_interval(value, math.nan, n - 1, n)
    direction = (x - x.mean()) / np.linalg.norm(x - x.mean())
    df = (points - 1) * (n - 1) * _alike(variances)
    slope, error, slope_df = _slope(centred, direction, variances, df)
    half, scatter = float(t_quantile(slope_df)) * error, _scatter(centred.mean(0), direction, variances / n, df)
    low, high = -_steepest(-slope, half, scatter), _steepest(slope, half, scatter)
    return _around(value, low, high, Interval(value, n=n, replicates=n, df=slope_df))


def _around(value: float, low: float, high: float, plain: Interval) -> Interval:
    """The interval of a signed R² between two angles, which holds it. A side that ends at 1 is as long as the other."""
    angle, right = to_angle(value), math.pi / 2
    below, above = max(angle - low, 0.0), max(high - angle, 0.0)
    below, above = (max(below, above) if low <= -right else below), (max(below, above) if high >= right else above)
    error, centre = (below + above) / 2 / float(t_quantile(plain.df)), angle + (above - below) / 2
    interval = replace(plain, low=value, scale="angle", limits=(-1.0, 1.0), error=error, centre=centre).at_level(LEVEL)
    return replace(interval, p=interval.p_against(0.0))


def _alike(variances: Numbers) -> float:
    """1 where all variances are the same, 1 / their number where one is all."""
    return float(variances.sum() ** 2 / (len(variances) * (variances**2).sum()))


def _slope(y: Numbers, direction: Numbers, variances: Numbers, df: float) -> tuple[float, float, float]:
    """The mean of y along a direction, its standard error and degrees of freedom: the largest of three variances.

    The pooled one of all points, that of the points' own, and that of the replicates' slopes, as for differences of two
    estimators (`twoway.pair_variance`).
    """
    n, along, own = len(y), y @ direction, variances * direction**2
    rows = float(own.sum()), min((n - 1) * float(own.sum() ** 2 / (own**2).sum()), df)
    pooled, replicates = (float(variances.mean()), df), (float(along.var(ddof=1)), n - 1.0)
    variance, taken = max((pooled, rows, replicates), key=lambda one: one[0])
    return float(along.mean()), math.sqrt(variance / n), taken


def _scatter(mean: Numbers, direction: Numbers, variances: Numbers, df: float) -> tuple[float, float, float]:
    """How far the true means lie from the line, in all: lower end, median, upper end.

    Noise adds to their squared distance a sum of squares that is nearly that of a chi square with `degrees`, times
    `size`; with the true distance it is a noncentral one, which is inverted. The ends take a larger size: that of an F
    with `df`, and of the noise along the distance itself.
    """
    points = len(mean)
    rest = mean - mean.mean() - direction * float(mean @ direction)
    across = np.eye(points) - 1 / points - np.outer(direction, direction)
    trace, squares = float(variances @ np.diag(across)), float(variances @ across**2 @ variances)
    size, degrees, distance = squares / trace, trace**2 / squares, float(rest @ rest)
    tail = (1 - LEVEL) / 2
    times = degrees * scipy.special.fdtri(degrees, df, 1 - tail) / scipy.special.chdtri(degrees, tail)
    largest = times * max(size, float(variances @ rest**2) / distance if distance > 0 else 0.0)
    low, high = (_true_distance(distance, degrees, largest, chance) for chance in (1 - tail, tail))
    return low, min(max(_true_distance(distance, degrees, size, 0.5), low), high), high


def _true_distance(squared: float, degrees: float, size: float, chance: float) -> float:
    """The distance under which an observed squared one, or a smaller, has this chance; 0 where it always has less."""
    observed = squared / size

    def excess(noncentrality: float) -> float:
        return float(scipy.special.chndtr(observed, degrees, noncentrality)) - chance

    if excess(0.0) <= 0:
        return 0.0
    most = 2 * observed + 40
    while excess(most) > 0:
        most *= 2
    return math.sqrt(float(scipy.optimize.brentq(excess, 0.0, most, xtol=1e-10)) * size)


def _steepest(slope: float, half: float, scatter: tuple[float, float, float]) -> float:
    """The largest angle of a slope with a scatter whose intervals join to an ellipse, by its tangent from the origin.

    Where there may be no scatter at all, a slope that may be above 0 may have an R² of 1.
    """
    low, middle, high = scatter
    if high == 0 or (low == 0 and slope + half > 0):
        return math.copysign(math.pi / 2, slope + half)
    axis = middle - low if slope + half > 0 else high - middle
    axis = max(axis, 1e-9 * middle)
    across, along = slope / half, middle / axis
    tangent = math.atan2(across, along) + math.asin(min(1 / math.hypot(across, along), 1.0))
    return math.atan2(half * math.sin(tangent), axis * math.cos(tangent))
