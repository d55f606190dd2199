"""Where code of the user runs: with copies, with gradients, and with everything put back afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

from uproar.containment.copies import is_altered, private_copy
from uproar.containment.model import ModelState
from uproar.containment.process import ProcessState, seed_generators
from uproar.errors import SideEffect

PATIENCE = 0.1
"""Seconds that a thread may take to end after the code that started it."""

_seed: ContextVar[int] = ContextVar("seed of the global generators", default=0)
_undone: ContextVar[list[str] | None] = ContextVar("what was put back", default=None)


def is_builtin(function: object) -> bool:
    """Whether a function, or the class of an object, is uproar's own: such code is trusted and runs as it is."""
    module = getattr(function, "__module__", None) or ""
    return module == "uproar" or module.startswith("uproar.")


def guarded_call(
    owner: str,
    function: Callable[..., Any],
    given: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    model: nn.Module | None = None,
) -> Any:
    """`function(*given, **options)`; code of the user gets copies, and its answer is a copy without a graph.

    `owner` says whose code it is, e.g. "the estimator mine"; `model` is the network that it can reach.
    """
    options = options or {}
    if is_builtin(function):
        return function(*given, **options)
    with contained(owner, model):
        copies, named = [private_copy(value) for value in given], private_copy(options)
        answer = function(*copies, **named)
    if _undone.get() is not None:
        pairs = [*zip(copies, given, strict=True), (named, options)]
        _note(["its inputs"] if any(is_altered(*pair) for pair in pairs) else [])
    return private_copy(answer)


def contained_call(
    owner: str, function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any], reseed: bool = True
) -> Any:
    """`function(*given, **options)`, which makes something new; code of the user leaves the process as it was."""
    if is_builtin(function):
        return function(*given, **options)
    with contained(owner, reseed=reseed):
        return function(*given, **options)


@contextmanager
def contained(owner: str, model: nn.Module | None = None, reseed: bool = True) -> Iterator[None]:
    """Around code of the user, which runs with gradients and, with `reseed`, a fixed start of global random generators.

    Afterwards the process is as it was, also after an error. A model that was changed is put back, and SideEffect names
    the owner; so it does if threads are left running, which could change anything at any time.
    """
    process, threads = ProcessState(), set(threading.enumerate())
    state = None if model is None else ModelState(model)
    seed = _seed.get()
    changed: list[str] = []
    left: list[str] = []
    try:
        with torch.inference_mode(False), torch.enable_grad():
            if reseed:
                seed_generators(seed)
            try:
                yield
            finally:
                left = [] if model is None else _threads_since(threads)
                _note(process.restore(seed if reseed and _undone.get() is not None else None))
                _note([] if torch.is_grad_enabled() else ["the gradient mode of torch"])
    finally:
        if state is not None:
            with torch.no_grad():
                changed = state.restore()
    if changed:
        raise SideEffect(f"{owner} changed the model: {', '.join(changed)}.")
    if left:
        raise SideEffect(f"{owner} left threads running that can change the model: {left[0]}.")


@contextmanager
def loading() -> Iterator[None]:
    """Around the loading of a user's file: what numbers depend on comes back; its environment stays."""
    before = ProcessState(whole=False)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        before.restore()


@contextmanager
def seeded_with(seed: int) -> Iterator[None]:
    """Inside, code of the user finds the global random generators started from another number."""
    token = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(token)


@contextmanager
def recording_restored() -> Iterator[list[str]]:
    """The names of what is put back inside, as it is put back; used by the contract of estimators."""
    names: list[str] = []
    token = _undone.set(names)
    try:
        yield names
    finally:
        _undone.reset(token)


def _threads_since(before: set[threading.Thread]) -> list[str]:
    """The names of the threads that were started since and do not end soon, but for the clock of tqdm's bars."""
    started = [each for each in threading.enumerate() if each not in before]
    started = [each for each in started if type(each).__name__ != "TMonitor"]
    for each in started:
        each.join(PATIENCE)
    return [each.name for each in started if each.is_alive()]


def _note(names: Sequence[str]) -> None:
    undone = _undone.get()
    if undone is not None:
        undone.extend(name for name in names if name not in undone)
