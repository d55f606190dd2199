"""Jobs on a SLURM cluster through submitit: what tasks ask for (`--slurm partition=gpu,time=4h`), and the executor.

A task of the cluster does a few jobs: single ones at first, then as many as take about BUNDLE seconds, fewer towards
the end so that nobody waits for the last. It leaves a small file that says where it is and what it is doing. Tasks that
are handed out together are a job array. Jobs write straight into the store, which every node must see by its path;
only reports come back, in submitit's folder. A job whose task dies is given to another one.
"""

from __future__ import annotations

import contextlib
import difflib
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
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

from uproar.backends import backend_at, is_private
from uproar.errors import BadInput, StoreError, UproarError, one_line
from uproar.paths import write_file
from uproar.study.executors import drain, failure_report, run_apart
from uproar.study.graph import Job, Report
from uproar.study.remote_worker import NodeUnfit, Token, WorkerSetup, check_data, fingerprint_of, prepare, worker_setup
from uproar.study.spec import Resources, Study

SlurmRequest = str | Mapping[str, Any]
"""What a user asks of a SLURM cluster: `partition=gpu,time=4h`, or the same as a mapping; `auto` for nothing."""
CLUSTERS = ("slurm", "local", "debug")
MOST_WORKERS = 1000
"""As many tasks as a job array may have where SLURM was installed as it comes (MaxArraySize)."""
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"MB": 1e-3, "M": 1e-3, "GB": 1.0, "G": 1.0, "TB": 1e3, "T": 1e3}
_WORD = re.compile(r"[\w.:@+\-\[\],&|*]+")
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


def read_settings(given: SlurmRequest, resources: Resources) -> SlurmSettings:
    """The settings that a text or a mapping asks for; `cpus` and `gpus` are those of the study unless given.

    >>> read_settings("partition=gpu,time=90m,memory=16GB", Resources()).time
    5400.0
    """
    pairs = _pairs(given) if isinstance(given, str) else {name: str(value) for name, value in given.items()}
    known = [field.name for field in fields(SlurmSettings)]
    for name in pairs:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            raise BadInput(f"--slurm has no {name!r}{meant}; it takes {', '.join(known)}.")
    of_study = {"cpus": f"{resources.cpus:g}", "gpus": f"{resources.gpus:g}"}
    return SlurmSettings(**{name: _READ.get(name, _word)(name, value) for name, value in {**of_study, **pairs}.items()})


def _pairs(text: str) -> dict[str, str]:
    """`KEY=VALUE` by key; `exclude` may come several times, `auto` alone is nothing."""
    pairs: dict[str, str] = {}
    for part in re.split(r",(?![^\[]*\])", text.strip()) if text.strip() != "auto" else ():
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            raise BadInput(f"--slurm takes auto or KEY=VALUE,… such as partition=gpu,time=4h; not {part!r}.")
        if name in pairs and name != "exclude":
            raise BadInput(f"--slurm has {name} twice: {pairs[name]} and {value}.")
        pairs[name] = f"{pairs[name]},{value}" if name in pairs else value
    return pairs


def _word(name: str, value: str) -> str:
    if not _WORD.fullmatch(value):
        raise BadInput(f"--slurm {name} is a name as SLURM has them, not {value!r}.")
    return value


def _path(name: str, value: str) -> str:
    return value


def _cluster(name: str, value: str) -> str:
    if value not in CLUSTERS:
        raise BadInput(f"--slurm {name} is {', '.join(CLUSTERS)}, not {value!r}.")
    return value


def _time(name: str, value: str) -> float:
    """`90m`, `4h`, `2d`, or as SLURM writes it: `HH:MM:SS`, `D-HH:MM:SS`."""
    short = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", value)
    clock = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", value)
    if short:
        seconds = float(short[1]) * _TIMES[short[2]]
    elif clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        seconds = days * 86400.0 + hours * 3600 + minutes * 60 + rest
    else:
        raise BadInput(f"--slurm {name} is a time such as 90m, 4h or 1-12:00:00, not {value!r}.")
    if seconds < 60:
        raise BadInput(f"--slurm {name} is at least a minute: SLURM counts in minutes; not {value!r}.")
    return seconds


