"""The SLURM executor: submitit's debug executor for what it decides, its local one and a made-up SLURM for the rest."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import uproar
from tests.study.executors import ExecutorTests, reports_of
from tests.study.fake_slurm import install
from tests.study.test_run import numbers
from uproar.errors import BadInput
from uproar.store import Store
from uproar.study.graph import Done, Report, make, obtain, step
from uproar.study.remote_worker import prepare, worker_setup
from uproar.study.run import plan
from uproar.study.slurm_executor import OutOfTime, Served, Submitit, Task, _goes_on, read_settings
from uproar.study.spec import Resources

submitit = pytest.importorskip("submitit", reason="needs uproar[submitit]")
pytestmark = [  # submitit's debug executor leaves its logs open
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A task that left no result is believed after a second, not after fifteen."""
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 1)


class TestSubmitit(ExecutorTests):
    def make(self, root, study):
        return Submitit(root, "cluster=debug", study)

    def test_a_store_that_the_node_does_not_see_is_one_sentence(self, tmp_path, small):
        runner = self.make(str(tmp_path), small())
        try:
            (tmp_path / runner.token.name).unlink()
            with pytest.raises(BadInput, match="Node .* does not see the store .*leave the node out"):
                reports_of(runner, plan(small(), Store(tmp_path)).jobs[:1])
        finally:
            runner.close()


def test_a_study_gives_the_same_numbers_and_leaves_nothing_pickled(tmp_path, small):
    study = small(estimators=["random", "grad"], metrics=["roar", "deletion"], fractions=[0.6], seeds=1)
    here = uproar.run(study, store=tmp_path / "a" / "store", jobs=1)
    there = uproar.run(study, store=tmp_path / "b" / "store", slurm={"cluster": "debug"})
    pd.testing.assert_frame_equal(numbers(here), numbers(there))
    assert not [path for path in (tmp_path / "b").rglob("*") if path.suffix in (".pkl", ".pickle")]
    assert not (tmp_path / "b" / "slurm").exists()


def named(job) -> str:
    """The estimator whose maps a job makes."""
    return job.results[0]["estimator"].name if "estimator" in job.results[0].arguments else ""


def of_training(job) -> bool:
    """Whether a job explains training images."""
    return job.results[0].arguments.get("split") == "train"


def with_inputs(job, store):
    """The job, when all that its results are made from is there."""
    for result in job.results:
        for needed in result.inputs:
            obtain(needed, Store(store))
    return job


DEADLY = "import os, signal\ndef deadly(model, x, target):\n    os.kill(os.getppid(), signal.SIGKILL)\n"


