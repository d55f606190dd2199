"""The functions and layers of torch and NumPy, which code of the user may replace ("monkeypatch").

`read` notes what stands under every name, `write` puts it back. Names that appear later, as a library is loaded bit by
bit, stay; a new method that hides an inherited one goes.
"""

from __future__ import annotations

import inspect
from operator import itemgetter
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

_MODULES: tuple[ModuleType, ...] = (torch, nn.functional, np)
_CLASSES: tuple[type, ...] = (torch.Tensor, *{value for value in vars(nn).values() if inspect.isclass(value)})
_NAMES = [tuple(name for name, value in vars(each).items() if callable(value)) for each in _MODULES]

Functions = tuple[list[tuple[Any, ...] | None], list[dict[str, Any]]]


def read() -> Functions:
    """What stands now under the names of the modules, and in the classes."""
    pairs = zip(_MODULES, _NAMES, strict=True)
    return [_values(module, names) for module, names in pairs], [dict(vars(c)) for c in _CLASSES]


def write(before: Functions) -> None:
    """Put back what was replaced or deleted since."""
    for module, names, values in zip(_MODULES, _NAMES, before[0], strict=True):
        for name, value in zip(names, values or (), strict=True):
            if vars(module).get(name) is not value:
                setattr(module, name, value)
    for cls, entries in zip(_CLASSES, before[1], strict=True):
        for name, value in entries.items():
            if vars(cls).get(name) is not value:
                setattr(cls, name, value)
        for name in vars(cls).keys() - entries.keys():
            if any(name in vars(parent) for parent in cls.__mro__[1:]):
                delattr(cls, name)


def _values(module: ModuleType, names: tuple[str, ...]) -> tuple[Any, ...] | None:
    """What stands under some names; None if one of them was deleted."""
    try:
        return itemgetter(*names)(vars(module))
    except KeyError:
        return None
