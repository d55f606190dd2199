"""Confidence intervals: the class that holds one, and Student's t for means over replicates, over images, over both.

The value of replicate s on image i is modelled as mu + a_s + b_i + e_si: every replicate sees the same images. The mean
over both has the variance of the replicates' means divided by their number, plus the variance of the images' means
divided by theirs. The sum counts the part of e twice, so that an interval is a little too wide and never too narrow.
The squares of the half widths that each variance alone would give add up (`cautious_df`). With one replicate only the
variance between images is left. The mean of values that lie between two bounds has an interval that is symmetric on the
logit scale (`bounded_interval`): near a bound replicates and images are skewed, and a symmetric interval misses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.design import LEVEL
from uproar.statistics.logit_scale import logit_mean
from uproar.statistics.student_t import Numbers, cautious_df, satterthwaite, t_quantile, two_sided_p

Scale = Literal["linear", "fisher", "logit", "angle"]
"""On which scale an interval is symmetric: the estimate's own, arctanh of a correlation, the logit between limits, the
arcsine of the correlation behind a signed R²."""
Limits = tuple[float, float]
UNLIMITED: Limits = (-math.inf, math.inf)
_NEAR_ONE = 1 - 1e-12
ROUNDING = 1e-12
"""Values that vary by less than this share of the largest do not vary: the rest is rounding."""
NO_SPREAD = "the replicates do not vary at all: are they copies of one run?"
"""Why there is no interval and no test over replicates."""
SAME_EVERYWHERE = "the same in every image: it has no interval, and p is that of as many equal signs"
"""Why there is no interval over the images of one replicate."""


def to_fisher(correlation: ArrayLike) -> Numbers:
    """Fisher's z of correlations; finite for 1 and -1 too."""
    return np.asarray(np.arctanh(np.clip(correlation, -_NEAR_ONE, _NEAR_ONE)))


def _to_logit(value: float, limits: Limits) -> float:
    return float(scipy.special.logit((value - limits[0]) / (limits[1] - limits[0])))


def _from_logit(value: float, limits: Limits) -> float:
    return limits[0] + (limits[1] - limits[0]) * float(scipy.special.expit(value))


def to_angle(value: float) -> float:
    """The arcsine of a correlation, of its square with the correlation's sign."""
    return math.copysign(math.asin(math.sqrt(min(abs(value), 1.0))), value)


def _from_angle(angle: float) -> float:
    correlation = math.sin(min(max(angle, -math.pi / 2), math.pi / 2))
    return correlation * abs(correlation)


