"""The comparison with a baseline and of pairs, written out: dummy variables, loops, no shortcuts."""

import math

import numpy as np
from scipy import optimize, stats

from reference.bounded_slow import half_images, skewed_half


def curve_areas(rows, fractions):
    """{(estimator, replicate): area} of the curves that have a value at every fraction."""
    points = {(e, s, t): v for e, s, t, v in rows if not math.isnan(v)}
    result = {}
    for e, s in {(e, s) for e, s, _ in points}:
        if all((e, s, t) in points for t in fractions):
            heights = [points[e, s, t] for t in fractions]
            total = 0.0
            for k in range(len(fractions) - 1):
                total += (fractions[k + 1] - fractions[k]) * (heights[k] + heights[k + 1]) / 2
            width = fractions[-1] - fractions[0]
            result[e, s] = total / width if width else heights[0]
    return result


def fit(areas):
    """(effect of each replicate, pooled residual variance, its degrees of freedom, the same where rows vary together,
    {row: (variance around the mean of the rows, degrees of freedom)} of rows with two values or more).

    `areas` holds the estimators that are compared, without the baseline. The degrees of freedom are those of the
    residuals, times (sum of the rows' variances)^2 / (rows * sum of their squares): one where all rows vary alike.
    """
    names = sorted({e for e, _ in areas})
    replicates = sorted({s for _, s in areas})
    cells = sorted(areas)
    design = np.zeros((len(cells), len(names) + len(replicates)))
    for row, (e, s) in enumerate(cells):
        design[row, names.index(e)] = 1
        design[row, len(names) + replicates.index(s)] = 1
    y = np.array([areas[cell] for cell in cells])
    coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-10)
    left = {cell: value - design[row] @ coefficients for row, (cell, value) in enumerate(zip(cells, y, strict=True))}
    network = {s: coefficients[len(names) + k] for k, s in enumerate(replicates)}
    rows = {}
    for name in names:
        mine = [left[e, s] for e, s in cells if e == name]
        if len(mine) > 1:
            rows[name] = (sum(r * r for r in mine) / (len(mine) - 1), len(mine) - 1)
    df = len(cells) - int(rank)
    if df == 0:
        return network, 0.0, 0.0, 0.0, rows
    variances = [v for v, _ in rows.values()]
    alike = sum(variances) ** 2 / (len(variances) * sum(v * v for v in variances))
    together = min(df * alike, family_df(left, names, replicates, df))
    return network, sum(r * r for r in left.values()) / df, df * alike, together, rows


def family_df(left, names, replicates, df):
    """Degrees of freedom of the residual variance where rows may vary together: m tr(S)^2 / tr(S^2), m = n - 1.

    S is the covariance of the rows' residuals, 0 where there is none; both traces are estimated without bias, and the
    second is taken 1 + 2 / m times as large.
    """
    m = len(replicates) - 1
    if m < 2 or df <= m:
        return df
    total = squares = 0.0
    for a in names:
        for b in names:
            covariance = sum(left.get((a, s), 0.0) * left.get((b, s), 0.0) for s in replicates) / m
            total += covariance if a == b else 0.0
            squares += covariance**2
    of_square = m * m / ((m - 1) * (m + 2)) * (squares - total * total / m)
    if of_square <= 0:
        return df
    square = total * total - 2 * of_square / m
    return min(df, max(m, m * square / (of_square * (1 + 2 / m))))


def variance(values):
    """On one degree of freedom less than there are values."""
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / (len(values) - 1)


def added(*parts):
    """The sum of variances, each with its degrees of freedom, and Satterthwaite's of the sum."""
    total = sum(v for v, _ in parts)
    return total, total**2 / sum(v**2 / df for v, df in parts if v)


def largest(pooled, single, own):
    """(variance, degrees of freedom) of the one that is largest."""
    chosen = pooled
    if single[0] > pooled[0] * (1 + 1e-12):
        chosen = (single[0], min(single[1], pooled[1]))
    return own if own[0] > chosen[0] * (1 + 1e-12) else chosen


def contrast(areas, estimator, baseline):
    """(difference, standard error, degrees of freedom) of an estimator minus the baseline."""
    others = {cell: value for cell, value in areas.items() if cell[0] != baseline}
    network, residual, residual_df, _, rows = fit(others)
    shared = [network[s] - areas[baseline, s] for s in network if (baseline, s) in areas]
    between = (variance(shared), len(shared) - 1)
    own = [areas[estimator, s] - areas[baseline, s] for s in network if {(estimator, s), (baseline, s)} <= set(areas)]
    n = len(own)
    pooled = added(between, (residual * (len(rows) - 1) / len(rows), residual_df))
    chosen, df = largest(pooled, added(between, rows[estimator]), (variance(own), n - 1))
    return sum(own) / n, math.sqrt(chosen / n), df


def pair(areas, first, second):
    """(difference, standard error, degrees of freedom) of two rows, neither of them the baseline, which is not there."""
    _, residual, _, residual_df, rows = fit(areas)
    replicates = sorted({s for e, s in areas if e == first} & {s for e, s in areas if e == second})
    own = [areas[first, s] - areas[second, s] for s in replicates]
    n = len(own)
    whole = len(rows) / (len(rows) - 1)  # of a row's variance around a mean that it is in
    single = added(*((whole * v, df) for v, df in (rows[first], rows[second])))
    chosen, df = largest((2 * residual, residual_df), single, (variance(own), n - 1))
    return sum(own) / n, math.sqrt(chosen / n), df


