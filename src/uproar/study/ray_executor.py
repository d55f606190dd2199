"""Jobs on an existing Ray cluster: the third executor, with the interface of `executors.Executor`.

Ray decides where a job runs. A job is a generator that first tells on which node it is, then its report, so that this
side knows what each node does without an actor that could die. Jobs write straight into the store, which every node
must see; files of the user travel with the study. A job whose worker or node dies is given to another one.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from uproar.backends import is_private
from uproar.errors import BadInput, UproarError, one_line
from uproar.study.executors import drain, failure_report, run_apart
from uproar.study.graph import Job, Report
from uproar.study.remote_worker import NodeUnfit, Token, WorkerSetup, check_data, fingerprint_of, prepare, worker_setup
from uproar.study.spec import Study


def imported() -> Any:
    """The library, quiet: what it prints about nodes would end up among our own lines."""
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", r"(?s)^(The node with node id|Raylet is terminated)")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise BadInput("--ray needs Ray: pip install 'uproar[ray]'.") from None
    return ray


def connect(ray: Any, address: str) -> bool:
    """Join the cluster; whether it was us who joined (a program that uses Ray itself is left connected)."""
    if ray.is_initialized():
        return False
    if address.startswith("ray://"):
        raise BadInput(
            "uproar joins a cluster from one of its nodes, with --ray auto or HOST:PORT; from outside use "
            "`ray job submit -- uproar run … --ray auto`."
        )
    target = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    if target != "auto":
        _check_answers(target)
    try:
        with _handlers_kept():
            ray.init(address=target, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        start = "start one with `ray start --head`, or give --ray HOST:PORT"
        missing = target == "auto" and isinstance(error, ConnectionError)
        why = "no Ray cluster runs on this machine" if missing else sentence(error)
        raise BadInput(f"Cannot join a Ray cluster at {target!r}: {why}; {start}.") from None
    return True


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Joining takes SIGTERM over; a program that handles it goes on to do so itself."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        mine = threading.current_thread() is threading.main_thread()
        if mine and before not in (None, signal.SIG_DFL):
            signal.signal(signal.SIGTERM, before)


def _check_answers(address: str) -> None:
    """Whether something listens that speaks as Ray does (HTTP/2): Ray itself would wait for minutes, then exit."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise BadInput(f"--ray takes 'auto' or HOST:PORT such as 10.0.0.1:6379, not {address!r}.")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise BadInput(
            f"No Ray cluster answers at {address} ({getattr(error, 'strerror', None) or error}); start it with "
            "`ray start --head`, or check the address."
        ) from None
    if len(answer) < 4 or answer[3] != 4:
        raise BadInput(f"What answers at {address} is not a Ray cluster; its port is 6379 by default.")


def sentence(error: BaseException) -> str:
    """The telling line of one of Ray's long messages."""
    cause = getattr(error, "cause", None)
    text = one_line(cause) if isinstance(cause, BaseException) else " ".join(str(error).split())
    return text.split(". ")[0][:300].rstrip(".")


@dataclass(frozen=True)
class JobStarted:
    """A job has begun on a node."""

    node: str
    torch: str


def serve(setup: WorkerSetup, job: Job, data: str) -> Iterator[object]:
    """One job: where it began, then how it ended. `data` is the fingerprint of the images it is about."""
    import ray

    yield JobStarted(ray.get_runtime_context().get_node_id(), metadata.version("torch"))
    try:
        prepare(setup, ray.get)
        check_data(job, data)
    except UproarError as error:
        yield NodeUnfit(one_line(error))
        return
    try:
        yield run_apart(job, setup.root, setup.plugins, setup.limit)
    except UproarError as error:
        yield error


ATTEMPTS = 2
"""How often a job is given to a worker when its worker dies under it."""
NODES = 10
"""How often it is when the whole node dies, which is seldom the fault of the job."""
QUEUED = 4
"""Jobs handed to Ray per place of the cluster: enough to keep nodes busy and to make a cluster grow."""
PATIENCE = 5.0
"""Seconds without news after which `next` returns, so that somebody who watches sees that time passes."""


@dataclass
class _RemoteJob:
    """A job that Ray has."""

    job: Job
    stream: Any
    node: str | None = None