def test_tasks_of_a_cluster_are_arrays_and_one_that_dies_does_not_end_the_rest(tmp_path, small, monkeypatch):
    """On a SLURM that is made up: arrays are submitted, deaths are found out by asking it."""
    states = install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(uproar.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setattr("uproar.study.slurm_executor.ASK", 1.0)
    monkeypatch.setattr("uproar.study.slurm_executor.POLL", {"slurm": 0.1})
    (tmp_path / "deadly.py").write_text(DEADLY)
    study = small(estimators=["random", "deadly"], plugins=[str(tmp_path / "deadly.py")], seeds=1)
    every = [job for job in plan(study, Store(tmp_path / "run" / "store")).jobs if job.step == "ranking"]
    jobs = {named(job): with_inputs(job, tmp_path / "run" / "store") for job in every if of_training(job)}
    asked = "partition=gpu,time=90m,memory=2GB,gpus=1,workers=2,account=lab"
    runner = Submitit(str(tmp_path / "run" / "store"), asked, study)
    try:
        reports = {named(report.job): report for report in reports_of(runner, jobs.values())}
    finally:
        runner.close()
    sent = "".join(file.read_text() for file in states.glob("asked-*"))
    for line in ("--array=0-1%2", "--partition=gpu", "--time=90", "--mem=2GB", "--gpus-per-node=1", "--account=lab"):
        assert line in sent
    assert "export OMP_NUM_THREADS=1" in sent
    assert [*reports["random"].outcomes.values()] == [Done()] and reports["random"].worker
    reason = next(iter(reports["deadly"].outcomes.values())).reason
    assert "its task died on" in reason and "(2 times)" in reason
    assert "done again" in " ".join(notice for report in reports.values() for notice in report.notices)
    logs = [path for path in (tmp_path / "run" / "slurm").rglob("*") if path.is_file()]
    assert logs and not [path for path in logs if path.suffix == ".pkl"]


def test_closing_cancels_tasks_on_this_machine(tmp_path, small, monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(uproar.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    pid = tmp_path / "pid"
    (tmp_path / "slow.py").write_text(
        "import os, pathlib, time\ndef dawdles(model, x, target):\n"
        f"    pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n    time.sleep(600)\n"
    )
    study = small(estimators=["dawdles"], plugins=[str(tmp_path / "slow.py")], seeds=1)
    runner = Submitit(str(tmp_path / "store"), f"cluster=local,time=5m,logs={tmp_path / 'logs'}", study)
    jobs = plan(study, Store(tmp_path / "store")).jobs
    runner.submit(with_inputs(next(job for job in jobs if named(job) == "dawdles"), tmp_path / "store"))
    while not pid.exists() or not pid.read_text():
        time.sleep(0.05)
    assert [str(job) for job in runner.running()] == ["explain train images by dawdles seed 0"]
    runner.close()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid.read_text()}").exists():
        assert time.monotonic() < deadline, "the task still runs"
        time.sleep(0.1)
    assert not list((tmp_path / "logs").rglob("*.pkl"))


# what is decided without a cluster


def handed(runner, jobs, answer):
    """A task of a runner that has ended with an answer."""

    class Ended:
        paths = submitit.core.utils.JobPaths(runner.folder, "1", 0)
        state = "COMPLETED"

        def result(self):
            if isinstance(answer, Exception):
                raise answer
            return answer

    from uproar.study.slurm_executor import _Handed

    runner.handed.append(_Handed(runner._task(jobs), [(job, Future()) for job in jobs], Ended()))
    return runner.handed[-1]


def waiting(runner) -> list:
    """The jobs that wait for a task."""
    return [job for job, _ in runner.waiting]


def test_what_a_task_had_no_time_for_is_given_out_again_and_what_takes_too_long_fails(tmp_path, small):
    study = small(seeds=3)
    jobs = [job for job in plan(study, Store(tmp_path)).jobs if job.step == "base_model"]
    runner = Submitit(str(tmp_path), "cluster=debug,time=1h", study)
    try:
        done = Report(jobs[0], {jobs[0].results[0]: Done()}, 1.0)
        task = handed(runner, jobs, Served("n1", [done]))
        runner._take(task)
        assert task.entries[0][1].result().job == jobs[0] and waiting(runner) == jobs[1:]
        runner.waiting.clear()
        runner._take(handed(runner, jobs[1:], Served("n1", out_of_time=True)))
        assert waiting(runner) == jobs[1:] and "done again" in runner.notices[0]
        runner.waiting.clear()
        task = handed(runner, jobs[1:], Served("n1", out_of_time=True))
        runner._take(task)
        report = task.entries[0][1].result()
        assert report.job == jobs[1] and "did not end within the 1 h" in report.outcomes[jobs[1].results[0]].reason
        assert waiting(runner) == jobs[2:]
    finally:
        runner.close()


def test_tasks_grow_with_what_is_known_of_their_jobs_and_shrink_towards_the_end(tmp_path, small):
    study = small(seeds=9)
    jobs = [job for job in plan(study, Store(tmp_path)).jobs if job.step == "base_model"]
    runner = Submitit(str(tmp_path), "cluster=debug", study)
    try:
        runner.waiting.extend((job, Future()) for job in jobs)
        assert len(runner._bundle()) == 1, "nobody knows how long they take"
        runner.spent["base_model"] = [100.0, 200.0]
        assert [len(runner._bundle()) for _ in range(4)] == [2, 2, 2, 1]
        runner.waiting.clear()
        runner.spent["base_model"] = [1.0]
        runner.waiting.extend((job, Future()) for job in jobs)
        assert [len(runner._bundle()) for _ in range(3)] == [5, 2, 1]
    finally:
        runner.close()


def test_a_task_begins_no_job_that_it_has_no_time_for_or_whose_run_is_over(tmp_path, small):
    study = small(seeds=1)
    job = plan(study, Store(tmp_path)).jobs[0]
    runner = Submitit(str(tmp_path), "cluster=debug,time=10m", study)
    try:
        setup = worker_setup(runner.root, runner.token.name, study)
        task, done = Task(str(tmp_path), 1, (job,), ("",), 600.0), [Report(job, {}, 100.0)]
        assert _goes_on(task, setup, [], 0.0) and _goes_on(task, setup, done, 380.0)
        assert not _goes_on(task, setup, done, 381.0)
        runner.token.remove()
        assert not _goes_on(task, setup, done, 100.0)
    finally:
        runner.close()


def test_the_warning_before_the_end_is_swallowed_by_no_code_of_a_user(tmp_path):

    from uproar.study.slurm_executor import _own_signals

    @step("waits", title=lambda _: "wait", cost=lambda _: 1.0)
    def waits():
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR2)).start()
        time.sleep(5)

    with _own_signals(), pytest.raises(OutOfTime):
        make([waits()], Store(tmp_path))


