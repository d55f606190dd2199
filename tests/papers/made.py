"""Results made by hand, for claims: accuracies by metric, values by image, findings of audits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.metrics.retraining import RETRAININGS
from uproar.results.finding import Finding
from uproar.results.scores import Scores
from uproar.results.study import COLUMNS, IMAGE_SCORE_COLUMNS, SCORE_COLUMNS, Results
from uproar.statistics.comparisons import compare
from uproar.statistics.intervals import Measurements

from ..roles import ROLES

TASK, MODEL = "digits", "cnn"
Curves = Mapping[str, Mapping[str, Mapping[float, float]]]


def accuracies(curves: Curves, noise: float, seeds: int = 4, plain: float = 0.9) -> pd.DataFrame:
    """Cells: `curves[metric][estimator][fraction]` is the mean accuracy, with noise of its own in every replicate."""
    draws = np.random.default_rng(0)
    rows = []
    for metric, by_name in curves.items():
        start = 1.0 if RETRAININGS[metric].higher_is_better else 0.0
        for name, curve in by_name.items():
            for seed, (t, level) in itertools.product(range(seeds), {start: plain, **curve}.items()):
                value = level if t == start else level + noise * draws.normal()
                rows.append(
                    {
                        "task": TASK,
                        "model": MODEL,
                        "estimator": name,
                        "metric": metric,
                        "fraction": t,
                        "seed": seed,
                        "status": "done",
                        "accuracy": value,
                        "images": 100,
                    }
                )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def scored(values: Mapping[tuple[str, str], np.ndarray], task: str = TASK, model: str = MODEL) -> dict:
    """The parts of results that hold metrics: values of one replicate, (images,), or of some, (replicates, images)."""
    table, rows, comparisons, tidy = [], [], [], []
    values = {key: np.atleast_2d(v) for key, v in values.items()}
    for (metric, name), replicates in values.items():
        higher = metrics[read_metric(metric).name].facts["higher_is_better"]
        for seed, v in enumerate(replicates):
            place = {"task": task, "model": model, "estimator": name, "metric": metric, "seed": seed}
            rows.append({**place, "check": False, "status": "done", "value": v.mean(), "higher_is_better": higher})
            tidy += [{**place, "image": i, "value": x} for i, x in enumerate(v)]
        table.append(
            {
                "method": name,
                "role": ROLES.get(name, "method"),
                "metric": metric,
                "value": replicates.mean(),
                "n": replicates.shape[1],
            }
        )
    for metric in dict.fromkeys(m for m, _ in values):
        higher = metrics[read_metric(metric).name].facts["higher_is_better"]
        methods = {e: Measurements(v) for (m, e), v in values.items() if m == metric}
        comparisons.append(
            compare(methods, [e for e in methods if ROLES.get(e) in ("baseline", "random")], higher).assign(
                metric=metric
            )
        )
    judged = Scores(pd.DataFrame(table), pd.DataFrame(), pd.concat(comparisons))
    return {
        "scores": pd.DataFrame(rows, columns=list(SCORE_COLUMNS)),
        "image_scores": pd.DataFrame(tidy, columns=list(IMAGE_SCORE_COLUMNS)),
        "metric_scores": {(task, model): judged},
    }


def results(cells: pd.DataFrame | None = None, findings: tuple[Finding, ...] = (), **more) -> Results:
    """Results of ten classes around some of the above."""
    return Results(
        study={"name": "made by hand"},
        cells=pd.DataFrame(columns=list(COLUMNS)) if cells is None else cells,
        costs=pd.DataFrame(columns=["task", "model", "estimator"]),
        roles=ROLES,
        provenance={"classes": {TASK: 10}},
        findings=findings,
        **more,
    )


def finding(audit: str, **tables: pd.DataFrame) -> Finding:
    """What an audit found, its tables by title."""
    return Finding("misleads", "Made by hand.", tables=tables, audit=audit, task=TASK, model=MODEL)
