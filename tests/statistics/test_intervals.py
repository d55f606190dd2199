"""Intervals of means over replicates, images and both; of shares; at other levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from uproar.statistics.intervals import (
    Measurements,
    crossed_mean,
    half_width,
    mean_interval,
    replicated_interval,
    resampled_interval,
)


def test_independent_values_and_images_of_one_network_have_students_interval():
    values = np.random.default_rng(0).normal(0.4, 1, 12)
    low, high = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    for interval in (
        mean_interval([*values, math.nan]),
        crossed_mean(values[None]),
        crossed_mean([[*values, math.nan]]),
    ):
        assert (interval.value, interval.low, interval.high, interval.n) == pytest.approx(
            (values.mean(), low, high, 12)
        )
        assert interval.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_without_variance_between_images_it_is_the_t_test_over_replicates():
    values = np.array([0.3, 0.5, 0.45, 0.7])
    test = stats.ttest_1samp(values, 0)
    interval = replicated_interval(values, 0.0, 100)
    assert (interval.low, interval.high, interval.p) == pytest.approx((*test.confidence_interval(), test.pvalue))


def test_points_of_a_curve_are_those_of_single_intervals():
    means = np.array([[0.1, 0.8], [0.3, 0.9], [0.2, 0.4]])
    variances, images = np.array([0.01, 0.0004]), np.array([20, 50])
    widths = half_width(means, variances, images)
    for point in range(2):
        alone = replicated_interval(means[:, point], variances[point], int(images[point]))
        assert widths[point] == pytest.approx(alone.half_width)


def test_a_share_of_one_networks_images_has_wilsons_interval():
    hits = (np.arange(40) < 31).astype(float)
    interval = Measurements(hits[None]).interval((0.0, 1.0))
    z, p, n = stats.norm.isf(0.025), 31 / 40, 40
    centre = (p + z**2 / 2 / n) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / 4 / n**2)
    assert (interval.value, interval.low, interval.high) == pytest.approx((p, centre - half, centre + half))
    assert interval.p_against(interval.low) == pytest.approx(0.05)
    assert interval.at_level(0.99).p_against(interval.at_level(0.99).high) == pytest.approx(0.01)
    always = Measurements(np.ones((3, 40))).interval((0.0, 1.0))
    assert (always.low, always.high) == pytest.approx((1 / (1 + z**2 / 40), 1))
    assert not Measurements(np.tile(hits, (5, 1)) * [[1], [1], [0], [1], [1]]).interval((0.0, 1.0)).wilson
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    assert (interval.low, interval.high) == pytest.approx(proportion.proportion_confint(31, 40, method="wilson"))


def test_differences_of_zeros_and_ones_are_no_shares():
    ones, zeros = np.array([[1.0, 1, 0, 1]]), np.array([[0.0, 1, 0, 0]])
    interval = (Measurements(ones) - Measurements(zeros)).interval()
    assert not interval.wilson and interval.p == pytest.approx(stats.ttest_rel(ones[0], zeros[0]).pvalue)


def test_ends_are_cut_at_the_bounds_of_the_metric_and_tests_are_not():
    values = np.array([[0.9, 0.99, 1.0, 0.7]])
    plain, cut = Measurements(values).interval(), Measurements(values).interval((0.0, 1.0))
    assert plain.high > 1 == cut.high and plain.low == cut.low
    assert cut.p_against(0.5) == pytest.approx(plain.p_against(0.5))
    assert cut.at_level(0.8).low == pytest.approx(plain.at_level(0.8).low)
    assert (-cut).limits == (-1.0, -0.0) and (-cut).low == -1


def test_another_level_and_the_p_value_agree():
    interval = mean_interval([0.1, -0.3, 0.25, 0.4, 0.3])
    assert interval.at_level(1 - interval.p).low == pytest.approx(0, abs=1e-12)
    assert interval.p_against(interval.high) == pytest.approx(0.05)


def test_what_does_not_vary_or_is_alone_has_no_interval():
    for interval in (
        mean_interval([0.5]),
        mean_interval([0.5] * 5),
        crossed_mean(np.ones((3, 9))),
        crossed_mean([[0.5]]),
    ):
        assert np.isnan([interval.low, interval.high, interval.p]).all()
    assert crossed_mean(np.ones((3, 20)), worst=0.0).low < 1
    assert np.isnan(mean_interval([]).value)


def test_a_resampled_statistic_has_the_standard_deviation_of_its_draws():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    draws = [rng.choice(values, 200).mean() for _ in range(2000)]
    interval = resampled_interval([values.mean()], [draws], 200)
    assert interval.half_width == pytest.approx(mean_interval(values).half_width, rel=0.05)