def _memory(name: str, value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", value)
    if match is None or match[2].upper() not in _SIZES or not float(match[1]):
        raise BadInput(f"--slurm {name} is a size such as 16GB or 900MB, not {value!r}.")
    return float(match[1]) * _SIZES[match[2].upper()]


def _count(name: str, value: str) -> int:
    least, most = {"gpus": (0, 64), "workers": (1, MOST_WORKERS)}.get(name, (1, 4096))
    if not value.isdigit() or not least <= int(value) <= most:
        whole = "; SLURM gives whole ones" if re.fullmatch(r"0?\.\d+", value) else ""
        raise BadInput(f"--slurm {name} is a whole number from {least} to {most}, not {value!r}{whole}.")
    return int(value)


_READ: dict[str, Any] = {
    "time": _time,
    "memory": _memory,
    "cpus": _count,
    "gpus": _count,
    "workers": _count,
    "logs": _path,
    "cluster": _cluster,
}


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
            check_data(job, data)
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


ATTEMPTS = 2
"""How often a job is given to a task when its task dies under it."""
BUNDLE = 300.0
"""Seconds of work in a task, once it is known how long jobs of its kind take."""
PATIENCE = 5.0
"""Seconds without news after which `next` returns, so that somebody who watches sees that time passes."""
POLL = {"slurm": 1.0, "local": 0.1, "debug": 0.0}
"""Seconds between two looks for ended tasks."""
ASK = 60.0
"""Seconds between two questions to SLURM whether tasks that say nothing are still there."""
ENDING = 5.0
"""Seconds that cancelled processes of this machine have to end."""
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass
class _Handed:
    """A task that the cluster has."""

    task: Task
    submitted: Any
    host: str = ""
    """Where it runs; empty as long as it waits."""
    place: int = 0
    """Which of its jobs it does."""

    @property
    def job(self) -> Job:
        """The job under way."""
        return self.task.jobs[self.place]

    def poll(self) -> None:
        """Read what the task says of itself."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(self.task.status.read_bytes())
            self.host, self.place = str(said["host"]), min(int(said["job"]), len(self.task.jobs) - 1)


class Submitit:
    """Tasks of a SLURM cluster, or of submitit's executors for one machine."""

    def __init__(self, root: str, settings: SlurmRequest, studies: Sequence[Study]) -> None:
        if is_private(root):
            raise BadInput(f"No node sees {root}: use a folder that all nodes share, or a URL.")
        self.settings = read_settings(settings, studies[0].resources)
        self.submitit = imported()
        self.root = root if "://" in root else str(Path(root).resolve())
        self.token = Token(self.root)
        logs = Path(self.settings.logs) if self.settings.logs else _logs_beside(root, studies[0].name)
        self.folder = logs.resolve() / self.token.name.rpartition("/")[2]
        self.workers = 1 if self.settings.cluster == "debug" else self.settings.workers
        self.waiting: deque[Job] = deque()
        self.handed: list[_Handed] = []
        self.reports: deque[Report] = deque()
        self.deaths: dict[str, int] = {}
        self.spent: dict[str, list[float]] = {}
        self.notices: list[str] = []
        self.count, self.asked = 0, time.monotonic()
        try:
            self._begin(studies)
        except BaseException:
            self.close()
            raise

    def _begin(self, studies: Sequence[Study]) -> None:
        """Make the folder of this run, for this user's eyes, with what every task has to know."""
        try:
            self.folder.mkdir(parents=True, mode=0o700)
            self.token.write()
            write_file(self.folder / SETUP, pickle.dumps(worker_setup(self.root, self.token.name, studies)))
        except OSError as error:
            raise StoreError(
                f"Cannot write into {self.folder}: {error.strerror or error}; give --slurm logs=FOLDER."
            ) from None
        self.executor = _executor(self.submitit, self.settings, self.folder)

    # the face of an executor

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def running(self) -> list[Job]:
        return [one.job for one in self.handed if one.host]

    def places(self) -> dict[str, list[Job]]:
        """What each node is doing."""
        jobs: dict[str, list[Job]] = {}
        for one in self.handed:
            if one.host:
                jobs.setdefault(one.host, []).append(one.job)
        return jobs

    def next(self) -> Report | None:
        """Wait for any job to end; None if a task ended without a report, or nothing happened for a while."""
        if not self.reports:
            self._hand_out()
        until = time.monotonic() + PATIENCE
        while not self.reports and time.monotonic() < until:
            ended = [one for one in self.handed if one.submitted.done(self._is_time_to_ask())]
            for one in ended:
                self._take(one)
            if ended:
                break
            for one in self.handed:
                one.poll()
            time.sleep(POLL[self.settings.cluster])
        return self.reports.popleft() if self.reports else None

    def withdraw(self) -> list[Job]:
        """Take back what waits here, and what waits in the cluster's queue."""
        jobs = drain(self.waiting)
        for one in [one for one in self.handed if not one.host]:
            one.poll()
            if not one.host:
                self.handed.remove(one)
                _cancel(one)
                jobs += one.task.jobs
        return jobs

    def close(self) -> None:
        """Cancel all tasks; what tasks printed stays in the folder if one of them did not end well."""
        self.token.remove()
        if not self.handed and not self.deaths:
            shutil.rmtree(self.folder, ignore_errors=True)
        for one in self.handed:
            _cancel(one)
        until = time.monotonic() + ENDING
        while self.settings.cluster == "local" and time.monotonic() < until:
            if all(one.submitted.done() for one in self.handed):
                break
            time.sleep(POLL["local"])
        for one in self.handed:
            _forget(one)
        self.handed, self.waiting = [], deque()
        (self.folder / SETUP).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()  # where nothing is left to read

    # tasks and their ends

    def _is_time_to_ask(self) -> bool:
        """Whether SLURM is asked about tasks: they are found by their results, but one that died has none."""
        if time.monotonic() - self.asked < ASK:
            return False
        self.asked = time.monotonic()
        return True

    def _hand_out(self) -> None:
        free = self.workers - len(self.handed)
        bundles: list[list[Job]] = []
        while self.waiting and len(bundles) < free:
            bundles.append(self._bundle())
        if not bundles:
            return
        tasks = [self._task(jobs) for jobs in bundles]
        try:
            with _environment(THREADS), self.executor.batch():
                submitted = [self.executor.submit(serve, task) for task in tasks]
        except _errors(self.submitit, OSError, subprocess.CalledProcessError) as error:
            raise UproarError(
                f"The cluster refused the tasks: {_last_line(error)}. What was finished is kept; the same command "
                "goes on from there."
            ) from None
        self.handed += [_Handed(task, one) for task, one in zip(tasks, submitted, strict=True)]

    def _bundle(self) -> list[Job]:
        """The next jobs of one kind for a task; a single one until it is known how long they take."""
        kind = self.waiting[0].step
        times = self.spent.get(kind)
        known = 1 if times is None else max(1, int(BUNDLE / max(sum(times) / len(times), 1e-3)))
        most = min(known, math.ceil(len(self.waiting) / (2 * self.workers)))
        jobs = [self.waiting.popleft()]
        while self.waiting and len(jobs) < most and self.waiting[0].step == kind:
            jobs.append(self.waiting.popleft())
        return jobs

    def _task(self, jobs: Sequence[Job]) -> Task:
        self.count += 1
        data = tuple(fingerprint_of(job) for job in jobs)
        own = self.settings.cluster != "debug"
        return Task(str(self.folder), self.count, tuple(jobs), data, self.settings.time, own)

    def _take(self, one: _Handed) -> None:
        """What an ended task reports; what it has not done is given to another."""
        self.handed.remove(one)
        one.poll()
        try:
            served: Served = one.submitted.result()
        except _errors(self.submitit) as error:
            self._give_again(one, one.place, f"its task died{_on(one.host)}: {_reason(error, one)}")
            return
        finally:
            _forget(one)
        if served.error is not None:
            raise served.error
        if served.unfit is not None:
            raise BadInput(
                f"Node {served.host} cannot do this study: {served.unfit.reason.rstrip('.')}. Mend it, or leave the "
                f"node out with --slurm exclude={served.host}; what was finished is kept."
            )
        for report in served.reports:
            self.spent.setdefault(report.job.step, []).append(report.seconds)
            notices, self.notices = [*self.notices, *report.notices], []
            self.reports.append(replace(report, worker=served.host, notices=notices))
        done = len(served.reports)
        if served.out_of_time and done < len(one.task.jobs):
            self._give_again(one, done, f"it did not end within the {_hours(self.settings.time)} of its task")
        else:
            self.waiting.extendleft(reversed(one.task.jobs[done:]))

    def _give_again(self, one: _Handed, place: int, what: str) -> None:
        """Give the jobs of a task out again; the one at `place` ended it, and fails when that happens too often."""
        guilty = one.task.jobs[place]
        rest = [job for job in one.task.jobs if job is not guilty]
        times = self.deaths[guilty.id] = self.deaths.get(guilty.id, 0) + 1
        if times >= ATTEMPTS:
            notices, self.notices = self.notices, []
            self.reports.append(failure_report(guilty, f"{what} ({times} times)", notices))
        else:
            self.notices.append(f"{guilty}: {what}; done again.")
            rest.insert(0, guilty)
        reported = {report.job.id for report in self.reports}
        self.waiting.extendleft(reversed([job for job in rest if job.id not in reported]))


def imported() -> Any:
    """The library."""
    try:
        import submitit
    except ImportError:
        raise BadInput("--slurm needs submitit: pip install 'uproar[submitit]'.") from None
    return submitit


def _executor(submitit: Any, settings: SlurmSettings, folder: Path) -> Any:
    """Submitit's executor, which asks for what the settings say."""
    if settings.cluster == "slurm" and shutil.which("sbatch") is None:
        raise BadInput(
            "SLURM's sbatch is not on this machine: run the command on a node from which jobs are submitted "
            "(--slurm cluster=local tries it without SLURM)."
        )
    executor = submitit.AutoExecutor(folder=folder, cluster=settings.cluster)
    asked = {name: getattr(settings, name) for name in ("partition", "account", "qos", "constraint", "exclude")}
    executor.update_parameters(
        name="uproar",
        timeout_min=math.ceil(settings.time / 60),
        mem_gb=settings.memory or None,
        cpus_per_task=settings.cpus,
        gpus_per_node=settings.gpus or None,
        slurm_setup=[f"export {name}={value}" for name, value in THREADS.items()],
        slurm_array_parallelism=settings.workers,
        **{f"slurm_{name}": value for name, value in asked.items() if value},
    )
    return executor


def _logs_beside(root: str, name: str) -> Path:
    """Where submitit keeps its files: beside the store if that is a folder, else in that of the run."""
    return (Path(root).parent if "://" not in root else Path("runs") / name) / "slurm"


def _errors(submitit: Any, *others: type[Exception]) -> tuple[type[Exception], ...]:
    """What the library raises of tasks that were refused or ended without a result."""
    from submitit.core.utils import FailedSubmissionError, UncompletedJobError

    return (UncompletedJobError, submitit.core.utils.FailedJobError, FailedSubmissionError, *others)


def _cancel(one: _Handed) -> None:
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        one.submitted.cancel(check=False)


def _forget(one: _Handed) -> None:
    """Remove what was pickled for a task and by it, and its word of what it does; what it printed stays."""
    paths = one.submitted.paths
    for file in (one.task.status, paths.submitted_pickle, paths.result_pickle):
        with contextlib.suppress(OSError):
            Path(file).unlink()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile these variables are set: tasks start with the environment of who submits them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _on(host: str) -> str:
    return f" on {host}" if host else ""


def _reason(error: Exception, one: _Handed) -> str:
    """What is known of the end of a task: SLURM's word for it and where it printed."""
    state = str(one.submitted.state).lower()
    said = f"{state}, " if state not in ("unknown", "finished") else ""
    return f"{said}see {one.submitted.paths.stderr}"


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds / 60:g} minutes"
