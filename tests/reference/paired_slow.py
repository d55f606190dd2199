"""Paired comparisons by loops over lists, without the package."""

from __future__ import annotations

import math

from scipy import optimize, stats


def paired(differences):
    """Mean, standard error and degrees of freedom of one difference per replicate."""
    n, mean = len(differences), sum(differences) / len(differences)
    return mean, math.sqrt(sum((d - mean) ** 2 for d in differences) / (n - 1) / n), n - 1


def crossed(first, second):
    """The same of (replicates, images) lists: two variances, and the degrees of freedom of the weighted quantile."""
    replicates, images = len(first), len(first[0])
    d = [[first[s][i] - second[s][i] for i in range(images)] for s in range(replicates)]
    rows = [sum(row) / images for row in d]
    columns = [sum(d[s][i] for s in range(replicates)) / replicates for i in range(images)]
    mean, between, few = paired(rows)
    _, within, many = paired(columns)
    weights = {few: between**2, many: within**2}
    quantile = sum(v * stats.t.isf(0.025, df) for df, v in weights.items()) / sum(weights.values())
    df = optimize.brentq(lambda df: stats.t.isf(0.025, df) - quantile, 0.5, 1e6, xtol=1e-12, rtol=1e-14)
    return mean, math.sqrt(between**2 + within**2), df


def t_test(mean, error, df):
    """Ends of the 95 % interval, and p."""
    half = stats.t.isf(0.025, df) * error
    return mean - half, mean + half, 2 * stats.t.sf(abs(mean) / error, df)


def holm(p):
    """{name: p adjusted by Holm's procedure}."""
    adjusted, least = {}, 0.0
    for rank, name in enumerate(sorted(p, key=p.get)):
        least = max(least, min(1.0, (len(p) - rank) * p[name]))
        adjusted[name] = least
    return adjusted


def areas(points, fractions):
    """{(estimator, replicate): trapezoid area over the fractions divided by their range}."""
    curves = {(e, s): {t: v for a, b, t, v in points if (a, b) == (e, s)} for e, s, *_ in points}
    steps = list(zip(fractions, fractions[1:], strict=False))
    return {
        place: sum((b - a) * (curve[a] + curve[b]) / 2 for a, b in steps) / (fractions[-1] - fractions[0])
        for place, curve in curves.items()
    }
