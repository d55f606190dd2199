"""What all code in a process shares: random generators, switches and functions of torch and NumPy, environment.

before = ProcessState()
...
before.restore()      # the names of what had changed
"""

from __future__ import annotations

import functools
import os
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as torch_modules
from torch.overrides import _pop_mode as pop_function_mode
from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode

from uproar.containment import functions

GENERATORS = "the global random generators"
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Switch:
    """Something of the process that can be read and written back."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    counts: bool = True
    """Whether numbers may depend on it."""


class ProcessState:
    """The state of this process when it was noted; `whole=False`: of what numbers may depend on."""

    def __init__(self, whole: bool = True) -> None:
        self.switches = [switch for switch in SWITCHES if whole or switch.counts]
        self.values = [switch.read() for switch in self.switches]
        self.generators = _generators()

    def restore(self, seed: int | None = None) -> list[str]:
        """Put everything back that has changed since; the names of what had.

        The random generators are among them if they were started from `seed` and used since.
        """
        changed = []
        for switch, before in zip(self.switches, self.values, strict=True):
            if switch.read() != before:
                switch.write(before)
                changed.append(switch.name)
        if seed is not None and generators_changed(seed):
            changed.append(GENERATORS)
        _restore_generators(self.generators)
        return changed


def seed_generators(seed: int) -> None:
    """Start the global generators of torch, NumPy and Python from a number."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """The global generators start from the seed inside, and go on as before after it."""
    before = _generators()
    try:
        seed_generators(seed)
        yield
    finally:
        _restore_generators(before)


def generators_changed(seed: int) -> bool:
    """Whether the global generators have been used or set since they were started from `seed`."""
    here = _generators()
    seed_generators(seed)
    return repr(here) != repr(_generators()) or not torch.equal(here[0], _generators()[0])


def _generators() -> tuple[Any, ...]:
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), on_gpus, np.random.get_state(), random.getstate()


def _restore_generators(states: tuple[Any, ...]) -> None:
    torch.set_rng_state(states[0])
    if states[1]:
        torch.cuda.set_rng_state_all(states[1])
    np.random.set_state(states[2])
    random.setstate(states[3])


Accessor = tuple[Callable[[], Any], Callable[[Any], object]]
"""What reads a flag, and what writes it."""


def _attributes(holder: Any, *names: str) -> list[Accessor]:
    return [
        (functools.partial(getattr, holder, name), functools.partial(setattr, holder, name))
        for name in names
        if hasattr(holder, name)
    ]


_FLAGS: list[Accessor] = [
    *_attributes(torch.backends, "fp32_precision"),
    *_attributes(torch.backends.mkldnn, "enabled", "fp32_precision", "deterministic"),
    *_attributes(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision"),
    *_attributes(getattr(torch.backends.mkldnn, "conv", None), "fp32_precision"),
    *_attributes(torch.backends.cuda.matmul, "fp32_precision"),
    *_attributes(torch.backends.cudnn, "enabled", "deterministic", "benchmark", "allow_tf32"),
    *_attributes(torch.backends.opt_einsum, "enabled", "strategy"),
    (torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
]
"""Flags of the numerical libraries: they change speed and last digits."""


def _flags() -> list[Any]:
    return [_known(read) for read, _ in _FLAGS]


def _set_flags(values: list[Any]) -> None:
    for (_, write), now, before in zip(_FLAGS, _flags(), values, strict=True):
        if before is not None and now != before:
            write(before)


def _set_precision(value: str | None) -> None:
    if value is not None:
        torch.set_float32_matmul_precision(value)


def _known(read: Callable[[], Any]) -> Any:
    """The value; None where torch refuses to say, because its old and its new names were both used."""
    try:
        return read()
    except RuntimeError:
        return None


def _flushes_denormals() -> bool:
    return float(torch.tensor([1e-40], dtype=torch.float32) * 1) == 0


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)


def _set_autocast(values: list[bool]) -> None:
    for device, value in zip(DEVICES, values, strict=True):
        torch.set_autocast_enabled(device, value)


def _modes() -> tuple[int, int]:
    """How many modes are entered that stand between a call and what torch does with it."""
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


def _leave_modes(before: tuple[int, int]) -> None:
    functions_now, dispatches_now = _modes()
    for _ in range(functions_now - before[0]):
        pop_function_mode()
    for _ in range(dispatches_now - before[1]):
        pop_dispatch_mode()


def _set_streams(streams: tuple[Any, Any, Any]) -> None:
    sys.stdin, sys.stdout, sys.stderr = streams


_GLOBAL_HOOKS = [
    value
    for name, value in vars(torch_modules).items()
    if name.startswith("_global_") and isinstance(value, OrderedDict)
]


def _set_global_hooks(values: list[dict]) -> None:
    for live, before in zip(_GLOBAL_HOOKS, values, strict=True):
        live.clear()
        live.update(before)


def _set_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


SWITCHES = (
    Switch("the modes of torch", _modes, _leave_modes),
    Switch("functions of torch or NumPy", functions.read, functions.write),
    Switch("the default dtype of torch", torch.get_default_dtype, torch.set_default_dtype),
    Switch("the default device of torch", torch.get_default_device, _set_default_device),
    Switch("the number of threads of torch", torch.get_num_threads, torch.set_num_threads),
    Switch(
        "the deterministic algorithms of torch", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode
    ),
    Switch("the precision of matrix products", lambda: _known(torch.get_float32_matmul_precision), _set_precision),
    Switch("the numerical libraries of torch", _flags, _set_flags),
    Switch(
        "the anomaly detection of torch",
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda before: torch.autograd.set_detect_anomaly(*before),
    ),
    Switch("how torch treats denormal numbers", _flushes_denormals, torch.set_flush_denormal),
    Switch("the automatic precision of torch", lambda: [torch.is_autocast_enabled(d) for d in DEVICES], _set_autocast),
    Switch("hooks on all modules", lambda: [dict(hooks) for hooks in _GLOBAL_HOOKS], _set_global_hooks),
    Switch("the error handling of NumPy", np.geterr, lambda before: np.seterr(**before)),
    Switch("the environment variables", lambda: dict(os.environ), _set_environment, False),
    Switch("the working directory", os.getcwd, os.chdir),
    Switch("the standard streams", lambda: (sys.stdin, sys.stdout, sys.stderr), _set_streams),
)
"""Modes and functions come first: the others are read and written by functions of torch."""
