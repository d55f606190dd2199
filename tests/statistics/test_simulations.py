"""`benchmarks/error_rates.py` in small: its nulls through the same functions, within the bounds that the page promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from uproar.statistics.multiple_testing import holm
from uproar.statistics.twoway import contrasts

FILE = Path(__file__).parents[2] / "benchmarks" / "error_rates.py"


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("error_rates", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("n", [3, 5])
def test_wrong_verdicts_stay_within_bounds_in_every_null(program, n):
    """Six percent, and three standard deviations of 1500 studies."""
    for name, options in program.NULLS.items():
        p = contrasts(program.null(np.random.default_rng(n), 1500, n, **options), 0).p[:, 1:]
        assert (holm(p) <= 0.05).any(-1).mean() <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 1500), name


def test_three_random_rankings_find_more_than_one(program):
    result = []
    for rankings in (1, 3):
        areas = program.null(np.random.default_rng(0), 1500, 5, rankings=rankings)
        areas[:, 1] += 3
        result.append((holm(contrasts(areas, 0).p[:, 1:])[:, 0] <= 0.05).mean())
    assert result[0] > 0.45 and result[1] > result[0] + 0.1


def test_a_tidy_table_without_differences_gets_no_verdicts(program):
    wrong = sum(program._any_wrong(np.random.default_rng(seed), np.ones(4), 3) for seed in range(8))
    assert wrong <= 2


NEAR_A_BOUND = ["bounded at 0 and 1", "ties (0 or 1)", "bounded, mean .04", "0 or 1, mean .05"]


@pytest.mark.parametrize("name", NEAR_A_BOUND)
@pytest.mark.parametrize(
    ("n", "images", "spread"),
    [
        *[(3, 20, 0.5), (3, 200, 0.5), (5, 200, 0.5), (1, 20, 0.5)],
        *[(3, 200, 0.8), (5, 200, 0.8), (3, 200, 1.2), (8, 200, 1.2)],  # more than images and noise together
    ],
)
def test_intervals_of_values_near_a_bound_miss_within_bounds_where_those_of_student_do_not(
    program, name, n, images, spread
):
    """Six percent, and three standard deviations of 1000 studies."""
    ours, plain = program.missed(np.random.default_rng(n), name, spread, n, images, 1000)
    assert ours <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    assert plain > 0.08, "the situation is one where it matters"


@pytest.mark.parametrize("name", ["one row 3× as noisy", "20 rows, spreads from 1 to 5.6"])
def test_intervals_of_the_worst_pair_miss_within_bounds_at_three_replicates(program, name):
    areas = program.null(np.random.default_rng(1), 2000, 3, **program.NULLS[name])[:, -10:]
    assert (program._pair_tests(areas)[0] <= 0.05).mean(0).max() <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("name", NEAR_A_BOUND)
@pytest.mark.parametrize(("least", "n"), [(0.1, 3), (0.1, 5)])
def test_pairs_of_methods_that_vary_differently_next_to_a_bound_err_within_bounds(program, name, least, n):
    """Six percent, and three standard deviations of 80 studies; six methods that share nine tenths of their luck."""
    rng, spread = np.random.default_rng(n), np.geomspace(least, 1, 6)[:, None, None]
    studies = [program.VALUES[name](program._values(rng, spread, n, 200, 0.9)) for _ in range(80)]
    new, old = (np.stack(p) for p in zip(*map(program._pair_p, studies), strict=True))
    most = 0.06 + 3 * np.sqrt(0.05 * 0.95 / 80)
    assert (holm(new) <= 0.05).any(-1).mean() <= most and (new <= 0.05).mean(0).max() <= most
    assert (old <= 0.05).mean(0).max() > 0.08, "the situation is one where it matters"


def test_pairs_of_methods_that_vary_alike_are_found_as_before(program):
    rng, found = np.random.default_rng(0), []
    for _ in range(60):
        levels = np.array([-1.0, -1.0, -1.0, 2.0])[:, None, None]
        values = program.SHIFTED["bounded"](program._values(rng, np.full((4, 1, 1), 0.3), 5, 100), levels)
        found.append([(holm(p)[[2, 4, 5]] <= 0.05).mean() for p in program._pair_p(values)])
    new, old = np.mean(found, 0)
    assert old > 0.2 and new >= old - 0.03
