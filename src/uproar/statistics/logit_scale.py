"""Means of values between two bounds on the logit scale: their standard error, and what few replicates do not show.

Shares are values as a part of their range. Near a bound the values of replicates and images are skewed, and replicates
at a bound do not show how they differ.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.design import LEVEL
from uproar.statistics.student_t import Numbers, cautious_df, t_quantile

_NO_HIT = 2.0
"""What half images add to the variance of the logit of a replicate without a hit."""
_UNSEEN = 1 / 16
"""How much the logits of replicates without a hit may differ: their variance is an eighth of their squared distance
from the middle, which is this times the variance (`_NO_HIT`) that half images add to them."""


def logit_mean(shares: Numbers, image_variance: ArrayLike, images: int) -> tuple[Numbers, Numbers, Numbers]:
    """The logit of the mean over the first axis of shares of a range, its standard error and degrees of freedom.

    Half an image is added at either end of the range, as Haldane and Anscombe do for the logit of a count, weighted
    with the values' standard deviation relative to that of values which are all at one end or the other: fully where
    they are, hardly where values vary little.
    """
    mean, variance = np.asarray(shares.mean(0)), np.asarray(image_variance, dtype=float)
    spread = _spread(shares, variance, images)
    inner = _inside(shares, images, spread)
    middle = np.asarray(inner.mean(0))
    total = (images + spread) * (images + spread - 1)
    within = (images - 1) * images * variance / total / (middle * (1 - middle)) ** 2
    added = _added_variance(mean, middle, images, spread)
    within = within + np.minimum(added, _most_added(images, len(shares)))
    between = np.zeros_like(within)
    if len(shares) > 1:
        hidden = _hidden(shares, inner, images, spread)
        rest = _undrawn_half_width(middle, hidden) ** 2 - t_quantile(images - 1) ** 2 * within
        between = np.maximum(_logit_variance(inner, hidden), rest / t_quantile(len(shares) - 1) ** 2)
    df = cautious_df((within, images - 1), (between, max(len(shares) - 1, 1)))
    return np.asarray(scipy.special.logit(middle)), np.asarray(np.sqrt(within + between)), df


def logit_spread(shares: Numbers, image_variance: ArrayLike, images: int) -> tuple[Numbers, Numbers, Numbers]:
    """The mean over the first axis of shares of a range, the variance of their logits over the replicates, and these.

    All with the half images of `logit_mean`, the variance with what replicates without a hit do not show.

    >>> middle, variance, logits = logit_spread(np.array([0.97, 0.99, 0.95]), 0.0001, 200)
    >>> round(float(middle), 3), round(float(variance), 2), logits.round(1).tolist()
    (0.968, 0.62, [3.4, 4.4, 2.9])
    """
    spread = _spread(shares, np.asarray(image_variance, dtype=float), images)
    inner = _inside(shares, images, spread)
    hidden = _hidden(shares, inner, images, spread)
    return np.asarray(inner.mean(0)), _variance_of_logits(inner, hidden), np.asarray(scipy.special.logit(inner))


def _spread(shares: Numbers, image_variance: Numbers, images: int) -> Numbers:
    """The standard deviation of values between 0 and 1, relative to that of values which are all 0 or 1."""
    mean = shares.mean(0)
    most = mean * (1 - mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.sqrt((images * image_variance + shares.var(0)) / most)
    return np.where(most > 0, np.minimum(relative, 1.0), 1.0)


def _inside(shares: Numbers, images: int, spread: Numbers) -> Numbers:
    """Shares with half an image at either end, weighted with `spread`: none of them is 0 or 1."""
    return np.asarray((images * shares + spread / 2) / (images + spread))


def _added_variance(before: Numbers, after: Numbers, images: int, spread: Numbers) -> Numbers:
    """What half an image at either end, weighted with `spread`, adds to the variance of a mean's logit.

    2 where no image counts, .2 where one does, .1 where two do.
    """
    total = (images + spread) * (images + spread - 1)
    squares = images * (before - after) ** 2 + spread / 2 * (after**2 + (1 - after) ** 2)
    return np.asarray(squares / total / (after * (1 - after)) ** 2)


def _most_added(images: int, replicates: int) -> Numbers:
    """The same for values that are 0 or 1 where none of them is 1, by the means of images over some replicates.

    It is the most that half images may add. Values that vary less, and lie nearer to an end than a small part of an
    image, would else be those of which least is known.
    """
    none, weight = np.zeros(()), np.asarray(1 / math.sqrt(replicates))
    return _added_variance(none, _inside(none, images, weight), images, weight)


def _hidden(shares: Numbers, inner: Numbers, images: int, spread: Numbers) -> Numbers:
    """How little each replicate shows of how replicates differ: what half images add to the variance of its logit.

    Values that vary less than any that are 0 or 1 show it also next to an end.
    """
    calm = np.minimum(spread * math.sqrt(len(shares)), 1.0)
    most = _most_added(images, len(shares)) * calm
    return np.asarray(np.minimum(_added_variance(shares, inner, images, spread), most))


def _undrawn_half_width(mean: Numbers, hidden: Numbers) -> Numbers:
    """How far a mean over n replicates may lie towards the middle, on the logit scale, by what none of them is.

    If a part 1 - .05^(1/n) of all replicates had every hit, n replicates would hold none of that part in 5 % of
    studies. Replicates without a hit do not speak against it, and count as far as they are such (`hidden` is 2 then).
    """
    nearer = np.minimum(mean, 1 - mean)
    silent = np.minimum(hidden / _NO_HIT, 1.0).mean(0)
    part = -math.expm1(math.log1p(-LEVEL) / len(hidden))
    return np.asarray(scipy.special.logit(nearer + (1 - nearer) * part * silent) - scipy.special.logit(nearer))


def _logit_variance(shares: Numbers, hidden: Numbers) -> Numbers:
    """Variance of the logit of the mean share over replicates, on n - 1 degrees of freedom: the largest of three.

    That of the mean by the delta method, that of the mean of logits, and the one whose half width is that of
    `_skewed_half_width`: where replicates are skewed the others are too small whenever none of the long tail was drawn.
    Replicates without a hit all have the same logit and do not show how they differ. The variance that half images add
    to each logit (`hidden`) says which these are; they may differ in proportion to their distance from the middle.
    """
    n, mean = len(shares), shares.mean(0)
    delta = shares.var(0, ddof=1) / n / (mean * (1 - mean)) ** 2
    variance = scipy.special.logit(shares).var(0, ddof=1)
    skewed = _skewed_half_width(scipy.special.logit(mean), _variance_of_logits(shares, hidden), n) / t_quantile(n - 1)
    return np.asarray(np.maximum(np.maximum(delta, variance / n), skewed**2))


def _variance_of_logits(shares: Numbers, hidden: Numbers) -> Numbers:
    """Variance of the replicates' logits, with what those without a hit do not show of it; see `_logit_variance`."""
    logits = scipy.special.logit(shares)
    return np.asarray(logits.var(0, ddof=1) + _UNSEEN * (hidden * logits**2).mean(0))


