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


NEAR_A_BOUND = ["bounded, mean .87", "0 or 1, mean .16", "bounded, mean .04", "0 or 1, mean .05"]


@pytest.mark.parametrize("name", NEAR_A_BOUND)
@pytest.mark.parametrize(
    ("n", "images", "spread"),
    [
        *[(3, 20, 0.5), (3, 200, 0.5), (5, 200, 0.5), (1, 20, 0.5)],
        *[
            (3, 200, 0.8),
            (5, 200, 0.8),
            (3, 200, 1.2),
            (8, 200, 1.2),
            (8, 200, 2.0),
            (8, 1000, 4.0),
        ],  # more than images and noise
    ],
)
def test_intervals_of_values_near_a_bound_miss_within_bounds_where_those_of_student_do_not(
    program, name, n, images, spread
):
    """Six percent, and three standard deviations of 1000 studies."""
    ours, plain = program.missed(np.random.default_rng(n), program.CORNERS[name], spread, n, images, 1000)
    assert ours <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    assert plain > 0.08, "the situation is one where it matters"


@pytest.mark.parametrize("name", ["one row 3× as noisy", "20 rows, spreads from 1 to 5.6"])
def test_intervals_of_the_worst_pair_miss_within_bounds_at_three_replicates(program, name):
    areas = program.null(np.random.default_rng(1), 2000, 3, **program.NULLS[name])[:, -10:]
    assert (program._pair_tests(areas)[0] <= 0.05).mean(0).max() <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_the_simulation_has_the_p_values_of_single_studies(program):
    """What follows says something of the package only if its formulas, for many studies at once, are the package's."""
    for kind, methods, n in (
        ("bounded, mean .87", 4, 3),
        ("0 or 1, mean .16", 3, 2),
        ("0 or 1, mean .3", 2, 3),
        ("bounded, two peaks", 3, 5),
    ):
        spread = np.geomspace(0.1, 1, methods)[:, None, None]
        values = program.CORNERS[kind](program._values(np.random.default_rng(n), spread, n, 30, 0.9, (4,)))
        at_once = program.pairs_at_once(values)
        for study, one in enumerate(values):
            for p, expected in zip(at_once, program._pair_p(one), strict=True):
                assert p[study] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "methods", "least", "shared", "n"),
    [
        *[(name, 6, 0.1, 0.9, n) for name in NEAR_A_BOUND for n in (3, 5)],  # a tail that was not drawn
        ("bounded, mean .87", 6, 0.3, 1.0, 3),  # the same luck: spreads that differ a little show it
        ("bounded, mean .96, images alike", 6, 0.3, 1.0, 3),
        ("bounded, mean .96, images alike", 2, 0.1, 0.0, 3),
        ("0 or 1, mean .3", 6, 0.1, 0.9, 3),  # both ends: three replicates may all come from one
        ("0 or 1, mean .3", 2, 0.1, 0.9, 5),
        ("0 or 1, mean .5", 6, 0.3, 1.0, 3),  # in the middle: no side has the tail
        ("bounded, two peaks", 6, 0.3, 1.0, 3),
        ("bounded, two peaks", 2, 0.1, 0.9, 3),
        ("0 or 1, mean .16", 2, 0.3, 0.0, 8),
    ],
)
def test_pairs_of_methods_that_vary_differently_between_bounds_err_within_bounds(
    program, name, methods, least, shared, n
):
    """Six percent, and three standard deviations of 600 studies."""
    rng = np.random.default_rng(n)
    kinds, spreads = {name: program.CORNERS[name]}, np.geomspace(least, 1, methods)
    new, old = program.wrong_pairs(rng, kinds, spreads, shared, n, 200, 600)[name]
    assert new.max() <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / 600)
    assert old[1] > 0.085, "the situation is one where it matters"


def test_pairs_of_methods_that_vary_alike_are_found_nearly_as_often_as_by_students_t(program):
    levels = np.array([-1.0, -1.0, -1.0, 2.0])[:, None, None]
    values = program._values(np.random.default_rng(0), np.full((4, 1, 1), 0.3), 5, 100, 0.0, (400,))
    found = program.pairs_at_once(program.SHIFTED["bounded"](values, levels))
    new, old = ((holm(p)[:, [2, 4, 5]] <= 0.05).mean() for p in found)
    assert old > 0.2 and new >= old - 0.04
