"""What is said of a run while it goes on."""

from uproar.study.progress import Progress


def test_time_left_is_not_told_from_the_pace_of_starting_up():
    progress = Progress(total=100)
    progress.work, progress.work_done = 1000.0, 5.0
    assert progress.left is None
    progress.started -= 60
    progress.work_done = 250.0
    assert 180 <= progress.left < 190