def test_a_node_with_another_torch_is_refused(tmp_path, small):
    """Its version is part of every key: results of another one would lie under the wrong name."""
    setup = replace(worker_setup(str(tmp_path), "runs/x", small()), versions={"torch": "0.1"})
    with pytest.raises(BadInput, match=r"^Node n1 cannot do this study: it has torch .*, not 0\.1: install the same"):
        prepare(setup, plan(small(), Store(tmp_path)).jobs[0], "", "n1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("partion=gpu", r"no 'partion'; it takes partition,.*Did you mean 'partition'\?"),
        ("gpu", r"takes auto or KEY=VALUE,… such as partition=gpu,time=4h; not 'gpu'"),
        ("time=soon", "time is a time of at least a minute such as 90m, 4h or 1-12:00:00, not 'soon'"),
        ("time=30s", "at least a minute"),
        ("memory=lots", "memory is a size such as 16GB or 900MB, not 'lots'"),
        ("workers=0", "workers is a whole number from 1 to 1000, not '0'"),
        ("workers=5000", "workers is a whole number from 1 to 1000"),
        ("gpus=0.5", "gpus is a whole number from 0 to 64, not '0.5'"),
        ("partition=a b; rm", "partition is a name as SLURM has them"),
        ("cluster=mars", "cluster is slurm, local or debug, not 'mars'"),
        ("time=1h,time=2h", "time twice: 1h and 2h"),
    ],
)
def test_settings_that_cannot_be_meant_are_one_sentence(text, sentence):
    with pytest.raises(BadInput, match=sentence):
        read_settings(text, Resources())


def test_settings_are_read_as_slurm_and_people_write_them():
    read = read_settings("time=1-12:30:00,memory=900MB,exclude=n1,exclude=n[2-4,7]", Resources(cpus=4, gpus=1))
    assert read.time == 36.5 * 3600 and read.memory == pytest.approx(0.9)
    assert (read.exclude, read.cpus, read.gpus) == ("n1,n[2-4,7]", 4, 1)
    assert read_settings("auto", Resources()).workers == 16
    with pytest.raises(BadInput, match="gpus is a whole number"):
        read_settings("auto", Resources(gpus=0.5))


def test_without_slurm_and_without_a_shared_store_it_says_so(tmp_path, small, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="SLURM's sbatch is not on this machine"):
        Submitit(str(tmp_path / "store"), "auto", small())
    assert not (tmp_path / "slurm").exists()
    with pytest.raises(BadInput, match="No node sees memory://"):
        Submitit("memory://x", "auto", small())
