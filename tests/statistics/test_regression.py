"""The interval of a line through estimators, against a slow one and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.line_slow import line

from uproar.statistics.regression import line_interval, signed_r_squared


def studies(rng, points, r2, n, noise, times=1.0):
    """Points with this R² over 0, 1, 2, … and a spread of one, the first `times` as noisy as the others."""
    x = np.arange(float(points))
    along = (x - x.mean()) / np.linalg.norm(x - x.mean())
    rest = rng.normal(size=points)
    rest -= rest.mean() + along * (rest @ along)
    truth = np.sqrt(points - 1) * (np.sqrt(r2) * along + np.sqrt(1 - r2) * rest / np.linalg.norm(rest))
    spread = np.r_[times, np.ones(points - 1)]
    return x, truth + noise * rng.normal(size=(n, 1)) + noise * spread * rng.normal(size=(n, points))


@pytest.mark.parametrize("seed", range(12))
def test_the_interval_is_that_of_a_search_over_slope_and_scatter(seed):
    rng = np.random.default_rng(seed)
    x, y = studies(
        rng, 5 + seed % 4, (0.0, 0.3, 0.9, 1.0)[seed % 4], 2 + seed % 5, (0.1, 0.5, 2.0)[seed % 3], 1 + seed % 2
    )
    interval = line_interval(x, -y if seed % 2 else y)
    assert (interval.low, interval.high) == pytest.approx(line(x, -y if seed % 2 else y), abs=1e-6)
    assert interval.low <= interval.value <= interval.high
    assert interval.value == pytest.approx(signed_r_squared(x, (-y if seed % 2 else y).mean(0)))


def test_turning_the_points_round_turns_the_interval():
    x, y = studies(np.random.default_rng(0), 7, 0.6, 5, 0.4)
    rising, falling = line_interval(x, y), line_interval(x, -y)
    assert (rising.low, rising.high) == pytest.approx((-falling.high, -falling.low))
    assert rising.at_level(0.99).low < rising.low < rising.value


def test_points_within_the_noise_have_an_interval_of_everything():
    """R² of .3 or of .9 of such points is chance; the jackknife over five replicates took it for a number."""
    rng, whole = np.random.default_rng(1), 0
    for _ in range(50):
        interval = line_interval(*studies(rng, 7, 0.9, 5, 10.0))
        whole += interval.high - interval.low > 1.9
    assert whole > 40


@pytest.mark.parametrize(
    ("r2", "noise", "times"), [(0.5, 3.0, 1.0), (0.95, 1.0, 1.0), (0.8, 1.0, 5.6), (0.2, 0.3, 1.0)]
)
@pytest.mark.parametrize("n", [3, 5])
def test_intervals_of_lines_miss_within_bounds(r2, noise, times, n):
    """Six percent, and three standard deviations of 300 studies."""
    rng, missed = np.random.default_rng(n), 0
    for _ in range(300):
        interval = line_interval(*studies(rng, 7, r2, n, noise, times))
        missed += not interval.low <= r2 <= interval.high
    assert missed / 300 <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 300)
