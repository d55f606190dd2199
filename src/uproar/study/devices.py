"""Where networks run: the CPU, a GPU, or one GPU for each worker process.

Random numbers are drawn on the CPU everywhere and networks are initialised there, so that a device changes nothing but
the last digits of sums. Which device made a result is therefore no part of its identity.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from uproar.errors import BadInput

WORKER = "UPROAR_WORKER"
"""The environment variable that tells a worker process its number."""

PATTERN = r"auto|cpu|mps|cuda(:\d+)?"


def check_name(name: str) -> str:
    """Refuse what is no device anywhere; whether this machine has it is asked when it is needed.

    >>> check_name("cuda:1")
    'cuda:1'
    """
    if not re.fullmatch(PATTERN, name):
        raise BadInput(f"device must be auto, cpu, cuda, cuda:0, cuda:1, … or mps, not {name!r}.")
    return name


def available() -> list[str]:
    """The devices of this machine."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def choose_device(name: str = "auto", worker: int | None = None) -> torch.device:
    """The device of a name in one of several worker processes: with `auto` and `cuda`, each has a GPU of its own.

    `auto` is a CUDA GPU where there is one, else the CPU. An Apple GPU is used only when it is asked for: it has no
    double precision, which some estimators need.
    """
    number = int(os.environ.get(WORKER, "0")) if worker is None else worker
    here = available()
    gpus = [device for device in here if device.startswith("cuda")]
    if check_name(name) == "auto":
        name = "cuda" if gpus else "cpu"
    if name == "cuda" and gpus:
        name = gpus[number % len(gpus)]
    if name not in here:
        raise BadInput(f"This machine has no device {name!r}; it has {', '.join(here)}.")
    return torch.device(name)


def default_jobs(name: str = "cpu") -> int:
    """As many jobs at a time as there are GPUs, where they are used, or as this process may use cores."""
    if choose_device(name, 0).type == "cpu":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return sum(device.startswith("cuda") for device in available()) if name in ("auto", "cuda") else 1


_device: ContextVar[str] = ContextVar("device", default="cpu")


def current_device() -> torch.device:
    """Where the networks of the job under way are."""
    return torch.device(_device.get())


@contextmanager
def working_on(name: str) -> Iterator[torch.device]:
    """Inside, networks are on the device of that name."""
    device = choose_device(name)
    token = _device.set(str(device))
    try:
        yield device
    finally:
        _device.reset(token)


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Inside, results do not depend on how many cores a machine has, nor on chance."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with repeatable(device):
            yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Inside, the same work on the same kind of device gives the same bits, at full precision."""
    if device.type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when the first product is made
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = (cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, products.allow_tf32)
    strict = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32 = True, False, False
        products.allow_tf32 = False
        torch.use_deterministic_algorithms(True, warn_only=True)
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, products.allow_tf32 = before
        torch.use_deterministic_algorithms(strict, warn_only=warned)
