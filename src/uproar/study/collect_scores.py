"""What the store has of a study's metrics: rows per replicate, rows per image, and what all replicates say together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.flagging import CHECK_IMAGES
from uproar.metrics.registry import read_metric
from uproar.results.scores import Scores, is_ranked
from uproar.results.study import IMAGE_SCORE_COLUMNS
from uproar.scoring import replicated_metric
from uproar.scoring.evaluation import Evaluation, average_evaluations
from uproar.scoring.replicated_metric import ReplicatedMetric, replicate_interval
from uproar.statistics.design import BASELINE
from uproar.study.bench import Bench
from uproar.study.cell import ScoreCell
from uproar.study.grid import scores_of
from uproar.study.spec import Study


def evaluation(bench: Bench, unit: ScoreCell) -> Evaluation | None:
    """A metric of an estimator in one replicate, if the store has it."""
    item = bench.store.find("score", bench.keys.score(unit))
    return None if item is None else Evaluation(item.arrays, item.facts)


def score_row(unit: ScoreCell, model: str, one: Evaluation | None) -> dict[str, Any]:
    """A metric of an estimator in one replicate; None where it was not made."""
    call = read_metric(unit.metric)
    row = {
        "task": unit.task,
        "model": model,
        "estimator": unit.estimator,
        "metric": unit.metric,
        "check": unit.images is not None,
        "seed": unit.seed,
        "higher_is_better": metrics[call.name].facts["higher_is_better"],
        "value": np.nan,
        "low": np.nan,
        "high": np.nan,
        "images": 0,
        "undefined": 0,
        "ranked": False,
        "reason": "",
    }
    if one is None:
        return row
    interval = replicate_interval(call, one)
    return row | {
        "status": "done",
        "value": one.value,
        "low": interval.low,
        "high": interval.high,
        "images": one.facts["n"],
        "undefined": one.facts["nan"],
        "ranked": is_ranked(one.facts["n"], one.facts["nan"]),
    }


def image_rows(study: Study, bench: Bench) -> pd.DataFrame:
    """The metrics' values of single test images."""
    rows = [
        (unit, one.arrays["value"])
        for unit in scores_of(study, bench.setting)
        if unit.images is None and (one := evaluation(bench, unit)) is not None
    ]
    sizes = [len(values) for _, values in rows]
    columns: dict[str, Any] = {
        "task": pd.Categorical([bench.setting.task] * sum(sizes)),
        "model": pd.Categorical([bench.spec.name] * sum(sizes)),
        "estimator": _repeated([unit.estimator for unit, _ in rows], sizes),
        "metric": _repeated([unit.metric for unit, _ in rows], sizes),
        "seed": np.repeat([unit.seed for unit, _ in rows], sizes).astype(int),
        "image": np.concatenate([np.arange(n) for n in sizes]) if sizes else np.zeros(0, int),
        "value": np.concatenate([v for _, v in rows]).astype(float) if rows else np.zeros(0),
    }
    return pd.DataFrame(columns)[list(IMAGE_SCORE_COLUMNS)]


def metric_scores(study: Study, bench: Bench) -> Scores | None:
    """What the metrics say of the estimators over all replicates; None where nothing is finished."""
    return _over_replicates(study, bench, study.metric_names, None)


def check_scores(study: Study, bench: Bench) -> Scores | None:
    """What the checks say of the estimators over all replicates; None where nothing is finished."""
    return _over_replicates(study, bench, study.check_names, CHECK_IMAGES)


def _over_replicates(study: Study, bench: Bench, names: Sequence[str], images: int | None) -> Scores | None:
    calls = [read_metric(name) for name in names]
    scores = replicated_metric.scores_of(
        ((call, dict(_methods(study, bench, call, images))) for call in calls),
        bench.task.shape,
        {chain.name: chain.role for chain in study.judged_chains},
    )
    return None if scores is None else replace(scores, replicates=len(study.seeds))


def _methods(study: Study, bench: Bench, call: Call, images: int | None) -> Iterator[tuple[str, ReplicatedMetric]]:
    """The estimators for which a metric is defined in any replicate; `random` is the mean of its rankings."""
    for chain in study.judged_chains:
        names = [one.name for one in study.baseline_chains] if chain.name == BASELINE else [chain.name]
        made = [_evaluations(bench, names, str(call), seed, images) for seed in study.seeds]
        every = [average_evaluations(group) for group in made]
        defined = [
            group for group, one in zip(made, every, strict=True) if one is not None and math.isfinite(one.value)
        ]
        if defined:
            yield chain.name, ReplicatedMetric.of(call, every, traced=defined)


def _evaluations(bench: Bench, names: list[str], metric: str, seed: int, images: int | None) -> list[Evaluation]:
    """What a metric says of some rankings of one replicate, those that the store has."""
    units = [ScoreCell(bench.setting.task, bench.setting.model, name, metric, seed, images) for name in names]
    return [one for unit in units if (one := evaluation(bench, unit)) is not None]


def _repeated(names: list[str], sizes: list[int]) -> pd.Categorical:
    known = list(dict.fromkeys(names))
    codes = np.repeat([known.index(name) for name in names], sizes).astype(int)
    return pd.Categorical.from_codes(codes, known)