@dataclass
class _Attempts:
    """What became of earlier attempts at a job."""

    deaths: int = 0
    nodes: list[str] = field(default_factory=list)


class Ray:
    """The nodes of a Ray cluster."""

    def __init__(self, root: str, address: str, studies: Sequence[Study]) -> None:
        if is_private(root):
            raise BadInput(f"No node sees {root}: use a folder that all nodes share, or a URL.")
        self.ray = imported()
        self.root = root if "://" in root else str(Path(root).resolve())
        self.resources = studies[0].resources
        self.ours = connect(self.ray, address)
        self.waiting: deque[Job] = deque()
        self.given: list[_RemoteJob] = []
        self.past: dict[str, _Attempts] = {}
        self.unfit: dict[str, str] = {}
        self.notices: list[str] = []
        self.noted: set[str] = set()
        self.names: dict[str, str] = {}
        self.token = Token(self.root)
        try:
            self.workers = self._places()
            self.token.write()
            self.setup = self.ray.put(worker_setup(self.root, self.token.name, studies, self.ray.put))
        except BaseException:
            self.close()
            raise
        self.remote = self.ray.remote(inspect.unwrap(serve))  # Ray wants the bare generator
        self.counted = time.monotonic()

    def _places(self) -> int:
        """How many jobs of this study the cluster can do at a time."""
        cpus, gpus = self.resources.cpus, self.resources.gpus
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        fits = [int(min(n.get("CPU", 0) / cpus, n.get("GPU", 0) / gpus if gpus else float("inf"))) for n in nodes]
        if not any(fits):
            largest = max((n.get("CPU", 0.0), n.get("GPU", 0.0)) for n in nodes)
            raise BadInput(
                f"No node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs, which [resources] asks for "
                f"each job (the largest has {largest[0]:g} and {largest[1]:g}); ask for less, or start such a node."
            )
        return sum(fits)

    # the face of an executor

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def running(self) -> list[Job]:
        return [given.job for given in self.given if given.node is not None]

    def places(self) -> dict[str, list[Job]]:
        """What each node is doing."""
        jobs: dict[str, list[Job]] = {}
        for given in self.given:
            if given.node is not None:
                jobs.setdefault(self._name(given.node), []).append(given.job)
        return jobs

    def next(self) -> Report | None:
        """Wait for any job to end; None if one only began, or nothing happened for a while."""
        self._hand_out()
        streams = {given.stream: given for given in self.given}
        try:
            ready, _ = self.ray.wait(list(streams), num_returns=1, timeout=PATIENCE)
        except (ConnectionError, self.ray.exceptions.RaySystemError) as error:
            raise UproarError(
                f"The Ray cluster is gone ({sentence(error)}). What was finished is kept; the same command goes "
                "on from there."
            ) from None
        return self._news(streams[ready[0]]) if ready else None

    def withdraw(self) -> list[Job]:
        return drain(self.waiting)

    def close(self) -> None:
        """Cancel what is under way; leave the cluster as it was."""
        self.token.remove()
        for given in self.given:
            with contextlib.suppress(Exception):
                self.ray.cancel(given.stream, force=True)
        self.given, self.waiting = [], deque()
        if self.ours:
            self.ray.shutdown()

    # jobs and their ends

    def _hand_out(self) -> None:
        if time.monotonic() - self.counted > PATIENCE:  # a cluster grows and shrinks
            self.counted = time.monotonic()
            with contextlib.suppress(BadInput):
                self.workers = self._places()
        while self.waiting and len(self.given) < max(16, QUEUED * self.workers):
            job = self.waiting.popleft()
            past = self.past.setdefault(job.id, _Attempts())
            options = {"num_cpus": self.resources.cpus, "num_gpus": self.resources.gpus}
            task = self.remote.options(
                **options,
                max_retries=0,
                num_returns="streaming",
                name=str(job),
                scheduling_strategy=self._elsewhere(past),
            )
            self.given.append(_RemoteJob(job, task.remote(self.setup, job, fingerprint_of(job))))

    def _elsewhere(self, past: _Attempts) -> Any:
        """Not on nodes that cannot do it; rather not where it died before."""
        if not self.unfit and not past.nodes:
            return "DEFAULT"
        from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

        label = "ray.io/node-id"
        hard: Any = {label: NotIn(*self.unfit)} if self.unfit else {}
        soft: Any = {label: NotIn(*past.nodes)} if past.nodes else {}
        return NodeLabelSchedulingStrategy(hard=hard, soft=soft)

    def _news(self, given: _RemoteJob) -> Report | None:
        errors = self.ray.exceptions
        try:
            news = self.ray.get(next(given.stream))
        except errors.RayTaskError as error:  # errors of jobs are values: this is one of the node
            raise _cannot_serve(error) from None
        except errors.RuntimeEnvSetupError as error:
            raise BadInput(f"Ray cannot set up its workers: {sentence(error)}.") from None
        except errors.RayError as error:
            return self._died(given, error)
        if isinstance(news, JobStarted):
            self._note_torch(news)
            given.node = news.node
            return None
        self.given.remove(given)
        if isinstance(news, NodeUnfit):
            self._avoid(given, news.reason)
            return None
        if isinstance(news, UproarError):
            raise news
        name = self._name(given.node or "")
        notices, self.notices = [*self.notices, *news.notices], []
        return Report(news.job, news.outcomes, news.seconds, notices, name)

    def _note_torch(self, started: JobStarted) -> None:
        here = metadata.version("torch")
        if started.torch.partition("+")[0] != here.partition("+")[0]:
            name = self._name(started.node)
            notice = f"Node {name} has torch {started.torch}, this machine {here}: last digits may differ."
            if notice not in self.noted:
                self.noted.add(notice)
                self.notices.append(notice)

    def _died(self, given: _RemoteJob, error: Exception) -> Report | None:
        self.given.remove(given)
        past = self.past[given.job.id]
        past.deaths += 1
        if given.node is not None:
            past.nodes.append(given.node)
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        node_died = isinstance(error, self.ray.exceptions.NodeDiedError) or (
            given.node is not None and given.node not in alive
        )
        where = f" on {self._name(given.node)}" if given.node else ""
        if past.deaths < (NODES if node_died else ATTEMPTS):
            what = "node" if node_died else "worker"
            self.notices.append(f"{given.job}: its {what} died{where}; done again elsewhere.")
            self.waiting.appendleft(given.job)
            return None
        reason = f"its worker died {past.deaths} times, last{where}: {sentence(error)}"
        notices, self.notices = self.notices, []
        return failure_report(given.job, reason, notices)

    def _avoid(self, given: _RemoteJob, reason: str) -> None:
        """Leave a node alone that cannot do the study's jobs; when none is left, say why."""
        assert given.node is not None
        if given.node not in self.unfit:
            self.notices.append(f"Node {self._name(given.node)} was not used: {reason}")
        self.unfit[given.node] = reason
        left = [n for n in self.ray.nodes() if n["Alive"] and n["NodeID"] not in self.unfit]
        if not any(n["Resources"].get("CPU", 0) >= self.resources.cpus for n in left):
            raise BadInput(f"No node of the Ray cluster can do this study: {reason}")
        self.waiting.appendleft(given.job)

    def _name(self, node: str) -> str:
        """A node as people know it: its host, with a piece of its id where a host has several."""
        if node not in self.names:
            nodes = self.ray.nodes()
            hosts = [n["NodeManagerHostname"] for n in nodes]
            for n in nodes:
                host = n["NodeManagerHostname"]
                unique = hosts.count(host) == 1
                self.names[n["NodeID"]] = host if unique else f"{host}:{n['NodeID'][:5]}"
        return self.names.get(node, node[:8])


def _cannot_serve(error: Exception) -> UproarError:
    """What to do about a node where a job could not even begin."""
    text = str(error)  # what cannot be loaded there comes as an error of Ray's own, which tells it in its text
    if "ModuleNotFoundError" in text or "ImportError" in text or "failed to import" in text:
        return BadInput(
            f"A node of the Ray cluster cannot run uproar ({sentence(error)}); install uproar "
            f"{metadata.version('uproar')} with the same Python on every node."
        )
    return UproarError(
        f"A node of the Ray cluster could not take a job ({sentence(error)}). What was finished is kept; the same "
        "command goes on from there."
    )
