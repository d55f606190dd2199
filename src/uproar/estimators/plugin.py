"""Estimators of the user: plain functions in a file, or handed over in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from uproar.errors import BadInput
from uproar.estimators.base import INPUTS, estimator, estimators
from uproar.plugins import load_file, source_hash
from uproar.registry import Entry


def load_plugin(path: str | Path) -> list[str]:
    """Load a file that declares estimators; the names it added.

    Decorated functions declare themselves. In a file without any, plain functions `(model, x, target, ...)` become
    estimators under their own names. The file's text is part of their identity: an edited file is explained anew.
    """
    module = load_file(path)
    declared = [e for e in estimators.values() if e.function.__module__ == module.__name__]
    if not declared:
        declared = [
            adopt(name, f) for name, f in vars(module).items() if _is_plain(f, module.__name__)
        ]
    if not declared:
        raise BadInput(
            f"{path} declares no estimator: write a function (model, x, target) that returns one map "
            "per image."
        )
    for entry in declared:
        estimators.add(entry.name, entry.function, **{**entry.facts, "version": source_hash(path)})
    return [entry.name for entry in declared]


def adopt(name: str, function: Callable) -> Entry:
    """Declare a plain function as an estimator, with no facts but its name."""
    estimator(passes=1, name=name)(function)
    return estimators[name]


def _is_plain(thing: object, module: str) -> bool:
    if not inspect.isfunction(thing) or thing.__module__ != module:
        return False
    return tuple(inspect.signature(thing).parameters)[:3] == INPUTS and thing.__name__[0] != "_"
