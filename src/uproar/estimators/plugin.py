"""Estimators of the user: plain functions in a file, or handed over in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

from uproar.estimators.base import INPUTS, estimator, estimators
from uproar.registry import Entry


def adopt_file(module: ModuleType, version: str) -> list[str]:
    """The names of the estimators a loaded file declares.

    Decorated functions declare themselves. In a file without any, plain functions `(model, x, target, ...)` become
    estimators under their own names. `version`, a hash of the file's text, is part of their identity: an edited file is
    explained anew.
    """
    declared = [e for e in estimators.values() if e.function.__module__ == module.__name__]
    if not declared:
        declared = [
            adopt(name, f) for name, f in vars(module).items() if _is_plain(f, module.__name__)
        ]
    for entry in declared:
        estimators.add(entry.name, entry.function, **{**entry.facts, "version": version})
    return [entry.name for entry in declared]


def adopt(name: str, function: Callable) -> Entry:
    """Declare a plain function as an estimator, with no facts but its name."""
    estimator(passes=1, name=name)(function)
    return estimators[name]


def _is_plain(thing: object, module: str) -> bool:
    if not inspect.isfunction(thing) or thing.__module__ != module:
        return False
    return tuple(inspect.signature(thing).parameters)[:3] == INPUTS and thing.__name__[0] != "_"
