"""Confidence intervals: the class that holds one, and Student's t for means over replicates, over images, over both.

The value of replicate s on image i is modelled as mu + a_s + b_i + e_si: every replicate sees the same images. The mean
over both has the variance of the replicates' means divided by their number, plus the variance of the images' means
divided by theirs. The sum counts the part of e twice, so that an interval is a little too wide and never too narrow.
With one replicate only the variance between images is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from uproar.statistics.design import LEVEL

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence interval; NaN ends where there is none.

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
    """Degrees of freedom of the t quantile; NaN for an interval that is not Student's."""
    p: float = math.nan
    """Two-sided p of "the value is 0"; NaN where there is no test."""

    @property
    def side(self) -> int:
        """On which side of zero the whole interval lies: 1, -1, or 0 where zero is in it or there is none."""
        return int(self.low > 0) - int(self.high < 0)

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    def p_against(self, bound: float) -> float:
        """Two-sided p of "the value is `bound`", for an interval of Student's t."""
        if math.isnan(self.low):
            return math.nan
        error = self.half_width / float(t_quantile(self.df))
        return float(two_sided_p(self.value - bound, error, self.df)) if error > 0 else float(self.value == bound)

    def with_df(self, df: float) -> Interval:
        """The same estimate and standard error, on fewer degrees of freedom; the same where there is no spread."""
        if not (self.half_width > 0 and 0 < df < self.df):
            return self
        error = self.half_width / float(t_quantile(self.df))
        half = error * float(t_quantile(df))
        p = float(two_sided_p(self.value, error, df))
        return replace(self, low=self.value - half, high=self.value + half, df=float(df), p=p)

    def __neg__(self) -> Interval:
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def clipped(self, low: float, high: float) -> Interval:
        """The same with ends inside the range of what is estimated."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Value and half width, e.g. `0.31 ± 0.04`."""
        return f"{scale * self.value:.{digits}f} ± {scale * self.half_width:.{digits}f}"

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

    @property
    def by_replicate(self) -> Numbers:
        """(replicates,): the metric's number of each replicate."""
        return nanmean(self.by_image, 1) if self.statistic is None else self.statistic

    def interval(self, between: tuple[float, float] | None = None) -> Interval:
        """The mean over replicates with an interval that allows for other replicates and other images.

        `between` is the variance of that mean over replicates with its degrees of freedom, where it is known better
        than from these replicates alone. Images and replicates without a value are left out; `n` counts the images that
        have one in any replicate.
        """
        if self.statistic is None or self.resampled is None:
            return crossed_mean(self.by_image, between)
        used = np.isfinite(self.statistic)
        n = int(np.isfinite(self.by_image[used]).any(0).sum())
        draws = self.resampled[used].mean(0) if used.any() else np.zeros(0)
        draws = draws[np.isfinite(draws)]
        variance = float(draws.var(ddof=1)) if len(draws) > 1 else math.nan
        return replicated_interval(self.statistic[used], variance, n, between)


def t_interval(value: float, error: float, df: float, n: int) -> Interval:
    """Student's interval of a value over n replicates, from its standard error; NaN ends and p without one."""
    if not error > 0:
        return Interval(float(value), n=n, replicates=n)
    half = float(t_quantile(df) * error)
    p = float(two_sided_p(value, error, df))
    return Interval(float(value), float(value) - half, float(value) + half, n, n, float(df), p)


def mean_interval(values: ArrayLike) -> Interval:
    """Student's interval of the mean of independent values; NaN do not count, and fewer than two have no interval.

    >>> print(mean_interval([0.4, 0.5, 0.6]))
    0.50 [0.25, 0.75]
    """
    finite = np.asarray(values, dtype=float).ravel()
    finite = finite[np.isfinite(finite)]
    n, mean = len(finite), float(finite.mean()) if len(finite) else math.nan
    if n < 2:
        return Interval(mean, n=n, replicates=n)
    error = float(finite.std(ddof=1) / math.sqrt(n))
    half = float(t_quantile(n - 1)) * error
    p = float(two_sided_p(mean, error, n - 1))
    return Interval(mean, mean - half, mean + half, n, n, n - 1, p)


def crossed_mean(values: ArrayLike, between: tuple[float, float] | None = None) -> Interval:
    """The mean of (replicates, images) values, with NaN left out; one replicate gives the t-interval over images.

    `between`: see `Measurements.interval`.

    >>> print(crossed_mean([[0.0, 0.5, 1.0]]))
    0.50 [-0.74, 1.74]
    """
    table = np.atleast_2d(np.asarray(values, dtype=float))
    by_replicate, by_image = nanmean(table, 1), nanmean(table, 0)
    by_replicate, by_image = by_replicate[np.isfinite(by_replicate)], by_image[np.isfinite(by_image)]
    n = len(by_image)
    return replicated_interval(by_replicate, float(by_image.var(ddof=1) / n) if n > 1 else math.nan, n, between)


