"""The two-way comparison with a baseline, written out: dummy variables, loops, no shortcuts."""

import math

import numpy as np
from scipy import stats


def curve_areas(rows, fractions):
    """{(estimator, replicate): area} of the curves that have a value at every fraction."""
    points = {(e, s, t): v for e, s, t, v in rows if not math.isnan(v)}
    found = {}
    for e, s in {(e, s) for e, s, _ in points}:
        if all((e, s, t) in points for t in fractions):
            heights = [points[e, s, t] for t in fractions]
            total = 0.0
            for k in range(len(fractions) - 1):
                total += (fractions[k + 1] - fractions[k]) * (heights[k] + heights[k + 1]) / 2
            width = fractions[-1] - fractions[0]
            found[e, s] = total / width if width else heights[0]
    return found


def fit(areas):
    """(design, coefficients, residual sum of squares, degrees of freedom) on dummy variables."""
    names = sorted({e for e, _ in areas})
    replicates = sorted({s for _, s in areas})
    cells = sorted(areas)
    design = np.zeros((len(cells), len(names) + len(replicates)))
    for row, (e, s) in enumerate(cells):
        design[row, names.index(e)] = 1
        design[row, len(names) + replicates.index(s)] = 1
    y = np.array([areas[cell] for cell in cells])
    coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-10)
    squares = ((y - design @ coefficients) ** 2).sum()
    return design, coefficients, squares, len(cells) - rank


def contrast(areas, estimator, baseline):
    """(difference, standard error, degrees of freedom) of an estimator minus the baseline."""
    design, coefficients, squares, df = fit(areas)
    names = sorted({e for e, _ in areas})
    weights = np.zeros(design.shape[1])
    weights[names.index(estimator)] = 1
    weights[names.index(baseline)] = -1
    # the shortest combination of observations whose expectation is the contrast
    observed = np.linalg.lstsq(design.T, weights, rcond=1e-10)[0]
    return weights @ coefficients, math.sqrt(squares / df * (observed @ observed)), df


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


def variance_ratio(areas, estimator):
    """(F, df, df): what the residual gains when an estimator joins, over what it was without."""
    without = {cell: value for cell, value in areas.items() if cell[0] != estimator}
    _, _, many, many_df = fit(areas)
    _, _, few, few_df = fit(without)
    return (many - few) / (many_df - few_df) / (few / few_df), many_df - few_df, few_df
