"""Functions of the user called in this process: they get copies, and one that changes the network is an error.

In a study, functions of plug-ins run in processes of their own (`study.executors`): what they do to torch, to classes
or to the process reaches no other result.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from uproar.errors import SideEffect
from uproar.plugins import check_local_imports
from uproar.seeds import Draws, seeded_generators

TABLES = tuple(name for name, table in vars(nn.Module()).items() if isinstance(table, dict))
"""The attributes where a module keeps its layers, weights, buffers and hooks, whatever this torch calls them."""
HOOKS = tuple(name for name in TABLES if "hook" in name)

_seed: ContextVar[int] = ContextVar("seed of the global generators", default=0)


def is_builtin(function: object) -> bool:
    """Whether a function, or the class of an object, is uproar's own: such code is trusted and runs as it is."""
    module = getattr(function, "__module__", None) or ""
    return module == "uproar" or module.startswith("uproar.")


def guarded_call(
    owner: str,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    model: nn.Module | None = None,
) -> Any:
    """`function(*inputs, **options)`; code of the user gets copies, and its answer is a copy without a graph.

    It runs with gradients and a fixed start of the global random generators. `owner` says whose code it is, e.g. "the
    estimator mine"; `model` is the network that it can reach: a change of it is undone and raised as SideEffect.
    """
    options = options or {}
    if is_builtin(function):
        return function(*inputs, **options)
    state = None if model is None else ModelState(model)
    changed: list[str] = []
    modules = len(sys.modules)
    try:
        with torch.inference_mode(False), torch.enable_grad(), seeded_generators(_seed.get()):
            answer = function(*map(private_copy, inputs), **private_copy(options))
    finally:
        if state is not None:
            changed = state.restore()
    if len(sys.modules) > modules:
        check_local_imports(function)
    if changed:
        raise SideEffect(f"{owner} changed the model: {', '.join(changed)}.")
    return private_copy(answer)


@contextmanager
def seeded_with(seed: int) -> Iterator[None]:
    """Inside, code of the user finds the global random generators started from another number."""
    token = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(token)


class ModelState:
    """Weights, buffers, layers, modes and hooks of a network when it was noted."""

    def __init__(self, model: nn.Module) -> None:
        self.modes = [(module, module.training) for module in model.modules()]
        tables = [(name, vars(module).get(name)) for module, _ in self.modes for name in TABLES]
        self.tables = [(name, table, dict(table)) for name, table in tables if isinstance(table, dict)]
        tensors = [*model.named_parameters(), *model.named_buffers()]
        self.tensors = [(name, tensor, tensor.detach().clone(), tensor.requires_grad) for name, tensor in tensors]

    def restore(self) -> list[str]:
        """Put everything back that has changed since; what had, in words."""
        changes = []
        for name, table, before in self.tables:
            if [(key, id(value)) for key, value in table.items()] != [(key, id(v)) for key, v in before.items()]:
                changes.append("hooks were left on it" if name in HOOKS else "its layers or weights were exchanged")
                table.clear()
                table.update(before)
        for module, training in self.modes:
            if module.training != training:
                changes.append("its mode changed (train or eval)")
                module.training = training
        names = []
        for name, tensor, values, flag in self.tensors:
            if tensor.is_leaf:
                tensor.requires_grad_(flag)
            if not _same(tensor.detach(), values):
                names.append(name)
                if tensor.shape == values.shape and tensor.dtype == values.dtype:
                    tensor.data.copy_(values)
                else:
                    tensor.data = values.clone()
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            changes.append(f"its weights or buffers changed ({names[0]}{more})")
        return list(dict.fromkeys(changes))


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same values; NaN counts as equal to NaN."""
    if (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
        return False
    return a.is_meta or torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))


# copies: tensors are copied, and those in dictionaries and dataclasses; other classes register how they are copied


@functools.singledispatch
def private_copy(thing: Any) -> Any:
    """The same value in memory that nobody else uses; networks and functions are passed on as they are."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return _stand_in(thing)
    return thing


@private_copy.register
def _(thing: Tensor) -> Any:
    return thing.detach().clone()


@private_copy.register(Mapping)
def _(thing: Mapping[Any, Any]) -> Any:
    return {name: private_copy(value) for name, value in thing.items()}


@private_copy.register
def _(thing: Draws) -> Any:
    return Draws(thing.seed, thing.rows, thing.split)


@private_copy.register
def _(thing: MethodType) -> Any:
    return lambda *inputs, **named: private_copy(thing(*inputs, **named))


def _stand_in(original: Any) -> Any:
    """An object of the same class whose fields are copied when they are first asked for."""
    cls: Any = type(original)
    copy: Any = object.__new__(_stand_in_class(cls))
    vars(copy)["_original"] = original
    return copy


@functools.cache
def _stand_in_class(cls: type) -> type:
    def copied(name: str) -> functools.cached_property:
        return functools.cached_property(lambda self: private_copy(getattr(vars(self)["_original"], name)))

    fields = {field.name: copied(field.name) for field in dataclasses.fields(cls)}
    return type(cls.__name__, (cls,), {**fields, "__module__": cls.__module__})
