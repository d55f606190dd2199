"""What every executor must do: the tests that all of them share."""

from __future__ import annotations

from uproar.store import Store
from uproar.study.graph import Done, Report
from uproar.study.run import plan


def reports_of(runner, jobs) -> list[Report]:
    """The reports of jobs, in the order in which they end."""
    pending, reports = {runner.submit(job) for job in jobs}, []
    while pending:
        done = runner.wait(pending)
        reports += [future.result() for future in done]
        pending -= done
    return reports


class ExecutorTests:
    """Subclasses say how theirs is made."""

    def make(self, root: str, study):
        raise NotImplementedError

    def test_jobs_end_with_their_outcomes_in_the_store(self, tmp_path, small):
        study = small(seeds=1)
        train = next(job for job in plan(study, Store(tmp_path)).jobs if job.step == "base_model")
        runner = self.make(str(tmp_path), study)
        try:
            (report,) = reports_of(runner, [train])
        finally:
            runner.close()
        assert report.job == train
        assert report.outcomes == {train.results[0]: Done()}
        assert len(list(Store(tmp_path).keys("model"))) == 1

    def test_several_jobs_all_come_back_once(self, tmp_path, small):
        study = small(seeds=3)
        trains = [job for job in plan(study, Store(tmp_path)).jobs if job.step == "base_model"]
        runner = self.make(str(tmp_path), study)
        try:
            result = [report.job.id for report in reports_of(runner, trains)]
        finally:
            runner.close()
        assert sorted(result) == sorted(job.id for job in trains)
        assert runner.running() == {}
