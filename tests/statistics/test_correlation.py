"""Correlations and concordance: equal to SciPy, to published numbers and to sums done by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from uproar.statistics.correlation import (
    association_matrix,
    concordance,
    correlation_interval,
    krippendorff_alpha,
    line_interval,
    partial_spearman,
    row_correlations,
    spearman,
    spread_interval,
)

NAN = math.nan
DRAWS = np.random.default_rng(0)


def association(a, b):
    """The correlation that the matrix has of two columns."""
    return association_matrix(np.stack([np.asarray(a, float), np.asarray(b, float)], 1))[0, 1]


def test_two_continuous_metrics_have_spearmans_correlation():
    a, b = DRAWS.normal(size=(2, 50)).round(1)  # with ties
    assert association(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    # by hand: ranks 1 2 3 4 and 2 1 4 3, so 1 − 6·4 / (4·15)
    assert association([10, 20, 30, 40], [0.2, 0.1, 0.9, 0.8]) == pytest.approx(0.6)


def test_one_binary_metric_has_the_point_biserial_correlation_and_two_have_pearsons():
    hit, value = (DRAWS.random(40) < 0.4).astype(float), DRAWS.exponential(size=40)
    assert association(hit, value) == pytest.approx(stats.pointbiserialr(hit, value).statistic)
    assert association(value, -hit) == pytest.approx(-stats.pointbiserialr(hit, value).statistic)
    other = (DRAWS.random(40) < 0.6).astype(float)
    assert association(hit, other) == pytest.approx(stats.pearsonr(hit, other).statistic)


def test_undefined_pairs_do_not_count_and_nothing_is_made_of_nothing():
    assert association([1, 2, 3, NAN, 5], [2, 4, 6, 0, NAN]) == pytest.approx(1)
    assert math.isnan(association([1, 1, 1], [1, 2, 3]))
    assert math.isnan(association([1, 2, NAN], [1, 2, 3]))


def test_the_matrix_holds_every_pair_and_no_metric_with_itself():
    table = DRAWS.normal(size=(30, 4))
    table[:, 2] = table[:, 2] > 0
    holes = table.copy()
    holes[3, 0] = NAN
    more = holes.copy()
    more[[4, 5], 1] = more[4, 3] = NAN
    for x in (table, holes, more):
        matrix = association_matrix(x)
        assert np.isnan(np.diag(matrix)).all()
        for i, j in itertools.permutations(range(4), 2):
            both = np.isfinite(x[:, i]) & np.isfinite(x[:, j])
            reference = stats.pearsonr if 2 in (i, j) else stats.spearmanr
            assert matrix[i, j] == pytest.approx(reference(x[both, i], x[both, j]).statistic)
    both = np.stack([holes, more])
    assert np.array_equal(association_matrix(both), [association_matrix(x) for x in both], equal_nan=True)
    assert np.isnan(association_matrix(np.array([[1.0, NAN], [2.0, 1.0], [NAN, 3.0]]))).all()


def test_the_partial_correlation_is_that_of_what_ranks_of_the_third_leave_over():
    easy = DRAWS.normal(size=400)
    a, b = easy + 0.3 * DRAWS.normal(size=400), easy + 0.3 * DRAWS.normal(size=400)
    ranks = [stats.rankdata(v) for v in (a, b, easy)]
    rest = [r - np.polyval(np.polyfit(ranks[2], r, 1), ranks[2]) for r in ranks[:2]]
    assert partial_spearman(a, b, easy) == pytest.approx(stats.pearsonr(*rest).statistic)
    assert association(a, b) > 0.8
    assert abs(partial_spearman(a, b, easy)) < 0.15
    assert math.isnan(partial_spearman(easy, b, easy))


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


def test_krippendorffs_alpha_of_his_own_example():
    ratings = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
            [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
        ]
    )
    assert krippendorff_alpha(ratings) == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha([[1, 2, 3], [1, 2, 3]]) == pytest.approx(1)
    assert krippendorff_alpha([[1, 2, 3], [3, 2, 1]]) < 0


def test_the_interval_of_a_correlation_is_about_fishers_for_one_network():
    x = DRAWS.normal(size=400)
    values = np.stack([x, x + 1.2 * DRAWS.normal(size=400)], 1)
    interval = correlation_interval(values[None, None], ranked=False)
    reference = stats.pearsonr(*values.T)
    low, high = reference.confidence_interval()
    assert interval.value == pytest.approx(reference.statistic)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.02)
    assert correlation_interval(np.stack([values, values])[:, None]).value == pytest.approx(spearman(*values.T))


def test_the_spread_of_correlations_is_the_difference_of_standard_deviations():
    x = DRAWS.normal(size=(5, 4, 60))
    noise = np.array([0.1, 1.0, 3.0, 9.0])[None, :, None]
    first = np.stack([x, x + noise * DRAWS.normal(size=x.shape)], -1)
    second = np.stack([x, x + DRAWS.normal(size=x.shape)], -1)
    spreads = [np.std([[spearman(*m.T) for m in one] for one in t], axis=1, ddof=1) for t in (first, second)]
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


def test_partial_spearman_leaves_triples_with_a_nan_out_wherever_it_is_asked():
    a, b, given = DRAWS.normal(size=(3, 12))
    a, b = a + given, b + given + a
    whole = partial_spearman(a, b, given)
    with_gaps = partial_spearman([*a, 3.0, NAN, 1.0], [*b, NAN, 2.0, 5.0], [*given, 0.5, 0.1, NAN])
    assert with_gaps == whole == partial_spearman([*a, NAN], [*b, 0.0], [*given, 0.0])
    assert math.isnan(partial_spearman([1, 2, NAN, 4], [2, NAN, 1, 3], [1, 2, 3, 4])), "two triples are too few"
    x, y, z = (stats.rankdata(v) for v in (a, b, given))
    left = [v - np.polyval(np.polyfit(z, v, 1), z) for v in (x, y)]
    assert whole == pytest.approx(stats.pearsonr(*left).statistic)
