"""Correlations and concordance: equal to SciPy, to published numbers and to sums done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from uproar.statistics.correlation import (
    concordance,
    correlation_interval,
    line_interval,
    row_correlations,
    spread_interval,
)

NAN = math.nan
DRAWS = np.random.default_rng(0)


def test_rows_are_correlated_one_by_one():
    a, b = DRAWS.normal(size=(2, 6, 5))
    a[1, 2] = NAN
    expected = [stats.spearmanr(x, y, nan_policy="omit").statistic for x, y in zip(a, b, strict=True)]
    assert row_correlations(a, b) == pytest.approx(expected)
    assert row_correlations(a[2:], b[2:], ranked=False)[0] == pytest.approx(stats.pearsonr(a[2], b[2]).statistic)


def test_kendalls_w_by_hand_with_ties_and_by_friedman():
    # rank sums 4, 5, 9 around 6: S = 4 + 1 + 9 = 14; W = 12·14 / (9·24)
    assert concordance([[1, 2, 3], [1, 2, 3], [2, 1, 3]])[0] == pytest.approx(12 * 14 / (9 * 24))
    scores = DRAWS.integers(0, 4, size=(5, 7)).astype(float)
    test = stats.friedmanchisquare(*scores.T)
    assert concordance(scores) == (pytest.approx(test.statistic / 30), pytest.approx(test.pvalue, abs=0.05))
    assert concordance(np.tile(np.arange(6.0), (4, 1)))[1] < 0.01
    assert np.isnan(concordance(np.ones((3, 4)))).all() and np.isnan(concordance(np.ones((3, 2)))).all()


def test_the_interval_of_a_correlation_is_about_fishers_for_one_network():
    x = DRAWS.normal(size=400)
    values = np.stack([x, x + 1.2 * DRAWS.normal(size=400)], 1)
    interval = correlation_interval(values[None, None], ranked=False)
    reference = stats.pearsonr(*values.T)
    low, high = reference.confidence_interval()
    assert interval.value == pytest.approx(reference.statistic)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.02)
    assert correlation_interval(np.stack([values, values])[:, None]).value == pytest.approx(
        row_correlations(*values.T[:, None])[0]
    )


def test_the_spread_of_correlations_is_the_difference_of_standard_deviations():
    x = DRAWS.normal(size=(5, 4, 60))
    noise = np.array([0.1, 1.0, 3.0, 9.0])[None, :, None]
    first = np.stack([x, x + noise * DRAWS.normal(size=x.shape)], -1)
    second = np.stack([x, x + DRAWS.normal(size=x.shape)], -1)
    spreads = [
        np.std([[row_correlations(*m.T[:, None])[0] for m in one] for one in t], axis=1, ddof=1)
        for t in (first, second)
    ]
    interval = spread_interval(first, second)
    assert interval.value == pytest.approx(np.mean(spreads[0] - spreads[1]))
    assert interval.low > 0


def test_the_r_squared_of_a_line_is_the_mean_over_replicates_with_the_t_interval():
    x = np.arange(6.0)
    y = -x + DRAWS.normal(size=(5, 6))
    each = [-(stats.linregress(x, one).rvalue ** 2) for one in y]
    low, high = stats.t.interval(0.95, 4, np.mean(each), stats.sem(each))
    interval = line_interval(x, y)
    assert (interval.value, interval.low, interval.high) == pytest.approx((np.mean(each), max(low, -1), high))
