"""The interval of a signed R² over replicates, written out: loops, and a search over the ellipse instead of its tangent."""

import math

import numpy as np
from scipy import stats


def line(x, y, level=0.95, steps=20001):
    """(low, high) of the line through the mean of y, (replicates, points), over x."""
    n, points = len(y), len(x)
    tail = (1 - level) / 2
    middle = sum(x) / points
    length = math.sqrt(sum((v - middle) ** 2 for v in x))
    unit = [(v - middle) / length for v in x]
    centred = [[v - sum(row) / points for v in row] for row in y]
    mean = [sum(row[k] for row in centred) / n for k in range(points)]
    own = [sum((row[k] - mean[k]) ** 2 for row in centred) / (n - 1) / (1 - 1 / points) for k in range(points)]
    df = (points - 1) * (n - 1) * sum(own) ** 2 / points / sum(v * v for v in own)

    slopes = [sum(v * u for v, u in zip(row, unit, strict=True)) for row in centred]
    slope = sum(slopes) / n
    weighted = [v * u * u for v, u in zip(own, unit, strict=True)]
    three = [
        (sum(own) / points, df),
        (sum(weighted), min(df, (n - 1) * sum(weighted) ** 2 / sum(v * v for v in weighted))),
        (sum((s - slope) ** 2 for s in slopes) / (n - 1), n - 1),
    ]
    variance, slope_df = max(three)
    half = stats.t.ppf(1 - tail, slope_df) * math.sqrt(variance / n)

    rest = [m - slope * u for m, u in zip(mean, unit, strict=True)]
    squared = sum(r * r for r in rest)
    noise = np.diag(own) / n
    off = np.eye(points) - np.full((points, points), 1 / points) - np.outer(unit, unit)
    covariance = off @ noise @ off
    degrees = np.trace(covariance) ** 2 / np.trace(covariance @ covariance)
    size = np.trace(covariance) / degrees
    towards = np.array(rest) @ noise @ np.array(rest) / squared
    wide = max(size, towards) * degrees * stats.f.ppf(1 - tail, degrees, df) / stats.chi2.ppf(1 - tail, degrees)
    low, high = distance(squared, degrees, wide, 1 - tail), distance(squared, degrees, wide, tail)
    median = min(max(distance(squared, degrees, size, 0.5), low), high)

    angles = [math.atan2(slope, math.sqrt(squared))]
    for turn in np.linspace(0, 2 * math.pi, steps):
        axis = high - median if math.sin(turn) > 0 else median - low
        angles.append(math.atan2(slope + half * math.cos(turn), median + axis * math.sin(turn)))
    if low == 0:  # the points may all lie on the line
        angles += [math.pi / 2] * int(slope + half > 0) + [-math.pi / 2] * int(slope - half < 0)
    return tuple(math.sin(a) * abs(math.sin(a)) for a in (min(angles), max(angles)))


def distance(squared, degrees, size, chance):
    """By halving: the distance under which a squared one, or a smaller, has this chance."""
    low, high = 0.0, 4 * squared / size + 200
    if stats.chi2.cdf(squared / size, degrees) <= chance:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if stats.ncx2.cdf(squared / size, degrees, middle) > chance else (low, middle)
    return math.sqrt(low * size)
