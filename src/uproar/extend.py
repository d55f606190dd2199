"""A user's file that adds estimators or metrics, without editing the package."""

from __future__ import annotations

from pathlib import Path

from uproar.errors import BadInput
from uproar.estimators.plugin import adopt_file
from uproar.metrics.base import metrics
from uproar.plugins import load_file, source_hash


def load_plugin(path: str | Path) -> list[str]:
    """Load a file that declares estimators or metrics; the names of the estimators."""
    module, version = load_file(path), source_hash(path)
    names = adopt_file(module, version)
    judged = [entry for entry in metrics.values() if entry.function.__module__ == module.__name__]
    for entry in judged:
        metrics.add(entry.name, entry.function, **{**entry.facts, "version": version})
    if not names and not judged:
        raise BadInput(
            f"{path} declares no estimator or metric: write a function (model, x, target) that returns one map "
            "per image."
        )
    return names
