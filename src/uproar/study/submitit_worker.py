"""Jobs of a study in one task of a SLURM cluster. Started by `submitit_executor.Submitit`, not by people.

A task does several jobs one after the other, since it may wait in the queue and loads torch first. It leaves a small
file that says where it is and what it is doing; what it finished is in the store, whatever becomes of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from uproar.errors import UproarError, one_line
from uproar.storage.backends import backend_at, write_file
from uproar.study.executors import run_apart
from uproar.study.job import Job
from uproar.study.remote_worker import NodeUnfit, WorkerSetup, check_data, prepare
from uproar.study.run_job import Report

SETUP = "setup.pkl"
"""What all tasks of a run have to know: written and read by the same user, in the folder of submitit's own files."""
SHARE = 0.8
"""Of the time limit: no job is begun that would, if it took as long as the longest so far, end later."""


@dataclass(frozen=True)
class Task:
    """What one task is asked to do."""

    folder: str
    """Where the setup is and where the task says what it does."""
    number: int
    jobs: tuple[Job, ...]
    data: tuple[str, ...]
    """The fingerprints of the images, one per job."""
    limit: float
    """Seconds that the task has."""
    own_process: bool = True
    """Whether signals and threads of the process are the task's own."""

    @property
    def status(self) -> Path:
        """Where it says what it is doing."""
        return Path(self.folder) / f"{self.number}.json"


@dataclass
class Served:
    """What became of a task."""

    host: str
    reports: list[Report] = field(default_factory=list)
    """Of the jobs that ended, in their order."""
    unfit: NodeUnfit | None = None
    error: UproarError | None = None
    out_of_time: bool = False
    """Whether the job after these was under way when the time ended."""


class OutOfTime(KeyboardInterrupt):
    """SLURM is about to end the task. As an interrupt, it is swallowed by no code of a user."""


def serve(task: Task) -> Served:
    """Do the jobs of a task, as many as there is time for."""
    served = Served(socket.gethostname())
    with _own_signals() if task.own_process else contextlib.nullcontext():
        try:
            _serve(task, served)
        except OutOfTime:
            served.out_of_time = True
        except UproarError as error:
            served.error = error
    return served


def _serve(task: Task, served: Served) -> None:
    with open(Path(task.folder) / SETUP, "rb") as file:
        setup: WorkerSetup = pickle.load(file)
    if task.own_process:
        import torch

        torch.set_num_threads(1)
    began = time.monotonic()
    for place, (job, data) in enumerate(zip(task.jobs, task.data, strict=True)):
        if not _goes_on(task, setup, served.reports, time.monotonic() - began):
            return
        said = {"host": served.host, "job": place}
        write_file(task.status, json.dumps(said).encode())
        try:
            prepare(setup)
            check_data(job, setup.root, data)
        except UproarError as error:
            served.unfit = NodeUnfit(one_line(error))
            return
        served.reports.append(run_apart(job, setup.root, setup.plugins, setup.limit))


def _goes_on(task: Task, setup: WorkerSetup, done: Sequence[Report], spent: float) -> bool:
    """Whether another job is begun: there is time for it, and the run that asked is not known to be over."""
    if not done:
        return True
    with contextlib.suppress(FileNotFoundError):
        backend_at(setup.root).start(setup.token, 1)
        return spent + max(report.seconds for report in done) <= SHARE * task.limit
    return False


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Meanwhile SLURM's warning before the end raises `OutOfTime`, and a cancelled task ends at once."""
    warning = getattr(signal, f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}")
    before = {number: signal.getsignal(number) for number in (warning, signal.SIGTERM)}
    signal.signal(warning, _end)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    raise OutOfTime
