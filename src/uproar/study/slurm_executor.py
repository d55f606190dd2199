"""Jobs on a SLURM cluster through submitit: what tasks ask for (`--slurm partition=gpu,time=4h`), and the executor.

A task of the cluster does a few jobs: single ones at first, then as many as take about BUNDLE seconds, fewer towards
the end so that nobody waits for the last. It leaves a small file that says where it is and what it is doing. Tasks that
are handed out together are a job array. Jobs write straight into the store, which every node must see by its path;
only reports come back, in submitit's folder. A job whose task dies is given to another one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

from uproar.backends import backend_at
from uproar.errors import BadInput, StoreError, UproarError, did_you_mean
from uproar.paths import write_file
from uproar.study.executors import ATTEMPTS, KEPT, Executor, failure_report, run_apart
from uproar.study.graph import Job, Report
from uproar.study.remote_worker import Token, WorkerSetup, fingerprint_of, prepare, shared_root, worker_setup
from uproar.study.spec import Resources, Study
from uproar.wording import duration

SlurmRequest = str | Mapping[str, Any]
"""What a user asks of a SLURM cluster: `partition=gpu,time=4h`, or the same as a mapping; `auto` for nothing."""
COUNTS = {"cpus": (1, 4096), "gpus": (0, 64), "workers": (1, 1000)}
"""Least and most; a job array has at most 1000 tasks where SLURM was installed as it comes (MaxArraySize)."""
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"M": 1e-3, "G": 1.0, "T": 1e3}
_WORD = r"[\w.:@+\-\[\],&|*]+"
"""What SLURM's own names may have; nothing that a shell would read as more than a word."""


@dataclass(frozen=True)
class SlurmSettings:
    """What each task asks for, and how many there are at a time. Results do not depend on any of it."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    exclude: str = ""
    time: float = 4 * 3600.0
    """Seconds after which SLURM ends a task."""
    memory: float = 0.0
    """Gigabytes of a task; 0 leaves it to the cluster."""
    cpus: int = 1
    gpus: int = 0
    workers: int = 16
    """Tasks at a time, also the size of the largest job array."""
    logs: str = ""
    """The folder of submitit's files and of what tasks print; beside the store by default."""
    cluster: str = "slurm"
    """`slurm`, or `local` and `debug` to try it on this machine."""


def read_settings(request: SlurmRequest, resources: Resources) -> SlurmSettings:
    """The settings that a text or a mapping asks for; `cpus` and `gpus` are those of the study unless given.

    >>> read_settings("partition=gpu,time=90m,memory=16GB", Resources()).time
    5400.0
    """
    pairs = _pairs(request) if isinstance(request, str) else {name: str(value) for name, value in request.items()}
    known = [field.name for field in fields(SlurmSettings)]
    for name in pairs:
        if name not in known:
            raise BadInput(f"--slurm has no {name!r}; it takes {', '.join(known)}.{did_you_mean(name, known, 1)}")
    values = {"cpus": f"{resources.cpus:g}", "gpus": f"{resources.gpus:g}", **pairs}
    return SlurmSettings(**{name: _value(name, value) for name, value in values.items()})


def _pairs(text: str) -> dict[str, str]:
    """`KEY=VALUE` by key; `exclude` may come several times, `auto` alone is nothing."""
    pairs: dict[str, str] = {}
    for pair in re.split(r",(?![^\[]*\])", text.strip()) if text.strip() != "auto" else ():
        name, equals, value = (word.strip() for word in pair.partition("="))
        if not equals or not value:
            raise BadInput(f"--slurm takes auto or KEY=VALUE,… such as partition=gpu,time=4h; not {pair!r}.")
        if name in pairs and name != "exclude":
            raise BadInput(f"--slurm has {name} twice: {pairs[name]} and {value}.")
        pairs[name] = f"{pairs[name]},{value}" if name in pairs else value
    return pairs