def holm(p):
    """Step down: the k-th smallest of m p-values times m - k + 1, never falling, at most 1."""
    adjusted = {}
    highest = 0.0
    for k, name in enumerate(sorted(p, key=p.get)):
        highest = max(highest, min(1.0, p[name] * (len(p) - k)))
        adjusted[name] = highest
    return adjusted


def compare(rows, fractions, baseline, higher_is_better, alpha):
    """{estimator: (advantage, low, high, p, p_holm)} for a table in which all are testable."""
    areas = curve_areas(rows, fractions)
    sign = 1 if higher_is_better else -1
    result, p = {}, {}
    for e in sorted({e for e, _ in areas} - {baseline}):
        difference, se, df = contrast(areas, e, baseline)
        p[e] = 2 * stats.t.cdf(-abs(difference / se), df)
        half = stats.t.ppf(1 - alpha / 2, df) * se
        result[e] = (sign * difference, sign * difference - half, sign * difference + half)
    adjusted = holm(p)
    return {e: (*values, p[e], adjusted[e]) for e, values in result.items()}


def pair_over_images(values, first, second):
    """(difference, standard error, degrees of freedom) of two of several methods; {method: (replicates, images)}."""
    means = {(name, s): float(row.mean()) for name, v in values.items() for s, row in enumerate(v)}
    difference, error, df = pair(means, first, second)
    by_image = (values[first] - values[second]).mean(0)
    total, total_df = added((error**2, df), (variance(by_image) / len(by_image), len(by_image) - 1))
    return difference, math.sqrt(total), total_df


def spread_near_bounds(values):
    """(mean, variance of the replicates' logits, these logits) of values (replicates, images) between 0 and 1, half an
    image added at either bound, with what replicates without a hit do not show."""
    n, images = values.shape
    means = [float(row.mean()) for row in values]
    mean = sum(means) / n
    of_values = images * variance(values.mean(0)) / images + sum((r - mean) ** 2 for r in means) / n
    phi = min(1.0, math.sqrt(of_values / (mean * (1 - mean)))) if 0 < mean < 1 else 1.0
    inner = [(images * r + phi / 2) / (images + phi) for r in means]
    logits = [math.log(r / (1 - r)) for r in inner]
    unseen, most = 0.0, half_images(0.0, images, 1 / math.sqrt(n)) * min(1.0, phi * math.sqrt(n))
    for r, logit in zip(means, logits, strict=True):
        unseen += min(half_images(r, images, phi), most) * logit**2 / 16
    return sum(inner) / n, variance(logits) + unseen / n, logits


def ratio_that_is_alike(logits, others):
    """The largest ratio of the variances of two methods that the test of Pitman and Morgan, which asks whether sums and
    differences are correlated, takes for one at a two-sided 50 %: found by trying, with the correlation as it is."""
    n = len(logits)
    if n == 2:
        return 1.0
    r = np.corrcoef(logits, others)[0, 1]

    def statistic(ratio):  # of one method with this variance, one with variance 1, and their correlation
        of_sum, of_difference = (ratio + 1 + sign * 2 * r * math.sqrt(ratio) for sign in (1, -1))
        correlation = (ratio - 1) / math.sqrt(of_sum * of_difference)
        return correlation * math.sqrt((n - 2) / max(1 - correlation**2, 1e-300))

    return optimize.brentq(lambda ratio: statistic(ratio) - stats.t.ppf(0.75, n - 2), 1, 1e6, xtol=1e-13)


def pair_between_bounds(values, first, second):
    """The same as `pair_over_images` of values between 0 and 1, and how much further below and above it may lie because
    one of the two varies more."""
    n = len(values[first])
    (m, a, x), (k, b, y) = (spread_near_bounds(values[name]) for name in (first, second))
    wide, calm = max(a, b), min(a, b)
    calm = min(wide, ratio_that_is_alike(x, y) * calm)
    middle = (m + k) / 2
    centre = math.log(middle / (1 - middle))
    below, above = [], []
    for v in (wide, calm):
        half = max(stats.t.ppf(0.975, n - 1) * math.sqrt(v / n), skewed_half(centre, v, n, 0.95))
        below.append(middle - 1 / (1 + math.exp(half - centre)))
        above.append(1 / (1 + math.exp(-half - centre)) - middle)
    further = below[0] - below[1], above[0] - above[1]
    return *pair_over_images(values, first, second), *(further if a > b else further[::-1])


def t_test(difference, error, df, below=0.0, above=0.0):
    """(low, high, p) at 95 %; `below` and `above` say how much further the truth may lie on either side."""
    quantile = stats.t.ppf(0.975, df)
    low, high = (math.sqrt((quantile * error) ** 2 + further**2) for further in (below, above))
    towards_zero = (low if difference > 0 else high) / quantile
    return difference - low, difference + high, 2 * stats.t.cdf(-abs(difference) / towards_zero, df)
