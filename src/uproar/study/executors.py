"""Where jobs run: here, in processes, or on a cluster (`ray_executor`, `slurm_executor`). A study cannot tell which.

All have the face of `concurrent.futures`: `submit` gives the future of a report, `cancel` of that takes back a job that
has not begun. Most jobs are waited for by a thread, which tries again where a worker dies.

A process that has called a function of a plug-in does no jobs but those of that plug-in: whatever it did there to
torch, to classes or to memory reaches no other result.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from concurrent import futures
from concurrent.futures import Future
from multiprocessing.connection import Pipe

from uproar.backends import is_private
from uproar.errors import BadInput, UproarError
from uproar.plugins import installed
from uproar.study import worker_process
from uproar.study.devices import WORKER, choose_device, default_jobs
from uproar.study.graph import Failed, Job, Report, run_job

ATTEMPTS = 2
"""How often a job is given to a worker when its worker dies under it."""
PATIENCE = 5.0
"""Seconds without news after which `wait` returns, so that somebody who watches sees that time passes."""
KEPT = "What was finished is kept; the same command goes on from there."
ENDING = 10.0
"""Seconds that threads have to notice the end."""


class Executor:
    """So many jobs at a time, each with a thread that waits for it."""

    def __init__(self, root: str, workers: int) -> None:
        self.root, self.workers = root, workers
        """The store that results go to, and how many jobs are done at a time."""
        self.under_way: dict[Job, str] = {}
        self.waiting: list[tuple[Job, Future[Report]]] = []
        self.changed = threading.Condition()
        self.threads: list[threading.Thread] = []
        self.closed = False

    def submit(self, job: Job) -> Future[Report]:
        """Hand over a job whose needs are met."""
        future: Future[Report] = Future()
        with self.changed:
            self.waiting.append((job, future))
            self.changed.notify_all()
        self.start()
        return future

    def start(self) -> None:
        """Start what is not there yet; not before there is a job."""
        self.start_threads(self.workers)

    def start_threads(self, count: int) -> None:
        """Have so many threads."""
        for number in range(len(self.threads), count):
            self.threads.append(threading.Thread(target=self.serve, args=(number,), daemon=True))
            self.threads[-1].start()

    def wait(self, pending: Collection[Future[Report]]) -> set[Future[Report]]:
        """Those that have ended, as soon as one has; none if nothing happened for a while."""
        return futures.wait(pending, PATIENCE, futures.FIRST_COMPLETED).done

    def running(self) -> dict[Job, str]:
        """The jobs under way, each with its machine; empty names where there is only this one."""
        return dict(self.under_way)

    def close(self) -> None:
        """Stop and leave nothing running."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.end()
        for thread in self.threads:
            thread.join(ENDING)

    def end(self) -> None:
        """End what is under way: threads that wait for it notice."""

    # what the threads do

    def serve(self, number: int) -> None:
        """Do jobs until the end."""
        while (taken := self.take()) is not None:
            job, future = taken
            try:
                report = self.carry_out(job, number)
            except BaseException as error:
                self.under_way.pop(job, None)
                future.set_exception(error)
            else:
                self.under_way.pop(job, None)
                future.set_result(report)

    def take(self) -> tuple[Job, Future[Report]] | None:
        """Of the jobs that wait the first of the plan; None at the end."""
        with self.changed:
            while True:
                self.changed.wait_for(lambda: self.waiting or self.closed)
                if self.closed:
                    return None
                job, future = min(self.waiting, key=lambda waiting: waiting[0].number)
                self.waiting.remove((job, future))
                if future.set_running_or_notify_cancel():
                    return job, future

    def carry_out(self, job: Job, number: int) -> Report:
        """See to a job until it has ended, well or not."""
        raise NotImplementedError


