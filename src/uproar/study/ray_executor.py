"""Jobs on an existing Ray cluster.

Ray decides where a job runs. A job is a generator that first tells where it is, then how it ended, so that this side
knows what each node does without an actor that could die. Jobs write straight into the store, which every node must
see; files of the user travel with the study. A job whose worker or node dies is given to another one.
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
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from typing import Any

from uproar.errors import BadInput, UproarError, one_line
from uproar.study.executors import ATTEMPTS, KEPT, PATIENCE, Executor, failure_report, run_apart
from uproar.study.graph import Job, Report
from uproar.study.remote_worker import Token, WorkerSetup, fingerprint_of, prepare, shared_root, worker_setup
from uproar.study.spec import Study

NODES = 10
"""How often a job is given away when the whole node dies, which is seldom the fault of the job."""
QUEUED = 4
"""Jobs handed to Ray per place of the cluster: enough to keep nodes busy and to make a cluster grow."""


class Ray(Executor):
    """The nodes of a Ray cluster."""

    def __init__(self, root: str, address: str, study: Study) -> None:
        super().__init__(shared_root(root), 1)
        self.ray = imported()
        self.resources = study.resources
        self.streams: dict[int, Any] = {}
        self.counted = -PATIENCE
        self.token = Token(self.root)
        self.ours = connect(self.ray, address)
        try:
            self.workers = self._places()
            self.token.write()
            self.setup = self.ray.put(worker_setup(self.root, self.token.name, study, self.ray.put))
        except BaseException:
            self.close()
            raise
        cpus, gpus = self.resources.cpus, self.resources.gpus
        remote = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0, num_returns="streaming")
        self.remote = remote(inspect.unwrap(serve))  # Ray wants the bare generator

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

    def start(self) -> None:
        if time.monotonic() - self.counted > PATIENCE:  # a cluster grows and shrinks
            self.counted = time.monotonic()
            with contextlib.suppress(BadInput):
                self.workers = self._places()
        self.start_threads(max(16, QUEUED * self.workers))

    def carry_out(self, job: Job, number: int) -> Report:
        errors, notices, deaths = self.ray.exceptions, list[str](), 0
        while not self.closed:
            host = ""
            stream = self.remote.options(name=str(job)).remote(self.setup, job, fingerprint_of(job))
            self.streams[number] = stream
            try:
                host = self.under_way[job] = self.ray.get(next(stream))
                report = self.ray.get(next(stream))
            except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:  # errors of jobs are values
                raise _cannot_serve(error) from None
            except (ConnectionError, errors.RaySystemError) as error:
                raise UproarError(f"The Ray cluster is gone ({sentence(error)}). {KEPT}") from None
            except errors.RayError as error:
                self.under_way.pop(job, None)
                deaths += 1
                what, most = ("node", NODES) if isinstance(error, errors.NodeDiedError) else ("worker", ATTEMPTS)
                where = f" on {host}" if host else ""
                if deaths >= most:
                    reason = f"its {what} died {deaths} times, last{where}: {sentence(error)}"
                    return failure_report(job, reason, notices)
                notices.append(f"{job}: its {what} died{where}; done again elsewhere.")
                continue
            if isinstance(report, UproarError):
                raise report
            return replace(report, notices=[*notices, *report.notices], worker=host)
        raise UproarError("The run has ended.")

    def end(self) -> None:
        """Cancel what is under way; leave the cluster as it was."""
        self.token.remove()
        for stream in list(self.streams.values()):
            with contextlib.suppress(Exception):
                self.ray.cancel(stream, force=True)

    def close(self) -> None:
        super().close()
        if self.ours:
            self.ray.shutdown()


def serve(setup: WorkerSetup, job: Job, data: str) -> Iterator[object]:
    """One job on a node: where that is, then how the job ended. `data` is the fingerprint of the images it is about."""
    import ray

    host = f"{socket.gethostname()}:{ray.get_runtime_context().get_node_id()[:5]}"
    yield host
    try:
        prepare(setup, job, data, host, ray.get)
        yield run_apart(job, setup.root, setup.plugins, setup.limit)
    except UproarError as error:
        yield error


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


def _cannot_serve(error: Exception) -> UproarError:
    """What to do about a node where a job could not even begin."""
    return UproarError(
        f"A node of the Ray cluster could not take a job ({sentence(error)}); every node needs uproar "
        f"{metadata.version('uproar')} with the same Python and libraries. {KEPT}"
    )