def logit_half_width(centre: ArrayLike, variance: ArrayLike, n: int) -> Numbers:
    """Half width of the interval of a mean of n shares on the logit scale, from the variance of their logits.

    The larger of Student's, on n - 1 degrees of freedom, and that of `_skewed_half_width`.
    """
    student = t_quantile(n - 1) * np.sqrt(np.asarray(variance, dtype=float) / n)
    return np.asarray(np.maximum(student, _skewed_half_width(centre, variance, n)))


def _skewed_half_width(centre: ArrayLike, variance: ArrayLike, n: int) -> Numbers:
    """Half width of the interval of a mean of n shares whose logits are normal, from the variance of these logits.

    The logit of the mean of such shares is nearly mu / sqrt(1 + pi sigma^2 / 8). The interval joins that of mu, sigma
    being known, with that of sigma, mu being known, by the root of the sum of squares, as Zou, Huo and Taleban do for
    the mean of lognormal values. The bound of sigma has all of the error: the other end hardly ever misses.
    """
    towards_middle = np.asarray(centre) * (1 - _tail_factor(variance, n))
    return np.asarray(np.hypot(t_quantile(math.inf) * np.sqrt(np.asarray(variance) / n), towards_middle))


def _tail_factor(variance: ArrayLike, n: int) -> Numbers:
    """By what the logit of a mean of n shares may shrink because their long tail was not drawn; 1 without variance.

    `variance` is that of the replicates' logits, and the bound of sigma its 95 % bound on n - 1 degrees of freedom.
    """
    known = math.pi / 8 * np.asarray(variance, dtype=float)
    largest = known * (n - 1) / scipy.special.chdtri(n - 1, LEVEL)
    return np.asarray(np.sqrt((1 + known) / (1 + largest)))
