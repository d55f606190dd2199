"""Intervals with two variance components: replicates and images."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from reference.bounded_slow import bounded_mean
from uproar.statistics.intervals import Measurements, bounded_interval, crossed_mean, half_width, replicated_interval
from uproar.statistics.student_t import cautious_df, satterthwaite


def drawn(replicates, images, between, among, noise, seed, mean=0.0):
    """Values (replicates, images) of the model mu + a_s + b_i + e_si."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, between, (replicates, 1)), rng.normal(0, among, (1, images))
    return mean + a + b + rng.normal(0, noise, (replicates, images))


def test_with_one_replicate_it_is_the_t_test_over_images():
    values = drawn(1, 30, 0, 1, 0, 5, mean=0.4)
    reference = stats.ttest_1samp(values[0], 0)
    interval = crossed_mean(values)
    low, high = reference.confidence_interval()
    assert (interval.low, interval.high, interval.p) == pytest.approx((low, high, reference.pvalue))


def test_without_variance_between_images_it_is_the_t_test_over_replicates():
    values = np.array([0.3, 0.5, 0.45, 0.7])
    reference = stats.ttest_1samp(values, 0)
    interval = replicated_interval(values, 0.0, 100)
    assert interval.p == pytest.approx(reference.pvalue)
    assert (interval.low, interval.high) == pytest.approx(tuple(reference.confidence_interval()))


@pytest.mark.parametrize(("between", "among", "noise"), [(1, 0, 1), (0, 5, 1), (0.3, 2, 3), (0, 0, 1)])
def test_nothing_is_found_where_nothing_is_in_at_most_five_percent(between, among, noise):
    """Either variance component alone, both, or only the noise that is counted twice."""
    result = [crossed_mean(drawn(5, 40, between, among, noise, seed)).p < 0.05 for seed in range(500)]
    assert np.mean(result) < 0.08


def test_ignoring_the_images_would_find_what_is_not_there():
    """The check above can fail: with the variance between images left out, it does."""
    values = [drawn(5, 40, 0, 5, 1, seed) for seed in range(200)]
    assert np.mean([replicated_interval(v.mean(1), 0.0, 40).p < 0.05 for v in values]) > 0.5


def test_one_image_and_one_network_say_nothing_about_others():
    interval = replicated_interval([0.5], 0.0, 1)
    assert interval.value == 0.5
    assert np.isnan([interval.low, interval.high, interval.p]).all()


def test_points_of_a_curve_are_judged_each_for_itself():
    means = np.array([[0.1, 0.8], [0.3, 0.9], [0.2, 0.4]])
    variances, images = np.array([0.01, 0.0004]), np.array([20, 50])
    widths = half_width(means, variances, images)
    for point in range(2):
        alone = replicated_interval(means[:, point], variances[point], int(images[point]))
        assert widths[point] == pytest.approx((alone.high - alone.low) / 2)


@pytest.mark.parametrize(("n", "images", "between"), [(3, 20, 0.3), (3, 20, 0.5), (3, 200, 0.2), (5, 20, 0.5)])
def test_intervals_of_single_values_over_few_replicates_miss_no_more_often_than_they_say(n, images, between):
    """Variances between replicates and images of one size: with Satterthwaite's degrees of freedom 6 to 8 % miss."""
    rng, studies = np.random.default_rng(3), 1500
    values = rng.normal(0, between, (studies, n, 1)) + rng.normal(0, 0.5, (studies, 1, images))
    values = values + rng.normal(0, 0.4, (studies, n, images))
    missed = np.mean([crossed_mean(one).side != 0 for one in values])
    assert missed <= 0.06


