"""Recovery of known orders: by hand, for a judge that knows, one that is turned round, one that draws lots."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.recovery import MOST_REPLICATES, recovery_of_images, replicates_needed


def judged(means, n=80, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return np.asarray(means)[:, None] + spread * rng.normal(size=(len(means), n))


def test_a_judge_that_knows_gets_one_and_one_turned_round_minus_one():
    values = judged([3, 2, 1, 0])
    right, turned = recovery_of_images(values), recovery_of_images(-values)
    assert (right.tau.value, right.right, right.wrong) == (1, 1, 0)
    assert (turned.tau.value, turned.right, turned.wrong) == (-1, 0, 1)
    assert math.isinf(turned.needed) and right.needed < 30
    assert right.spread == pytest.approx(3, abs=0.5)


def test_tau_is_the_mean_of_scipys_over_resamples():
    for seed in range(3):
        values = judged([0.2, 0.1, 0.0, -0.1, -0.2], seed=seed)
        rows = resampled_images(80).numpy()
        each = [scipy.stats.kendalltau(values[:, row].mean(1), [4, 3, 2, 1, 0]).statistic for row in rows]
        result = recovery_of_images(values).tau
        assert result.value == pytest.approx(np.mean(each))
        assert (result.low, result.high) == pytest.approx(np.quantile(each, [0.025, 0.975]))


def test_a_judge_that_draws_lots_is_at_zero_and_hardly_ever_confident():
    result = [recovery_of_images(judged([0, 0, 0, 0], seed=seed)) for seed in range(60)]
    assert abs(np.mean([one.tau.value for one in result])) < 0.1
    assert np.mean([one.wrong for one in result]) < 0.06
    assert np.mean([one.tau.low <= 0 <= one.tau.high for one in result]) > 0.9


def test_a_blind_judge_has_no_order():
    recovery = recovery_of_images(np.ones((4, 20)))
    assert (recovery.tau.value, recovery.right, recovery.wrong, recovery.spread) == (0, 0, 0, 0)
    assert math.isinf(recovery.needed)


def test_undefined_values_are_no_order_and_left_out_of_means():
    values = judged([2, 1, 0], spread=0.1)
    values[0, ::2] = np.nan
    assert recovery_of_images(values).tau.value == 1
    values[0] = np.nan
    assert recovery_of_images(values).tau.value == pytest.approx(1 / 3), "one of three pairs is left"


def test_so_many_images_are_needed_as_a_power_analysis_says():
    """Two levels, difference d and standard deviation s of differences: n = (2.8 s / d)²."""
    values = judged([0.5, 0.0], n=4000)
    expected = (2.8016 * math.sqrt(2) / 0.5) ** 2
    assert recovery_of_images(values).needed == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(("effect", "replicates"), [(0.5, 34), (1, 10), (2, 5)])
def test_replicates_are_those_of_the_paired_t_test(effect, replicates):
    """Cohen's tables: a paired t-test at 5 %, two-sided, with a power of 80 %."""
    differences = effect + np.array([-1.0, 0.0, 1.0])
    assert replicates_needed([differences, np.zeros(3)]) == replicates
    assert replicates_needed([-differences, np.zeros(3)]) == MOST_REPLICATES, "told wrong"
    assert replicates_needed([np.ones(3), np.zeros(3)]) == 2, "one replicate has no spread"
