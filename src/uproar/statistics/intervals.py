"""Confidence intervals: Student's t over replicates, over images, over both; Wilson's for a share.

The difference (or value) of replicate s on image i is modelled as mu + a_s + b_i + e_si: every replicate sees the same
images, so that neither replicates nor images alone show how uncertain the mean is. Its variance is

    var(means of the replicates) / replicates  +  var(means of the images) / images

The residual e is counted twice: the interval is a little too wide rather than too narrow. The quantile of Student's t
is the mean of those of both parts, weighted with their variances (Cochran and Cox 1950), and the degrees of freedom are
the ones that have it; Satterthwaite's are too many where few networks vary most. With one replicate only the variance
between images is left, with one number per replicate only that between replicates. A statistic that is no mean over
images has its second variance from resamples of the images.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from uproar.errors import BadInput
from uproar.statistics.design import ALPHA, LEVEL

Numbers = NDArray[np.float64]
Limits = tuple[float, float]
UNLIMITED: Limits = (-math.inf, math.inf)
SHARES: Limits = (0.0, 1.0)
ROUNDING = 1e-12
"""Values that vary by less than this share of the largest do not vary: the rest is rounding."""
POWER = 0.8
MOST = 1000
"""Times as much as there is now, beyond which a difference counts as too small to be found."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval, at 95 % unless `level` says otherwise; NaN ends where there is none.

    >>> Interval(0.5, 0.4, 0.6).side, Interval(0.5, -0.1, 1.1).side, Interval(-0.5, -0.6, -0.4).side
    (1, 0, -1)
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    """How many values it rests on: images, or replicates where there are no images."""
    replicates: int = 1
    df: float = math.nan
    """Degrees of freedom of Student's t; NaN for an interval that is not Student's."""
    p: float = math.nan
    """Two-sided p of "the value is 0"; NaN where there is no test."""
    level: float = LEVEL
    limits: Limits = UNLIMITED
    """The range of what is estimated: the ends are cut at it."""
    error: float = math.nan
    """The standard error; NaN where it follows from the ends."""
    wilson: bool = False
    """Whether it is Wilson's interval of a share of n."""

    @property
    def side(self) -> int:
        """On which side of zero the whole interval lies: 1, -1, or 0 where zero is in it or there is none."""
        return int(self.low > 0) - int(self.high < 0)

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    @property
    def standard_error(self) -> float:
        """The standard error; of an interval without degrees of freedom that of a normal one with these ends."""
        return self.error if math.isfinite(self.error) else self.half_width / float(t_quantile(self.df, self.level))

    def p_against(self, bound: float) -> float:
        """Two-sided p of "the value is `bound`"."""
        if math.isnan(self.low):
            return math.nan
        error = math.sqrt(max(bound * (1 - bound), 0) / self.n) if self.wilson else self.standard_error
        if self.value == bound or not error > 0:
            return float(self.value == bound)
        return float(2 * scipy.special.stdtr(np.nan_to_num(self.df, nan=np.inf), -abs(self.value - bound) / error))

    def at_level(self, level: float) -> Interval:
        """The same estimate with its interval at another confidence level.

        >>> print(mean_interval([0.4, 0.5, 0.6]).at_level(0.99))
        0.50 [-0.07, 1.07]
        """
        if math.isnan(self.low):
            return self
        if self.wilson:
            return replace(share_interval(self.value, self.n, level), replicates=self.replicates)
        error = self.standard_error
        half = error * float(t_quantile(self.df, level))
        low, high = np.clip((self.value - half, self.value + half), *self.limits)
        return replace(self, low=float(low), high=float(high), level=level, error=error)

    def __neg__(self) -> Interval:
        limits = (-self.limits[1], -self.limits[0])
        return replace(self, value=-self.value, low=-self.high, high=-self.low, limits=limits)

    def clipped(self, low: float, high: float) -> Interval:
        """The same with ends inside the range of what is estimated."""
        error = self.standard_error
        return replace(self, low=max(self.low, low), high=min(self.high, high), limits=(low, high), error=error)

    def text(self) -> str:
        """Value and half width, e.g. `0.31 ± 0.04`; the value alone where there is no interval."""
        return f"{self.value:.2f}" + ("" if math.isnan(self.half_width) else f" ± {self.half_width:.2f}")

    def as_row(self, name: str = "mean", prefix: str = "", with_n: bool = False) -> dict[str, float]:
        """Columns of a table: the value under a name, `low` and `high` behind a prefix, and `n` where asked for."""
        ends = {f"{prefix}low": self.low, f"{prefix}high": self.high}
        return {name: self.value, **ends, **({"n": self.n} if with_n else {})}

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Measurements:
    """One metric of one method: the values that its mean, or a statistic of the data set, is estimated from.

    The difference of two methods is a `Measurements` too, of what both have: a paired comparison.

    >>> a, b = (Measurements(np.array([values])) for values in ([0.1, 0.5, 0.4], [0.2, 0.9, 0.6]))
    >>> difference = (a - b).interval()
    >>> round(difference.value, 3), round(difference.p, 3), difference.n, difference.df
    (-0.233, 0.118, 3, 2.0)
    """

    by_image: Numbers
    """(replicates, images): the value of every image, the same images in every replicate; NaN where undefined."""
    statistic: Numbers | None = None
    """(replicates,): the metric's number, where it is a statistic of the data set and not the mean over images."""
    resampled: Numbers | None = None
    """(replicates, draws): that statistic for bootstrap resamples of the images, the same for every method."""

    def __sub__(self, other: Measurements) -> Measurements:
        by_image = self.by_image - other.by_image
        if self.statistic is None or self.resampled is None or other.statistic is None or other.resampled is None:
            return Measurements(by_image)
        return Measurements(by_image, self.statistic - other.statistic, self.resampled - other.resampled)

    def interval(self, limits: Limits = UNLIMITED) -> Interval:
        """The mean over replicates with an interval that allows for other replicates and other images.

        Images and replicates without a value are left out; `n` counts the images that have one in any replicate.
        `limits` are the range of the metric. A share of the images (0/1 values) of one network, or one that does not
        vary between networks, has Wilson's interval.
        """
        numbers = nanmean(self.by_image, 1) if self.statistic is None else self.statistic
        numbers, images = numbers[np.isfinite(numbers)], nanmean(self.by_image, 0)
        images = images[np.isfinite(images)]
        n, binary = len(images), limits == SHARES and set(np.unique(images)) <= {0.0, 1.0}
        if self.statistic is not None and self.resampled is not None:
            drawn = self.resampled[np.isfinite(self.statistic)]
            interval = resampled_interval(numbers, drawn, self.by_image.shape[1])
        elif binary and n and (len(numbers) == 1 or np.ptp(images) == 0):
            return replace(share_interval(float(images.mean()), n), replicates=len(numbers))
        else:
            interval = replicated_interval(numbers, float(images.var(ddof=1) / n) if n > 1 else math.nan, n)
        return interval.clipped(*limits) if limits != UNLIMITED else interval


