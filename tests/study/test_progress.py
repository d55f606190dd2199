"""The time left that is told while something runs: measured seconds per unit of work, times the work left."""

from __future__ import annotations

from uproar.wording import Pace


def test_work_of_a_kind_goes_at_the_pace_of_that_kind():
    """One pace for all would promise 20 s after the quick half: trainings take ten times as long per image."""
    pace = Pace(workers=2)
    pace.expect([("explain", 100), ("train", 100)])
    assert pace.left is None, "nothing has ended"
    pace.spent("train", 10, 100.0)
    pace.spent("explain", 90, 9.0)
    assert pace.left == (90 * 10 + 10 * 0.1) / 2


def test_what_was_never_done_goes_as_all_that_was_done_and_keeps_what_is_known():
    pace = Pace()
    pace.expect([("explain", 10)])
    pace.spent("explain", 10, 20.0)
    assert pace.left == 0.0
    pace.expect([("explain", 5), ("judge", 10)])
    assert pace.left == 15 * 2.0
    pace.spent("judge", 5, 5.0)
    assert pace.left == 5 * 2.0 + 5 * 1.0


def test_what_the_store_had_takes_no_time_and_sets_no_pace():
    pace = Pace()
    pace.expect([("maps", 0.0)])
    pace.spent("maps", 0.0, 0.0)
    assert pace.left is None
