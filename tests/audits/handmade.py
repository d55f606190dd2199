"""What studies found, made up: audits judge it as they judge what a study found."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from uproar.audits import registry
from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.metrics.retraining import retraining_named
from uproar.results.study import Results

from ..roles import ROLES


class Handmade(registry.StudyEvidence):
    """A part whose numbers are given: responses by (metric, estimator, seed), accuracies by (metric, estimator)."""

    def __init__(
        self,
        responses: Mapping[tuple[str, str, int], Mapping[str, Any]] | None = None,
        accuracies: Mapping[tuple[str, str], Mapping[float, list[float]]] | None = None,
        axes: Mapping[str, tuple[float, ...]] | None = None,
        task: Any = None,
        **study: Any,
    ) -> None:
        self._responses = {k: _whole(v) for k, v in (responses or {}).items()}
        self._accuracies, self._axes, self._task = accuracies or {}, axes or {}, task
        names = [key[1] for key in [*self._responses, *self._accuracies]]
        self._estimators = tuple(dict.fromkeys(names))
        self._seeds = tuple(sorted({key[2] for key in self._responses})) or (0, 1)
        self.study = SimpleNamespace(
            metric_names=list(dict.fromkeys(key[0] for key in self._responses)),
            seeds=self._seeds,
            metrics=tuple(dict.fromkeys(key[0] for key in self._accuracies)),
            retrainings=[retraining_named(p) for p in dict.fromkeys(k[0] for k in self._accuracies)],
            **study,
        )

    @property
    def task(self):
        return self._task

    @property
    def estimators(self):
        return self._estimators

    @functools.cached_property
    def view(self):
        return Results({}, self.cells, pd.DataFrame(), roles=ROLES).view("made up", "by hand")

    @functools.cached_property
    def cells(self):
        where = {"task": "made up", "model": "by hand", "status": "done"}
        rows = [
            {**where, "metric": p, "estimator": e, "fraction": t, "seed": s, "accuracy": a, "images": 100}
            for (p, e), curve in self._accuracies.items()
            for t, values in curve.items()
            for s, a in enumerate(values)
        ]
        return pd.DataFrame(rows, columns=[*where, "metric", "estimator", "fraction", "seed", "accuracy", "images"])

    @functools.cached_property
    def scores(self):
        rows = [
            {
                "metric": m,
                "estimator": e,
                "seed": s,
                "value": float(np.nanmean(r["value"])),
                "higher_is_better": metrics[read_metric(m).name].facts["higher_is_better"],
            }
            for (m, e, s), r in self._responses.items()
        ]
        return pd.DataFrame(rows, columns=["metric", "estimator", "seed", "value", "higher_is_better"])

    def accuracy(self, metric, estimator):
        return pd.DataFrame(self._accuracies[metric, estimator])

    def responses(self, metric, estimator, seed):
        return self._responses[metric, estimator, seed]

    def axis(self, metric):
        return self._axes[metric]


def _whole(response: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays, with resamples of the mean where none are given; the same rows for every response."""
    arrays = {name: np.asarray(value, dtype=float) for name, value in response.items()}
    n = len(arrays["value"])
    rows = np.random.default_rng(0).integers(n, size=(200, n))
    return {"resampled": np.nanmean(arrays["value"][rows], axis=1), **arrays}


def handed(**parts: registry.StudyEvidence) -> registry.Evidence:
    """Parts by name; `study` is the study itself."""
    return registry.Evidence(parts.get("study"), parts)