def t_interval(value: float, error: float, df: float, n: int, replicates: int) -> Interval:
    """Student's interval of a value, from its standard error; NaN ends and p without one."""
    if not error > 0:
        return Interval(value, n=n, replicates=replicates)
    half, p = float(t_quantile(df) * error), float(2 * scipy.special.stdtr(df, -abs(value) / error))
    return Interval(value, value - half, value + half, n, replicates, float(df), p, error=error)


def share_interval(share: float, n: int, level: float = LEVEL) -> Interval:
    """Wilson's interval of a share of n.

    >>> print(share_interval(1.0, 20))
    1.00 [0.84, 1.00]
    """
    ends = scipy.stats.binomtest(round(share * n), n).proportion_ci(level, method="wilson")
    return Interval(share, float(ends.low), float(ends.high), n, level=level, limits=SHARES, wilson=True)


def mean_interval(values: ArrayLike, exact: bool = False) -> Interval:
    """Student's interval of the mean of independent values; NaN do not count.

    Fewer than two values have no interval, nor have values that do not vary. With `exact` those are known exactly: for
    what no chance is in, such as the similarity of maps that are the same.

    >>> print(mean_interval([0.4, 0.5, 0.6]))
    0.50 [0.25, 0.75]
    >>> print(mean_interval([0.5, 0.5]), mean_interval([0.5, 0.5], exact=True))
    0.50 [nan, nan] 0.50 [0.50, 0.50]
    """
    finite = np.asarray(values, dtype=float).ravel()
    finite = finite[np.isfinite(finite)]
    n, mean = len(finite), float(finite.mean()) if len(finite) else math.nan
    if n > 1 and finite.std() > ROUNDING * np.abs(finite).max():
        return t_interval(mean, float(finite.std(ddof=1) / math.sqrt(n)), n - 1, n, n)
    return Interval(mean, mean, mean, n, n) if n > 1 and exact else Interval(mean, n=n, replicates=n)