_SCALES: dict[Scale, tuple[Callable[[float, Limits], float], Callable[[float, Limits], float]]] = {
    "linear": (lambda value, _: value, lambda value, _: value),
    "fisher": (lambda value, _: float(to_fisher(value)), lambda value, _: math.tanh(value)),
    "logit": (_to_logit, _from_logit),
    "angle": (lambda value, _: to_angle(value), lambda angle, _: _from_angle(angle)),
}
"""To the scale, and back; the second argument is the range of what is estimated."""


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
    """Degrees of freedom of the t quantile; NaN for an interval that is not Student's."""
    p: float = math.nan
    """Two-sided p of "the value is 0"; NaN where there is no test."""
    level: float = LEVEL
    scale: Scale = "linear"
    limits: Limits = UNLIMITED
    """The range of what is estimated, where ends were cut to it or lie in it by their scale."""
    error: float = math.nan
    """The standard error on the scale, where it does not follow from the ends."""
    centre: float = math.nan
    """The middle of the interval on the scale, where it is not the value."""
    note: str = ""
    """Why it has no ends, or that its standard error is larger than the pooled one (`twoway.own_error_note`)."""

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
        """The standard error on the interval's scale; without degrees of freedom that of a normal interval."""
        if math.isfinite(self.error):
            return self.error
        return (self._to(self.high) - self._to(self.low)) / 2 / float(t_quantile(self._df, self.level))

    @property
    def _df(self) -> float:
        return math.inf if math.isnan(self.df) else self.df

    @property
    def _middle(self) -> float:
        return self._to(self.value) if math.isnan(self.centre) else self.centre

    def _to(self, value: float) -> float:
        return _SCALES[self.scale][0](value, self.limits)

    def p_against(self, bound: float) -> float:
        """Two-sided p of "the value is `bound`"; without degrees of freedom that of a normal interval."""
        if math.isnan(self.low):
            return math.nan
        error = self.standard_error
        if self.value == bound or not error > 0:
            return float(self.value == bound)
        return float(two_sided_p(self._middle - self._to(bound), error, self._df))

    def at_level(self, level: float) -> Interval:
        """The same estimate with its interval at another confidence level.

        >>> print(mean_interval([0.4, 0.5, 0.6]).at_level(0.99))
        0.50 [-0.07, 1.07]
        """
        return replace(self._with_half(self._df, level), level=level) if math.isfinite(self.low) else self

    def _with_half(self, df: float, level: float) -> Interval:
        """With the ends that a t quantile gives, inside the limits."""
        back, error = _SCALES[self.scale][1], self.standard_error
        half, middle = error * float(t_quantile(df, level)), self._middle
        ends = (back(end, self.limits) for end in (middle - half, middle + half))
        low, high = (min(max(end, self.limits[0]), self.limits[1]) for end in ends)
        if self.scale == "logit":  # its middle is not the value, which may be a limit itself
            low, high = min(low, self.value), max(high, self.value)
        return replace(self, low=low, high=high, error=error)

    def __neg__(self) -> Interval:
        limits = (-self.limits[1], -self.limits[0])
        return replace(self, value=-self.value, low=-self.high, high=-self.low, limits=limits, centre=-self.centre)

    def clipped(self, low: float, high: float) -> Interval:
        """The same with ends inside the range of what is estimated."""
        error = self.standard_error
        return replace(self, low=max(self.low, low), high=min(self.high, high), limits=(low, high), error=error)

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Value and half width, e.g. `0.31 ± 0.04`; the value alone where there is no interval."""
        value = f"{scale * self.value:.{digits}f}"
        return value if math.isnan(self.half_width) else f"{value} ± {scale * self.half_width:.{digits}f}"

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

    def where(self, other: Measurements) -> Measurements:
        """The same on the images and in the replicates where another has a value too."""
        by_image = np.where(np.isfinite(other.by_image), self.by_image, np.nan)
        if self.statistic is None or other.statistic is None:
            return replace(self, by_image=by_image)
        return replace(self, statistic=np.where(np.isfinite(other.statistic), self.statistic, np.nan))

    @property
    def by_replicate(self) -> Numbers:
        """(replicates,): the metric's number of each replicate."""
        return nanmean(self.by_image, 1) if self.statistic is None else self.statistic

    def interval(self, between: tuple[float, float] | None = None, limits: Limits = UNLIMITED) -> Interval:
        """The mean over replicates with an interval that allows for other replicates and other images.

        `between` is the variance of that mean over replicates with its degrees of freedom, where it is known better
        than from these replicates alone; `limits` the range of the metric, for the interval of a single value
        (`bounded_interval`). Images and replicates without a value are left out; `n` counts the images that have one in
        any replicate.
        """
        by_replicate, variance, n = self.components()
        if between is None and np.isfinite(limits).all():
            return bounded_interval(by_replicate, variance, n, limits)
        interval = replicated_interval(by_replicate, variance, n, between)
        return interval if limits == UNLIMITED else interval.clipped(*limits)

    def components(self) -> tuple[Numbers, float, int]:
        """The number of each replicate, the variance of their mean over images, and how many images there are."""
        if self.statistic is None or self.resampled is None:
            return _crossed(self.by_image)
        used = np.isfinite(self.statistic)
        n = self.by_image.shape[1]  # all images make a statistic, also where it has no value of a single one
        draws = self.resampled[used].mean(0) if used.any() else np.zeros(0)
        draws = draws[np.isfinite(draws)]
        return self.statistic[used], float(draws.var(ddof=1)) if len(draws) > 1 else math.nan, n


def t_interval(value: float, error: float, df: float, n: int) -> Interval:
    """Student's interval of a value over n replicates, from its standard error; NaN ends and p without one."""
    if not error > 0:
        return Interval(float(value), n=n, replicates=n, note=NO_SPREAD if n > 1 else "")
    half = float(t_quantile(df) * error)
    p = float(two_sided_p(value, error, df))
    return Interval(float(value), float(value) - half, float(value) + half, n, n, float(df), p)


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
        return t_interval(mean, float(finite.std(ddof=1) / math.sqrt(n)), n - 1, n)
    return Interval(mean, mean, mean, n, n) if n > 1 and exact else t_interval(mean, math.nan, math.nan, n)


def crossed_mean(values: ArrayLike, between: tuple[float, float] | None = None, worst: float | None = None) -> Interval:
    """The mean of (replicates, images) values, with NaN left out; one replicate gives the t-interval over images.

    `between`: see `Measurements.interval`. Values that do not vary have no interval; with `worst` they have that of one
    more image with this value: networks that were always right may get the next image wrong.

    >>> print(crossed_mean([[0.0, 0.5, 1.0]]))
    0.50 [-0.74, 1.74]
    >>> print(crossed_mean(np.ones((3, 20))), crossed_mean(np.ones((3, 20)), worst=0.0))
    1.00 [nan, nan] 1.00 [0.85, 1.05]
    """
    mean = replicated_interval(*_crossed(values), between)
    if worst is None or math.isfinite(mean.low):
        return mean
    table = np.atleast_2d(np.asarray(values, dtype=float))
    with_one = replicated_interval(*_crossed(np.c_[table, np.full(len(table), worst)]), between)
    return replace(with_one, value=mean.value, n=mean.n, centre=with_one.value)


