import numpy as np
import pytest

from uproar.errors import BadInput
from uproar.statistics.intervals import area


@pytest.mark.parametrize("fractions", [[0, 1], [0.1, 0.3, 0.9], [0.5], [0.2, 0.21, 0.22, 0.8]])
def test_a_flat_curve_has_its_height_as_area_whatever_the_fractions(fractions):
    assert area(fractions, np.full(len(fractions), 0.8)) == pytest.approx(0.8, abs=1e-15)


def test_uneven_fractions_weigh_their_own_width():
    # (0.1 * (1 + 0) / 2 + 0.8 * (0 + 0.5) / 2) / 0.9 = (0.05 + 0.2) / 0.9
    assert area([0.1, 0.2, 1.0], [1.0, 0.0, 0.5]) == pytest.approx(0.25 / 0.9, abs=1e-15)


def test_a_straight_line_has_the_mean_of_its_ends_as_area_however_it_is_cut():
    t = np.sort(np.random.default_rng(0).uniform(0, 1, 9))
    assert area(t, 3 - 2 * t) == pytest.approx(3 - (t[0] + t[-1]), abs=1e-14)


def test_every_curve_of_a_stack_is_taken_alone():
    values = np.random.default_rng(1).uniform(size=(4, 3, 5))
    t = [0, 0.1, 0.3, 0.7, 0.9]
    stacked = area(t, values)
    assert stacked.shape == (4, 3)
    assert stacked[2, 1] == area(t, values[2, 1])


def test_one_fraction_gives_the_value_itself():
    assert area([0.7], [[0.3], [0.4]]).tolist() == [0.3, 0.4]


def test_a_gap_makes_only_its_own_curve_missing():
    result = area([0, 1], [[0.0, np.nan], [0.0, 1.0]])
    assert np.isnan(result[0])
    assert result[1] == 0.5


def test_the_result_does_not_share_memory_with_the_values():
    values = np.array([[0.3], [0.4]])
    area([0.7], values)[0] = 9
    assert values[0, 0] == 0.3


@pytest.mark.parametrize(
    ("fractions", "values", "words"),
    [
        ([0.5, 0.1], [1, 1], "strictly increasing"),
        ([0.5, 0.5], [1, 1], "strictly increasing"),
        ([0.0, np.nan], [1, 1], "finite"),
        ([], [], "at least one"),
        ([[0.0, 1.0]], [[1, 1]], "at least one"),
        ([0.0, 1.0], [1, 1, 1], "each of the 2"),
        ([0.0], np.array(1.0), "each of the 1"),
    ],
)
def test_a_curve_that_makes_no_sense_is_refused(fractions, values, words):
    with pytest.raises(BadInput, match=words):
        area(fractions, values)
