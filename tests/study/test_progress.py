"""What is said of a run while it goes on, judged with a clock that the test turns."""

from __future__ import annotations

from uproar.remaining_time import Pace
from uproar.study.progress import Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_time_left_is_not_told_from_the_pace_of_starting_up():
    progress = Progress(total=100)
    progress.pace.expect(("net",), 1000.0)
    progress.pace.spent(("net",), 5.0, 60.0)
    assert progress.left is None
    progress.pace.spent(("net",), 245.0, 190.0)
    assert progress.left == 750.0


def test_work_of_a_kind_goes_at_the_pace_of_that_kind():
    """One global pace would promise 20 s after the quick half: trainings take ten times as long per image."""
    pace = Pace(workers=2)
    pace.expect(("net", "explain", "grad"), 100)
    pace.expect(("net", "train", ""), 100)
    pace.spent(("net", "train", ""), 10, 100.0)
    pace.spent(("net", "explain", "grad"), 90, 9.0)
    assert pace.left == (90 * 10 + 10 * 0.1) / 2
    # what was never done goes as what is nearest to it
    pace.expect(("net", "train", "folds"), 10)
    assert pace.left == (100 * 10 + 10 * 0.1) / 2
    pace.expect(("other", "train", ""), 10)
    assert pace.left == (100 * 10 + 10 * 0.1 + 10 * 1.09) / 2


def test_what_is_under_way_is_taken_off_and_the_longest_job_is_waited_for():
    clock = Clock()
    pace = Pace(workers=4, clock=clock)
    for name in range(5):
        pace.expect(("net", name), 10)
    pace.spent(("net", 0), 10, 100.0)
    for name in range(1, 5):
        pace.begin(name, ("net", name), 10)
    assert pace.left == 100.0
    clock.now = 60
    assert pace.left == 40.0
    for name in range(1, 4):
        pace.end(name)
        pace.spent(("net", name), 10, 60.0)
    # one worker has it all: not a quarter of it; and its pace is that of its like
    assert pace.left == 70.0 - 60.0
    clock.now = 1000
    assert pace.left == 7.0, "something that should have ended is expected to go on for a while"


def test_what_a_process_does_first_does_not_set_the_pace():
    """A first job also loads data and code: ten times as long as its like, which would be promised for all."""
    pace = Pace(workers=2)
    pace.expect(("net", "train"), 20)
    pace.spent(("net", "train"), 1, 10.0, first=True)
    assert pace.left == 95.0, "nothing else is known"
    pace.spent(("net", "train"), 1, 1.0)
    assert pace.left == 9.0


def test_a_measurement_beforehand_promises_from_the_start_and_gives_way_to_what_is_seen():
    pace = Pace()
    pace.expect(("explain", "grad"), 100)
    pace.expect(("judge",), 50)
    assert pace.left is None
    pace.assume(("explain",), 0.1)
    assert pace.left is None, "nobody knows what judging takes"
    pace.assume(("judge",), 1.0)
    assert pace.left == 60.0
    pace.spent(("explain", "grad"), 50, 50.0)
    assert pace.left == 100.0
    pace.drop(("judge",), 20)
    assert pace.left == 80.0 and pace.total == 130
    assert 0 < pace.share < 1
