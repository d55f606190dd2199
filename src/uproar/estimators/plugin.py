"""Estimators of the user: plain functions in a file, or handed over in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

from uproar.estimators.base import INPUTS, estimator, estimators
from uproar.registry import Entry


def adopt_file(module: ModuleType) -> None:
    """Declare the plain functions `(model, x, target, ...)` of a loaded file as estimators under their own names.

    In a file that declares estimators itself, all others are helpers.
    """
    if estimators.redeclare([module.__name__]):
        return
    for name, function in list(vars(module).items()):
        if _is_plain(function, module.__name__):
            adopt(name, function)


def adopt(name: str, function: Callable) -> Entry:
    """Declare a plain function as an estimator, with no facts but its name."""
    estimator(passes=1, name=name)(function)
    return estimators[name]


def _is_plain(thing: object, module: str) -> bool:
    if not inspect.isfunction(thing) or thing.__module__ != module:
        return False
    return tuple(inspect.signature(thing).parameters)[:3] == INPUTS and thing.__name__[0] != "_"