def _value(name: str, value: str) -> Any:
    """The value of a setting, or why it is none."""
    if name in COUNTS:
        least, most = COUNTS[name]
        if value.isdigit() and least <= int(value) <= most:
            return int(value)
        expected = f"a whole number from {least} to {most}"
    elif name == "time":
        if (seconds := _seconds(value)) >= 60:
            return seconds
        expected = "a time of at least a minute such as 90m, 4h or 1-12:00:00"
    elif name == "memory":
        size = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT])B?", value.upper())
        if size and float(size[1]):
            return float(size[1]) * _SIZES[size[2]]
        expected = "a size such as 16GB or 900MB"
    else:
        form = {"cluster": "slurm|local|debug", "logs": ".*"}.get(name, _WORD)
        if re.fullmatch(form, value):
            return value
        expected = "slurm, local or debug" if name == "cluster" else "a name as SLURM has them"
    raise BadInput(f"--slurm {name} is {expected}, not {value!r}.")


def _seconds(value: str) -> float:
    """`90m`, `4h`, `2d`, or as SLURM writes it: `HH:MM:SS`, `D-HH:MM:SS`; 0 for what is no time."""
    if short := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", value):
        return float(short[1]) * _TIMES[short[2]]
    clock = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", value)
    days, hours, minutes, rest = (int(number or 0) for number in clock.groups()) if clock else (0, 0, 0, 0)
    return days * 86400.0 + hours * 3600 + minutes * 60 + rest


SETUP = "setup.pkl"
"""What all tasks of a run have to know: written and read by the same user, in the folder of submitit's own files."""
SHARE = 0.8
"""Of the time limit: no job is begun that would, if it took as long as the longest so far, end later."""
BUNDLE = 300.0
"""Seconds of work in a task, once it is known how long jobs of its kind take."""
POLL = {"slurm": 1.0, "local": 0.1, "debug": 0.01}
"""Seconds between two looks for ended tasks."""
ASK = 60.0
"""Seconds between two questions to SLURM whether tasks that say nothing are still there."""
ENDING = 5.0
"""Seconds that cancelled processes of this machine have to end."""


# what a task does


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
    for position, (job, data) in enumerate(zip(task.jobs, task.data, strict=True)):
        if not _goes_on(task, setup, served.reports, time.monotonic() - began):
            return
        said = {"host": served.host, "job": position}
        write_file(task.status, json.dumps(said).encode())
        prepare(setup, job, data, served.host)
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


# who hands tasks out


Entry = tuple[Job, Future[Report]]