def _crossed(values: ArrayLike) -> tuple[Numbers, float, int]:
    """Of (replicates, images) values: the replicates' means, the variance of the images' mean, how many images."""
    table = np.atleast_2d(np.asarray(values, dtype=float))
    by_replicate, by_image = nanmean(table, 1), nanmean(table, 0)
    by_replicate, by_image = by_replicate[np.isfinite(by_replicate)], by_image[np.isfinite(by_image)]
    n = len(by_image)
    return by_replicate, float(by_image.var(ddof=1) / n) if n > 1 else math.nan, n


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

    Where nothing varies there is no interval, and with several replicates no test; of one replicate p is that of as
    many equal signs as there are images.

    >>> interval = replicated_interval([0.4, 0.5, 0.6], 0.0, 100)
    >>> round(interval.value, 3), round(interval.low, 3), round(interval.high, 3), round(interval.df, 3)
    (0.5, 0.252, 0.748, 2.0)
    """
    values = np.asarray(by_replicate, dtype=float)
    mean = float(values.mean()) if values.size else math.nan
    error, df = (float(part) for part in standard_error(values, image_variance, images, between))
    if error <= ROUNDING * np.abs(values).max(initial=0):
        if len(values) > 1:
            return Interval(mean, n=images, replicates=len(values), note=NO_SPREAD)
        return Interval(mean, n=images, p=2.0 ** (1 - images) if mean else 1.0, note=SAME_EVERYWHERE)
    half = float(t_quantile(max(df, 1))) * error
    p = float(two_sided_p(mean, error, df))
    return Interval(mean, mean - half, mean + half, images, len(values), df, p)


def bounded_interval(by_replicate: ArrayLike, image_variance: float, images: int, limits: Limits) -> Interval:
    """The mean of one number per replicate, each a mean of values between two limits; symmetric on the logit scale.

    The value is the plain mean, which the interval holds; see `logit_mean`. Values that are all the same inside the
    limits have no interval.

    >>> print(bounded_interval([0.97, 0.99, 0.95], 0.0001, 200, (0, 1)))
    0.97 [0.78, 1.00]
    >>> print(bounded_interval([0.0], 0.0, 20, (0, 1)))
    0.00 [0.00, 0.34]
    """
    values, span = np.asarray(by_replicate, dtype=float), limits[1] - limits[0]
    plain = Interval(float(values.mean()) if values.size else math.nan, n=images, replicates=len(values))
    if images < 2 or not math.isfinite(plain.value + image_variance):
        return plain
    shares = np.clip((values - limits[0]) / span, 0, 1)
    centre, error, df = (float(part) for part in logit_mean(shares, image_variance / span**2, images))
    if not error > ROUNDING:  # all values are the same, and none of the bounds
        return replace(plain, note=NO_SPREAD)
    interval = replace(plain, df=df, scale="logit", limits=limits, error=error, centre=centre, low=plain.value)
    interval = interval.at_level(LEVEL)
    return replace(interval, p=interval.p_against(0.0)) if limits[0] <= 0 <= limits[1] else interval


def half_width(by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike) -> Numbers:
    """Half the width of the 95 % interval of the mean over the first axis; NaN where nothing can be said."""
    error, df = standard_error(by_replicate, image_variance, images)
    return np.asarray(t_quantile(np.maximum(df, 1)) * error)


def standard_error(
    by_replicate: ArrayLike, image_variance: ArrayLike, images: ArrayLike, between: tuple[float, float] | None = None
) -> tuple[Numbers, Numbers]:
    """Standard error of the mean over the first axis, and its degrees of freedom.

    With a variance between replicates that is known from more than these (`between`), Satterthwaite's; from these
    replicates alone those of `cautious_df`.
    """
    values, n = np.asarray(by_replicate, dtype=float), np.asarray(images, dtype=float)
    replicates = len(values)
    within = np.where(n > 1, np.asarray(image_variance, dtype=float), np.nan)
    if between is not None and math.isfinite(between[0]):
        variance, df = satterthwaite(between, (within, n - 1))
    elif replicates > 1:
        own = values.var(0, ddof=1) / replicates
        variance, df = own + within, cautious_df((own, replicates - 1), (within, n - 1))
    else:
        variance, df = satterthwaite((within, n - 1))
    return np.asarray(np.sqrt(variance)), df


def nanmean(values: ArrayLike, axis: int = 0) -> Numbers:
    """Mean over an axis without NaN; NaN where there is nothing else."""
    table = np.asarray(values, dtype=float)
    present = np.isfinite(table)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(present, table, 0.0).sum(axis) / present.sum(axis))