def test_degrees_of_freedom_lie_between_those_of_the_parts():
    assert float(cautious_df((1.0, 2), (0.0, 50))) == pytest.approx(2)
    assert float(cautious_df((0.0, 2), (1.0, 50))) == pytest.approx(50)
    assert 2 < float(cautious_df((1.0, 2), (1.0, 50))) < float(satterthwaite((1.0, 2), (1.0, 50))[1])


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("kind", ["near a bound", "next to a bound", "0 or 1", "all 0", "calm"])
def test_the_interval_of_a_bounded_mean_is_that_of_a_slow_re_derivation(kind, n):
    x = np.random.default_rng(n).normal(0, 1, (n, 1)) + np.random.default_rng(9).normal(0, 1, (n, 30))
    made = {"near a bound": 1 / (1 + np.exp(4 - x)), "0 or 1": x > 1, "all 0": 0 * x, "calm": 0.6 + 0.01 * x}
    made["next to a bound"] = 1 / (1 + np.exp(9 - x))
    values = made[kind].astype(float)
    result = Measurements(values).interval(limits=(0, 1))
    assert (result.low, result.high) == pytest.approx(bounded_mean(values.tolist()), abs=1e-10)
    wide = Measurements(4 * values - 3).interval(limits=(-3, 1))
    assert (wide.value, wide.low, wide.high) == pytest.approx(
        [4 * v - 3 for v in (result.value, result.low, result.high)]
    )
    mirrored = Measurements(1 - values).interval(limits=(0, 1))
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - result.high, 1 - result.low))


@pytest.mark.parametrize("n", [1, 3])
def test_values_that_vary_little_next_to_a_bound_have_no_longer_interval_than_values_at_it(n):
    """Half an image with a small weight would else count as an observation of which nothing is known."""
    lengths = []
    for distance in (1e-3, 1e-4, 1e-5, 1e-6):
        values = 1 - 2 * distance * np.random.default_rng(0).random((n, 24))
        interval = Measurements(values).interval(limits=(0, 1))
        assert interval.low <= 1 - distance <= interval.high
        lengths.append(interval.high - interval.low)
    at_the_bound = Measurements(np.ones((n, 24))).interval(limits=(0, 1))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] < (at_the_bound.high - at_the_bound.low) / 2


def test_a_bounded_interval_is_students_where_values_are_far_from_the_bounds_and_many():
    values = np.random.default_rng(0).normal(0.5, 0.05, (5, 2000)) + np.random.default_rng(1).normal(0, 0.01, (5, 1))
    result, plain = (
        bounded_interval(values.mean(1), values.mean(0).var(ddof=1) / 2000, 2000, (0, 1)),
        crossed_mean(values),
    )
    assert (result.low, result.high, result.value) == pytest.approx((plain.low, plain.high, plain.value), abs=2e-4)


def test_a_bounded_interval_has_other_levels_and_tests_on_its_scale():
    interval = bounded_interval([0.1, -0.3, 0.25], 0.002, 50, (-1, 1))
    assert interval.at_level(1 - interval.p).low == pytest.approx(0, abs=1e-9)
    assert interval.p_against(interval.high) == pytest.approx(0.05)
    assert (-interval).at_level(0.95).low == pytest.approx(-interval.high)
    assert -1 < interval.at_level(0.999).low < interval.low < interval.value < interval.high < 1


@pytest.mark.parametrize("n", [3, 5, 8])
def test_counts_that_are_nearly_none_have_intervals_that_rise_with_the_count_and_narrow_with_the_images(n):
    """Every replicate has the same small count: the ends rise with it, and more replicates or images say more."""
    ends = []
    for images in (20, 200, 2000):
        counted = []
        for count in range(4):
            share = count / images
            result = bounded_interval([share] * n, share * (1 - share) / (images - 1), images, (0, 1))
            assert 0 <= result.low <= result.value <= result.high < 1
            more = bounded_interval([share] * 3 * n, share * (1 - share) / (images - 1), images, (0, 1))
            assert more.high < result.high
            counted.append((result.low, result.high))
        assert counted[0][0] == 0 and np.diff([low for low, _ in counted]).min() > 0
        ends.append([high for _, high in counted])
    assert np.diff(ends, axis=0).max() < 0


def test_three_replicates_without_a_hit_do_not_exclude_that_others_have_some():
    """Of networks that vary much, a third have none of 200 where one image in twenty is hit on average."""
    assert bounded_interval([0.0] * 3, 0.0, 200, (0, 1)).high > 0.2
    assert bounded_interval([0.0], 0.0, 200, (0, 1)).high < 0.05, "of one network the images are asked alone"
