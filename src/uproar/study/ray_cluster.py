"""Joining a Ray cluster: one clear sentence when there is none."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from uproar.errors import BadInput, one_line


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