class Serial(Executor):
    """One job after the other in this process; what calls an installed plug-in, in one of its own."""

    def __init__(self, root: str, limit: float = math.inf) -> None:
        super().__init__(root, 1)
        self.apart = Processes(root, 1, limit=limit)

    def start(self) -> None:
        """Nothing: whoever waits does the jobs."""

    def running(self) -> dict[Job, str]:
        return {min((job for job, _ in self.waiting), key=lambda job: job.number): ""} if self.waiting else {}

    def wait(self, pending: Collection[Future[Report]]) -> set[Future[Report]]:
        taken = self.take()
        assert taken is not None
        job, future = taken
        if not job.plugins or is_private(self.root):
            future.set_result(run_job(job, self.root))
        else:
            future.set_result(self.apart.submit(job).result())
        return {future}

    def end(self) -> None:
        self.apart.close()


class Processes(Executor):
    """So many processes at a time with one torch thread each, started when there is a job for them.

    Each has one beside it for jobs that call plug-ins: starting one takes seconds. One that dies is replaced and its
    job done again; one whose job takes more than `limit` seconds is ended.
    """

    def __init__(self, root: str, workers: int, plugins: tuple[str, ...] = (), limit: float = math.inf) -> None:
        super().__init__(root, workers)
        self.plugins, self.limit = plugins, limit
        self.pool: dict[tuple[int, bool], _Worker] = {}
        """By number and whether it calls plug-ins."""

    def carry_out(self, job: Job, number: int) -> Report:
        self.under_way[job] = ""
        code = 0
        for _ in range(ATTEMPTS):
            worker = self.worker(number, job.plugins)
            try:
                answer = worker.answer(job, self.limit)
            except TimeoutError:
                worker.stop()
                return failure_report(job, f"it did not end within {self.limit:g} seconds (job_limit)")
            except (EOFError, OSError):
                code = worker.stop()
                continue
            if isinstance(answer, UproarError):
                raise answer
            return answer
        return failure_report(job, f"its process died {ATTEMPTS} times, last with {_exit_name(code)}")

    def worker(self, number: int, plugins: str) -> _Worker:
        """The process of this number that may call these plug-ins; another one where it has ended or called others."""
        with self.changed:
            if self.closed:
                raise UproarError("The run has ended.")
            worker = self.pool.get((number, bool(plugins)))
            if worker is not None and worker.plugins != plugins:
                worker.stop()
            if worker is None or worker.ended:
                worker = self.pool[number, bool(plugins)] = _Worker(self.root, self.plugins, number, plugins)
            return worker

    def end(self) -> None:
        for worker in self.pool.values():
            worker.stop()


class _Worker:
    """A process of its own, started by a file of ours so that the caller's script is not run again."""

    def __init__(self, root: str, every: tuple[str, ...], number: int, plugins: str) -> None:
        self.plugins, self.ended = plugins, False
        """What its jobs call, of every plug-in of the study."""
        self.connection, theirs = Pipe()
        handle = theirs.fileno()
        command = [sys.executable, worker_process.__file__, str(os.getpid()), str(handle)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", WORKER: str(number)}
        # an interrupt of the terminal is for the parent: blocked until the process ignores it
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process = subprocess.Popen(command, pass_fds=[handle], env=environment)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        with contextlib.suppress(OSError):  # not in the command, which everybody on the machine can see
            self.connection.send((root, every, installed))

    def answer(self, job: Job, limit: float) -> Report | UproarError:
        """How a job ends; EOFError or OSError where the process does."""
        self.connection.send(job)
        if not self.connection.poll(None if math.isinf(limit) else limit):
            raise TimeoutError
        return self.connection.recv()

    def stop(self) -> int:
        """End the process: who reads from the connection finds it closed. Its exit code."""
        self.ended = True
        self.process.kill()
        return self.process.wait()


def failure_report(job: Job, reason: str, notices: Sequence[str] = ()) -> Report:
    """The report of a job whose worker could not tell how it ended."""
    return Report(job, dict.fromkeys(job.results, Failed(reason)), 0.0, list(notices))


def workers(jobs: int | None, device: str) -> int:
    """How many processes were asked for; without a wish, as many as `default_jobs` says."""
    if jobs is not None and jobs < 1:
        raise BadInput(f"--jobs must be at least 1, not {jobs}.")
    choose_device(device, 0)  # one that this machine does not have is refused
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
        return pool.submit(job).result()
    finally:
        pool.close()


def _exit_name(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