def crossed_mean(values: ArrayLike, worst: float | None = None) -> Interval:
    """The mean of (replicates, images) values, with NaN left out; one replicate gives the t-interval over images.

    Values that do not vary have no interval; with `worst` they have that of one more image with this value: networks
    that were always right may get the next image wrong.

    >>> print(crossed_mean([[0.0, 0.5, 1.0]]))
    0.50 [-0.74, 1.74]
    """
    table = np.atleast_2d(np.asarray(values, dtype=float))
    mean = Measurements(table).interval()
    if worst is None or math.isfinite(mean.low):
        return mean
    return replace(Measurements(np.c_[table, np.full(len(table), worst)]).interval(), value=mean.value, n=mean.n)


def resampled_interval(by_replicate: ArrayLike, resampled: ArrayLike, images: int) -> Interval:
    """The mean of a statistic of each replicate, with its (replicates, draws) values for resamples of the images.

    All replicates share the resamples; the standard error over images is the standard deviation of the mean's draws.
    """
    draws = nanmean(resampled, 0)
    draws = draws[np.isfinite(draws)]
    return replicated_interval(by_replicate, float(draws.var(ddof=1)) if len(draws) > 1 else math.nan, images)


def replicated_interval(by_replicate: ArrayLike, image_variance: float, images: int) -> Interval:
    """The mean of one number per replicate; `image_variance` is the variance of that mean over samples of the images.

    >>> interval = replicated_interval([0.4, 0.5, 0.6], 0.0, 100)
    >>> round(interval.value, 3), round(interval.low, 3), round(interval.high, 3), round(interval.df, 3)
    (0.5, 0.252, 0.748, 2.0)
    """
    values = np.asarray(by_replicate, dtype=float)
    mean = float(values.mean()) if values.size else math.nan
    error, df = (float(number) for number in standard_error(values, image_variance, images))
    varies = error > ROUNDING * np.abs(values).max(initial=0)
    return t_interval(mean, error if varies else math.nan, df, images, len(values))


def standard_error(by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike) -> tuple[Numbers, Numbers]:
    """Standard error of the mean over the first axis, and its degrees of freedom (Cochran and Cox)."""
    values, n = np.asarray(by_replicate, dtype=float), np.asarray(images, dtype=float)
    within = np.where(n > 1, np.asarray(image_variance, dtype=float), np.nan)
    replicates = len(values)
    between = values.var(0, ddof=1) / replicates if replicates > 1 else np.zeros_like(within)
    total = np.asarray(between + within)
    with np.errstate(invalid="ignore", divide="ignore"):
        quantile = (between * t_quantile(max(replicates - 1, 1)) + within * t_quantile(n - 1)) / total
        df = scipy.special.stdtridf((1 + LEVEL) / 2, quantile)
    return np.asarray(np.sqrt(total)), np.asarray(df if replicates > 1 else np.broadcast_to(n - 1, total.shape))


