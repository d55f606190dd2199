"""Where jobs run: here, in processes, or on a cluster (`ray_executor`, `submitit_executor`). A study cannot tell which.

A process that has called a function of a plug-in does no jobs but those of that plug-in: whatever it did there to
torch, to classes or to memory reaches no other result.

submit(job)     hand over a job whose needs are met
next()          wait for any job to end: its Report; None if there is only news of where jobs run
close()         stop; what is running is given up
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Protocol, runtime_checkable

from uproar.backends import is_private
from uproar.errors import BadInput, UproarError
from uproar.plugins import installed
from uproar.study import devices, worker_process
from uproar.study.graph import Failed, Job, Report, run_job

ATTEMPTS = 2
"""How often a job is given to a process when its process dies under it."""


@runtime_checkable
class Executor(Protocol):
    """Where jobs run."""

    workers: int
    root: str
    """The store that results go to."""

    def submit(self, job: Job) -> None:
        """Hand over a job whose needs are met."""

    def next(self) -> Report | None:
        """Wait for any submitted job to end; None if what is under way has changed."""

    def running(self) -> list[Job]:
        """The jobs under way."""

    def places(self) -> dict[str, list[Job]]:
        """The jobs under way by machine; empty where there is only this one."""

    def withdraw(self) -> list[Job]:
        """Take back the jobs that have not begun."""

    def close(self) -> None:
        """Stop and leave nothing running."""


class Serial:
    """One job after the other in this process; what calls an installed plug-in, in one of its own."""

    workers = 1

    def __init__(self, root: str, limit: float = math.inf) -> None:
        self.root = root
        self.waiting: deque[Job] = deque()
        self.apart = Processes(root, 1, limit=limit)

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def next(self) -> Report:
        job = min(self.waiting, key=lambda job: job.place)
        self.waiting.remove(job)
        if not job.plugins or is_private(self.root):
            return run_job(job, self.root)
        self.apart.submit(job)
        return self.apart.next()

    def running(self) -> list[Job]:
        return [min(self.waiting, key=lambda job: job.place)] if self.waiting else []

    def places(self) -> dict[str, list[Job]]:
        return {}

    def withdraw(self) -> list[Job]:
        return drain(self.waiting)

    def close(self) -> None:
        self.waiting.clear()
        self.apart.close()


class _Worker:
    """A process of its own, started by a file of ours so that the caller's script is not run again."""

    def __init__(self, root: str, plugins: tuple[str, ...], number: int) -> None:
        self.number = number
        self.connection, theirs = Pipe()
        handle = theirs.fileno()
        start = [sys.executable, worker_process.__file__, str(os.getpid())]
        command = [*start, str(handle)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment[devices.WORKER] = str(number)
        self.process = subprocess.Popen(command, pass_fds=[handle], env=environment)
        theirs.close()
        self.job: Job | None = None
        self.plugins: str | None = None
        """What its jobs call; None before the first."""
        self.since = 0.0
        with contextlib.suppress(OSError):  # not in the command, which everybody on the machine can see
            self.connection.send((root, plugins, installed))

    def give(self, job: Job) -> None:
        self.job, self.plugins, self.since = job, job.plugins, time.monotonic()
        with contextlib.suppress(OSError):  # a dead process is found out when its answer is awaited
            self.connection.send(job)

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


class Processes:
    """Several processes with one torch thread each, started with the first job: there may be none to do.

    One that dies is replaced and its job done again; one whose job takes more than `limit` seconds is ended.
    """

    def __init__(self, root: str, workers: int, plugins: tuple[str, ...] = (), limit: float = math.inf) -> None:
        self.root, self.workers, self.plugins, self.limit = root, workers, plugins, limit
        self.pool: list[_Worker] = []
        self.waiting: deque[Job] = deque()
        self.attempts: dict[str, int] = {}

    def submit(self, job: Job) -> None:
        self.start()
        self.waiting.append(job)
        self._hand_out()

    def start(self) -> None:
        """Start the processes that are not there yet."""
        missing = range(len(self.pool), self.workers)
        self.pool += [_Worker(self.root, self.plugins, number) for number in missing]

    def running(self) -> list[Job]:
        return [worker.job for worker in self.pool if worker.job is not None]

    def places(self) -> dict[str, list[Job]]:
        return {}

    def next(self) -> Report:
        while True:
            self._hand_out()
            busy: dict[Connection, _Worker] = {w.connection: w for w in self.pool if w.job}
            left = min(worker.since for worker in busy.values()) + self.limit - time.monotonic()
            ready = wait(list(busy), timeout=None if math.isinf(left) else max(0.0, left))
            for connection in ready:
                worker = busy[connection]  # type: ignore[index]
                report = self._answer(worker)
                if report is not None:
                    self._hand_out()  # nobody is idle while the report is dealt with
                    return report
            if not ready:
                overdue = min(busy.values(), key=lambda worker: worker.since)
                assert overdue.job is not None
                self._renew(overdue)
                return failure_report(overdue.job, f"it did not end within {self.limit:g} seconds (job_limit)")

    def _hand_out(self) -> None:
        """Give every idle process a job that it may do; another process where it may do none of those that wait."""
        for worker in [*self.pool]:
            if worker.job is None and self.waiting:
                fits = [job for job in self.waiting if worker.plugins in (None, job.plugins)]
                job = min(fits or self.waiting, key=lambda job: job.place)
                self.waiting.remove(job)
                self.attempts[job.id] = self.attempts.get(job.id, 0) + 1
                (worker if fits else self._renew(worker)).give(job)

    def _renew(self, worker: _Worker) -> _Worker:
        """Another process in the place of this one."""
        worker.stop()
        self.pool[worker.number] = _Worker(self.root, self.plugins, worker.number)
        return self.pool[worker.number]

    def _answer(self, worker: _Worker) -> Report | None:
        job = worker.job
        assert job is not None
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            return self._replace(worker, job)
        worker.job = None
        if isinstance(answer, UproarError):
            raise answer
        return answer

    def _replace(self, worker: _Worker, job: Job) -> Report | None:
        code = worker.process.wait()
        self._renew(worker)
        if self.attempts[job.id] < ATTEMPTS:
            self.waiting.appendleft(job)
            return None
        reason = f"its process died {ATTEMPTS} times, last with {_exit_name(code)}"
        return failure_report(job, reason)

    def withdraw(self) -> list[Job]:
        return drain(self.waiting)

    def close(self) -> None:
        for worker in self.pool:
            worker.stop()


def failure_report(job: Job, reason: str, notices: Sequence[str] = ()) -> Report:
    """The report of a job whose process could not tell how it ended."""
    return Report(job, dict.fromkeys(job.results, Failed(reason)), 0.0, list(notices))


def workers(jobs: int | None, device: str) -> int:
    """How many processes were asked for; without a wish, as many as `default_jobs` says."""
    if jobs is not None and jobs < 1:
        raise BadInput(f"--jobs must be at least 1, not {jobs}.")
    devices.choose_device(device, 0)  # one that this machine does not have is refused
    return default_jobs(device) if jobs is None else jobs


def executor(root: str, jobs: int, plugins: tuple[str, ...] = (), limit: float = math.inf) -> Executor:
    """The executor for so many jobs at a time: 1 runs here, unless this process has loaded plug-ins."""
    if jobs == 1 and (not plugins or is_private(root)):
        return Serial(root, limit)
    if is_private(root):
        raise BadInput(f"Only one process sees {root}: use --jobs 1, or a store that others can open.")
    return Processes(root, jobs, plugins, limit)


def run_apart(job: Job, root: str, plugins: tuple[str, ...], limit: float) -> Report:
    """Carry out a job; one that calls plug-ins in a process of its own, which ends with it."""
    if not job.plugins:
        return run_job(job, root)
    pool = Processes(root, 1, plugins, limit)
    try:
        pool.submit(job)
        return pool.next()
    finally:
        pool.close()


def drain(waiting: deque[Job]) -> list[Job]:
    """Everything in a queue, which is then empty."""
    jobs = list(waiting)
    waiting.clear()
    return jobs


def default_jobs(device: str = "cpu") -> int:
    """As many as there are GPUs, where they are used, or as this process may use cores."""
    if hasattr(os, "sched_getaffinity"):
        return devices.workers(device, max(1, len(os.sched_getaffinity(0))))
    return devices.workers(device, max(1, os.cpu_count() or 1))


def _exit_name(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