def ratio_interval(numerator: Numbers, denominator: Numbers) -> Interval:
    """The ratio of the means of two (replicates, images) arrays, with the interval of its linearisation.

    >>> ratio_interval(np.array([[1.0, 0.0, 1.0, 0.0]]), np.array([[1.0, 1.0, 1.0, 1.0]])).value
    0.5
    """
    scale = float(denominator.mean())
    ratio = float(numerator.mean()) / scale
    residual = crossed_mean((numerator - ratio * denominator) / scale)
    return Interval(ratio, ratio + residual.low - residual.value, ratio + residual.high - residual.value)


def replicated_interval(
    by_replicate: ArrayLike, image_variance: float, images: int, between: tuple[float, float] | None = None
) -> Interval:
    """The mean of one number per replicate; `image_variance` is its variance over samples of the images.

    Where nothing varies, p is that of as many equal signs as there are images.

    >>> interval = replicated_interval([0.4, 0.5, 0.6], 0.0, 100)
    >>> round(interval.value, 3), round(interval.low, 3), round(interval.high, 3), interval.df
    (0.5, 0.252, 0.748, 2.0)
    """
    values = np.asarray(by_replicate, dtype=float)
    mean = float(values.mean()) if values.size else math.nan
    error, df = (float(part) for part in standard_error(values, image_variance, images, between))
    half = float(t_quantile(max(df, 1))) * error
    p = float(two_sided_p(mean, error, df))
    if error == 0:
        p = 1.0 if mean == 0 else min(1.0, 2.0 ** (1 - images))
    return Interval(mean, mean - half, mean + half, images, len(values), df, p)


def half_width(by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike) -> Numbers:
    """Half the width of the 95 % interval of the mean over the first axis; NaN where nothing can be said."""
    error, df = standard_error(by_replicate, image_variance, images)
    return np.asarray(t_quantile(np.maximum(df, 1)) * error)


def standard_error(
    by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike, between: tuple[float, float] | None = None
) -> tuple[Numbers, Numbers]:
    """Standard error of the mean over the first axis, and Satterthwaite's degrees of freedom of it."""
    values, n = np.asarray(by_replicate, dtype=float), np.asarray(images, dtype=float)
    replicates = len(values)
    part: tuple[ArrayLike, ArrayLike] = (0.0, 1)
    if between is not None and math.isfinite(between[0]):
        part = between
    elif replicates > 1:
        part = (values.var(0, ddof=1) / replicates, replicates - 1)
    within = np.where(n > 1, np.asarray(image_variance, dtype=float), np.nan)
    variance, df = satterthwaite(part, (within, n - 1))
    return np.asarray(np.sqrt(variance)), df


def satterthwaite(*parts: tuple[ArrayLike, ArrayLike]) -> tuple[Numbers, Numbers]:
    """The sum of independent variances, each given with its degrees of freedom, and approximate ones of the sum."""
    variances = [np.asarray(variance, dtype=float) for variance, _ in parts]
    total = np.asarray(sum(variances))
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = sum(np.where(v > 0, v**2 / df, 0.0) for v, (_, df) in zip(variances, parts, strict=True))
        return total, np.asarray(np.where(squares > 0, total**2 / squares, np.inf))


def t_quantile(df: ArrayLike, level: float = LEVEL) -> Numbers:
    """Half width, in standard errors, of a two-sided t-interval; NaN without degrees of freedom."""
    return np.asarray(scipy.stats.t.isf((1 - level) / 2, _positive(df)))


def two_sided_p(difference: ArrayLike, error: ArrayLike, df: ArrayLike) -> Numbers:
    """Two-sided p of a t-test; NaN without a standard error or degrees of freedom."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(difference) / np.asarray(error, dtype=float)
    return np.asarray(2 * scipy.stats.t.sf(t, _positive(df)))


def nanmean(values: ArrayLike, axis: int = 0) -> Numbers:
    """Mean over an axis without NaN; NaN where there is nothing else."""
    table = np.asarray(values, dtype=float)
    present = np.isfinite(table)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(present, table, 0.0).sum(axis) / present.sum(axis))


def _positive(df: ArrayLike) -> Numbers:
    """Degrees of freedom as scipy takes them: NaN where there are none."""
    return np.where(np.asarray(df) > 0, df, np.nan)