def half_width(by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike) -> Numbers:
    """Half the width of the 95 % interval of the mean over the first axis; NaN where nothing can be said."""
    error, df = standard_error(by_replicate, image_variance, images)
    return np.asarray(t_quantile(df) * error)


def t_quantile(df: ArrayLike, level: float = LEVEL) -> Numbers:
    """Half width, in standard errors, of a two-sided t-interval; of a normal one for NaN, NaN for no freedom."""
    freedom = np.where(np.isnan(df), np.inf, np.where(np.asarray(df) > 0, df, np.nan))
    return np.asarray(-scipy.special.stdtrit(freedom, (1 - level) / 2))


def detectable(error: ArrayLike, df: ArrayLike, tests: int = 1, alpha: float = ALPHA, power: float = POWER) -> Numbers:
    """The difference that a two-sided t-test with this standard error finds with `power`, at Holm's first step.

    >>> float(detectable(1.0, 1e6).round(1))
    2.8
    """
    return np.asarray((t_quantile(df, 1 - alpha / max(tests, 1)) + scipy.special.stdtrit(df, power)) * error)


def required_sample_size(difference: float, half_width: float, df: float, n: int, tests: int = 1) -> int | None:
    """The n with which a difference of the present size is decided in 80 % of studies; None where MOST times n is not.

    `half_width` is that of its 95 % interval with `n` now, on `df` degrees of freedom; both the squared standard error
    and the degrees of freedom go with n. `tests` differences share the error rate (the first step of Holm's procedure).

    >>> required_sample_size(0.10, 0.15, 19, n=20), required_sample_size(0.0, 0.15, 19, n=20)
    (83, None)
    """
    if not (difference > 0 and half_width > 0 and df > 0 and n > 0):
        return None
    error, sizes = half_width / float(t_quantile(df)), range(n + 1, MOST * n)
    first = bisect.bisect_left(
        sizes, True, key=lambda size: bool(difference >= detectable(error * math.sqrt(n / size), df * size / n, tests))
    )
    return sizes[first] if first < len(sizes) else None


def nanmean(values: ArrayLike, axis: int = 0) -> Numbers:
    """Mean over an axis without NaN; NaN where there is nothing else."""
    table = np.asarray(values, dtype=float)
    present = np.isfinite(table)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(present, table, 0.0).sum(axis) / present.sum(axis))


def area(fractions: ArrayLike, values: ArrayLike) -> Numbers:
    """Mean height of a curve: its trapezoid area divided by the range of its fractions.

    The fractions run along the last axis of `values`; the other axes hold separate curves. A flat curve has its height
    as area, whatever the fractions; a single fraction has its value. A NaN anywhere in a curve makes its area NaN.

    >>> float(area([0.1, 0.5, 0.7], [0.8, 0.8, 0.8]))
    0.8
    >>> area([0.0, 0.5, 1.0], [[1.0, 0.5, 0.0], [1.0, 1.0, 0.0]]).tolist()
    [0.5, 0.75]
    """
    t, y = np.asarray(fractions, dtype=float), np.asarray(values, dtype=float)
    if t.ndim != 1 or not t.size or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
        raise BadInput(
            f"An area needs fractions that are finite and strictly increasing, at least one; got {t.tolist()}."
        )
    if y.ndim == 0 or y.shape[-1] != t.size:
        raise BadInput(f"A curve needs a value for each of the {t.size} fractions; the values have shape {y.shape}.")
    if t.size == 1:
        return np.array(y[..., 0])
    return np.asarray(np.trapezoid(y, t, axis=-1) / (t[-1] - t[0]))