@dataclass
class _Handed:
    """A task that the cluster has."""

    task: Task
    entries: list[Entry]
    submitted: Any
    host: str = ""
    """Where it runs; empty as long as it waits."""
    position: int = 0
    """Which of its jobs it does."""

    def poll(self) -> None:
        """Read what the task says of itself."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(self.task.status.read_bytes())
            self.position = min(int(said["job"]), len(self.entries) - 1)
            if not self.host:
                self.host = str(said["host"])
                for _, future in self.entries:
                    if not future.running():
                        future.set_running_or_notify_cancel()

    def cancel(self) -> None:
        """Take it from the cluster."""
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            self.submitted.cancel(check=False)

    def forget(self) -> None:
        """Remove what was pickled for the task and by it, and its word of what it does; what it printed stays."""
        paths = self.submitted.paths
        for file in (self.task.status, paths.submitted_pickle, paths.result_pickle):
            with contextlib.suppress(OSError):
                Path(file).unlink()


class Submitit(Executor):
    """Tasks of a SLURM cluster, or of submitit's executors for one machine; one thread looks after all of them."""

    def __init__(self, root: str, settings: SlurmRequest, study: Study) -> None:
        self.settings = read_settings(settings, study.resources)
        super().__init__(shared_root(root), 1 if self.settings.cluster == "debug" else self.settings.workers)
        self.token = Token(self.root)
        beside = (Path(root).parent if "://" not in root else Path("runs") / study.name) / "slurm"
        self.folder = Path(self.settings.logs or beside).resolve() / self.token.name.rpartition("/")[2]
        self.handed: list[_Handed] = []
        self.deaths: dict[str, int] = {}
        self.spent: dict[str, list[float]] = {}
        self.notices: list[str] = []
        self.count, self.last_query = 0, time.monotonic()
        try:
            self.folder.mkdir(parents=True, mode=0o700)  # for this user's eyes
            self.token.write()
            write_file(self.folder / SETUP, pickle.dumps(worker_setup(self.root, self.token.name, study)))
            self.executor = _executor(self.settings, self.folder)
        except OSError as error:
            self.close()
            reason = error.strerror or error
            raise StoreError(f"Cannot write into {self.folder}: {reason}; give --slurm logs=FOLDER.") from None
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        self.start_threads(1)

    def end(self) -> None:
        """Cancel all tasks; what tasks printed stays in the folder if one of them did not end well."""
        for thread in self.threads:  # so that nothing is handed out any more
            thread.join(ENDING)
        self.token.remove()
        if not self.handed and not self.deaths:
            shutil.rmtree(self.folder, ignore_errors=True)
        for handed in self.handed:
            handed.cancel()
        until = time.monotonic() + ENDING
        while self.settings.cluster == "local" and time.monotonic() < until:
            if all(handed.submitted.done() for handed in self.handed):
                break
            time.sleep(POLL["local"])
        for handed in self.handed:
            handed.forget()
        with contextlib.suppress(OSError):
            (self.folder / SETUP).unlink(missing_ok=True)
            self.folder.parent.rmdir()  # where nothing is left to read

    # tasks and their ends

    def serve(self, number: int) -> None:
        """Hand out tasks and look after them until the end; an error ends every job."""
        try:
            while not self.closed:
                time.sleep(POLL[self.settings.cluster])  # what is submitted meanwhile is one array
                self._look()
        except BaseException as error:
            for _, future in [*self.waiting, *(entry for handed in self.handed for entry in handed.entries)]:
                if not future.done():
                    future.set_exception(error)

    def _look(self) -> None:
        """Take what has ended, see what runs, hand out what waits."""
        ask = time.monotonic() - self.last_query > ASK  # tasks are found by their results, but one that died has none
        self.last_query = time.monotonic() if ask else self.last_query
        for handed in [*self.handed]:
            if handed.submitted.done(ask):
                self._take(handed)
                continue
            handed.poll()
            if not handed.host and all(future.cancelled() for _, future in handed.entries):
                self.handed.remove(handed)
                handed.cancel()
        self.under_way = {handed.task.jobs[handed.position]: handed.host for handed in self.handed if handed.host}
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free places of the cluster tasks, as one array."""
        bundles: list[list[Entry]] = []
        while len(bundles) < self.workers - len(self.handed) and (bundle := self._bundle()):
            bundles.append(bundle)
        if not bundles:
            return
        tasks = [self._task([job for job, _ in bundle]) for bundle in bundles]
        try:
            with self.executor.batch():
                submitted = [self.executor.submit(serve, task) for task in tasks]
        except _errors(OSError, subprocess.CalledProcessError) as error:
            self.waiting += [entry for bundle in bundles for entry in bundle]
            raise UproarError(f"The cluster refused the tasks: {_last_line(error)}. {KEPT}") from None
        self.handed += map(_Handed, tasks, bundles, submitted)

    def _bundle(self) -> list[Entry]:
        """The next jobs of one kind for a task; a single one until it is known how long they take."""
        with self.changed:
            self.waiting = [entry for entry in self.waiting if not entry[1].cancelled()]
            self.waiting.sort(key=lambda entry: entry[0].number)
            if not self.waiting:
                return []
            kind = self.waiting[0][0].step
            times = self.spent.get(kind)
            known = 1 if times is None else max(1, int(BUNDLE / max(sum(times) / len(times), 1e-3)))
            most = min(known, math.ceil(len(self.waiting) / (2 * self.workers)))
            bundle = list(itertools.takewhile(lambda entry: entry[0].step == kind, self.waiting[:most]))
            del self.waiting[: len(bundle)]
            return bundle

    def _task(self, jobs: Sequence[Job]) -> Task:
        self.count += 1
        data = tuple(fingerprint_of(job) for job in jobs)
        own_process = self.settings.cluster != "debug"
        return Task(str(self.folder), self.count, tuple(jobs), data, self.settings.time, own_process)

    def _take(self, handed: _Handed) -> None:
        """What an ended task reports; what it has not done is given to another."""
        handed.poll()
        try:
            served: Served = handed.submitted.result()
        except _errors():
            self.handed.remove(handed)
            state, on = str(handed.submitted.state).lower(), f" on {handed.host}" if handed.host else ""
            how = f"{state}, " if state not in ("unknown", "finished") else ""
            what = f"its task died{on}: {how}see {handed.submitted.paths.stderr}"
            self._give_again(handed.entries, handed.position, what)
            return
        finally:
            handed.forget()
        if served.error is not None:
            raise served.error
        self.handed.remove(handed)
        for (_, future), report in zip(handed.entries, served.reports, strict=False):
            self.spent.setdefault(report.job.step, []).append(report.seconds)
            self._end(future, replace(report, worker=served.host))
        rest = handed.entries[len(served.reports) :]
        if served.out_of_time and rest:
            self._give_again(rest, 0, f"it did not end within the {duration(self.settings.time)} of its task")
        else:
            self._wait_again(rest)

    def _end(self, future: Future[Report], report: Report) -> None:
        notices, self.notices = [*self.notices, *report.notices], []
        if not future.cancelled():
            future.set_result(replace(report, notices=notices))

    def _wait_again(self, entries: Sequence[Entry]) -> None:
        with self.changed:
            self.waiting += entries

    def _give_again(self, entries: list[Entry], position: int, what: str) -> None:
        """Give the jobs of a task out again; the one at `position` ended it, and fails when that happens too often."""
        job, future = entries[position]
        times = self.deaths[job.id] = self.deaths.get(job.id, 0) + 1
        if times < ATTEMPTS:
            self.notices.append(f"{job}: {what}; done again.")
            self._wait_again(entries)
        else:
            self._wait_again([entry for entry in entries if entry[0] is not job])
            self._end(future, failure_report(job, f"{what} ({times} times)"))


def _executor(settings: SlurmSettings, folder: Path) -> Any:
    """Submitit's executor, which asks for what the settings say."""
    try:
        import submitit
    except ImportError:
        raise BadInput("--slurm needs submitit: pip install 'uproar[submitit]'.") from None
    if settings.cluster == "slurm" and shutil.which("sbatch") is None:
        raise BadInput(
            "SLURM's sbatch is not on this machine: run the command on a node from which jobs are submitted "
            "(--slurm cluster=local tries it without SLURM)."
        )
    executor = submitit.AutoExecutor(folder=folder, cluster=settings.cluster)
    options = {name: getattr(settings, name) for name in ("partition", "account", "qos", "constraint", "exclude")}
    executor.update_parameters(
        name="uproar",
        timeout_min=math.ceil(settings.time / 60),
        mem_gb=settings.memory or None,
        cpus_per_task=settings.cpus,
        gpus_per_node=settings.gpus or None,
        slurm_setup=["export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1"],
        slurm_array_parallelism=settings.workers,
        **{f"slurm_{name}": value for name, value in options.items() if value},
    )
    return executor


def _errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What submitit raises of tasks that were refused or ended without a result."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError

    return (UncompletedJobError, FailedJobError, FailedSubmissionError, *others)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
