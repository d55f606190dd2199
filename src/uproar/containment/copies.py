"""Copies of what is handed to code of the user: whatever it does to them, the originals stay.

Tensors are copied; so are the tensors in dictionaries and dataclasses, in the latter when they are first asked for,
since some are large and most are never looked at. Other classes register how they are copied.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from uproar.seeds import Draws


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
    return lambda *given, **named: private_copy(thing(*given, **named))


def is_altered(copy: Any, original: Any) -> bool:
    """Whether values were written into a copy; parts that were never asked for are as they were."""
    if isinstance(original, Tensor):
        same = copy.shape == original.shape and copy.dtype == original.dtype
        return not same or not torch.equal(copy.nan_to_num(), original.nan_to_num())
    if isinstance(original, Mapping):
        pairs = [(copy.get(name), value) for name, value in original.items()]
    elif getattr(copy, "__dict__", {}).get("_original") is original:
        names = [name for name in vars(copy) if name != "_original"]
        pairs = [(vars(copy)[name], getattr(original, name, None)) for name in names]
    else:
        return False
    return any(is_altered(*pair) for pair in pairs if pair[1] is not None)


def _stand_in(original: Any) -> Any:
    """An object of the same class whose fields are copied when they are first asked for."""
    cls: Any = type(original)
    made: Any = object.__new__(_stand_in_class(cls))
    vars(made)["_original"] = original
    return made


@functools.cache
def _stand_in_class(cls: type) -> type:
    def copied(name: str) -> functools.cached_property:
        return functools.cached_property(lambda self: private_copy(getattr(vars(self)["_original"], name)))

    fields = {field.name: copied(field.name) for field in dataclasses.fields(cls)}
    return type(cls.__name__, (cls,), {**fields, "__module__": cls.__module__})
