"""What the store has of a study's metrics: rows per replicate, rows per image, and what all replicates say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.base import read_metric
from uproar.metrics.probe import fractions_of, has_curve
from uproar.results.scores import COLUMNS, COMPARISON_COLUMNS, Curves, Line, Scores, is_ranked, why_unranked, with_rank
from uproar.results.study import IMAGE_SCORE_COLUMNS
from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.comparisons import compare_methods
from uproar.statistics.intervals import Measurements, half_width
from uproar.storage.store import Item
from uproar.study.bench import Bench
from uproar.study.cell import Scored
from uproar.study.keys import RESAMPLES
from uproar.study.plan import scores_of
from uproar.study.spec import Study

TRACED = 40
"""Resamples of the images for the interval of a curve that is a statistic of the data set."""


@dataclass(frozen=True)
class Replicated:
    """One metric of one estimator over the replicates that have it."""

    values: np.ndarray
    """The number of every replicate that has one."""
    measured: Measurements
    """What its interval and its comparisons are computed from; rows of NaN for replicates without it."""
    images: int
    undefined: int
    tied: float
    note: str
    line: Line | None
    trace: Line | None


def score_row(unit: Scored, model: str, item: Item | None) -> dict[str, Any]:
    """A metric of an estimator in one replicate; `item` is None where it was not made."""
    call = read_metric(unit.metric)
    row = {
        "task": unit.task,
        "model": model,
        "estimator": unit.estimator,
        "metric": unit.metric,
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
    if item is None:
        return row
    interval = _measured([item], call).interval().clipped(*_range(call))
    return row | {
        "status": "done",
        "value": _number(item),
        "low": interval.low,
        "high": interval.high,
        "images": item.facts["n"],
        "undefined": item.facts["nan"],
        "ranked": is_ranked(item.facts["n"], item.facts["nan"]),
    }


def image_rows(study: Study, bench: Bench) -> pd.DataFrame:
    """The values of single test images."""
    found = [
        (unit, item.arrays["value"])
        for unit in scores_of(study, bench.setting)
        if (item := _item(bench, unit)) is not None
    ]
    sizes = [len(values) for _, values in found]
    columns: dict[str, Any] = {
        "task": pd.Categorical([bench.setting.task] * sum(sizes)),
        "model": pd.Categorical([bench.spec.name] * sum(sizes)),
        "estimator": _repeated([unit.estimator for unit, _ in found], sizes),
        "metric": _repeated([unit.metric for unit, _ in found], sizes),
        "seed": np.repeat([unit.seed for unit, _ in found], sizes).astype(int),
        "image": np.concatenate([np.arange(n) for n in sizes]) if sizes else np.zeros(0, int),
        "value": np.concatenate([v for _, v in found]).astype(float) if found else np.zeros(0),
    }
    return pd.DataFrame(columns)[list(IMAGE_SCORE_COLUMNS)]


def judged(study: Study, bench: Bench) -> Scores | None:
    """What the metrics say of the estimators over all replicates; None where nothing is finished."""
    rows: list[dict[str, Any]] = []
    pairs: list[pd.DataFrame] = []
    curves: dict[str, Curves] = {}
    traces: dict[str, Curves] = {}
    for name in study.metric_names:
        call = read_metric(name)
        found = {
            chain.name: one
            for chain in study.chains
            if (one := _replicated(study, bench, chain.name, call)) is not None
        }
        rows += [_row(name, call, method, one) for method, one in found.items()]
        pairs.append(_compared(call, found))
        lines = {method: one.line for method, one in found.items() if one.line is not None}
        if lines:
            points = np.asarray(fractions_of(call, bench.task.shape))
            curves[name] = Curves(points, {}, lines)
        if (trace := metrics[call.name].facts["trace"]) is not None and found:
            own = {method: one.trace for method, one in found.items() if one.trace is not None}
            traces[name] = Curves(np.asarray(trace.levels), {}, own)
    if not rows:
        return None
    return Scores(
        pd.DataFrame(rows)[list(COLUMNS)],
        pd.DataFrame(columns=["method", "metric", "image", "value"]),
        pd.concat(pairs, ignore_index=True)[list(COMPARISON_COLUMNS)],
        curves,
        traces,
        replicates=len(study.seeds),
    )


def _item(bench: Bench, unit: Scored) -> Item | None:
    return bench.store.find("score", bench.keys.score(unit))


def _number(item: Item) -> float:
    value = item.facts["value"]
    return float("nan") if value is None else float(value)


def _replicated(study: Study, bench: Bench, estimator: str, call: Call) -> Replicated | None:
    units = [Scored(bench.setting.task, bench.setting.model, estimator, str(call), s) for s in study.seeds]
    made = [(u.seed, item) for u in units if (item := _item(bench, u)) is not None]
    found = [(seed, item) for seed, item in made if np.isfinite(_number(item))]
    if not found:
        return None
    items = [item for _, item in found]
    return Replicated(
        np.array([_number(item) for item in items]),
        _measured([dict(found).get(seed) for seed in study.seeds], call),
        items[0].facts["n"],
        max(item.facts["nan"] for _, item in made),
        float(np.mean([item.facts["tied"] for item in items])),
        items[0].facts["note"],
        _line(items) if has_curve(call) else None,
        _trace(items, call),
    )


def _measured(items: Sequence[Item | None], call: Call) -> Measurements:
    """The values of one metric of one estimator by replicate and image; None stands for a replicate without them."""

    def stacked(name: str) -> np.ndarray:
        arrays = [np.asarray(np.nan) if item is None else item.arrays[name].astype(float) for item in items]
        size = max(array.size for array in arrays)
        return np.stack([np.broadcast_to(array, (size,)) for array in arrays])

    if metrics[call.name].facts["whole"] is None:
        return Measurements(stacked("value"))
    numbers = np.array([np.nan if item is None else _number(item) for item in items])
    return Measurements(stacked("value"), numbers, stacked(RESAMPLES))


def _range(call: Call) -> tuple[float, float]:
    facts = metrics[call.name].facts
    return facts["low"], facts["high"]


def _line(items: Sequence[Item]) -> Line | None:
    """The mean curve over replicates and images, with the half width of its interval at every point."""
    if any("curve" not in item.arrays for item in items):
        return None
    shape = items[0].arrays["curve"].shape
    total, there, means = np.zeros(shape), np.zeros(shape, int), []
    for item in items:
        curve = item.arrays["curve"].astype(float)
        finite = np.isfinite(curve)
        total += np.where(finite, curve, 0.0)
        there += finite
        means.append(_mean(np.where(finite, curve, 0.0).sum(0), finite.sum(0)))
    by_image = _mean(total, there)
    n = np.isfinite(by_image).sum(0)
    mean = _mean(np.where(np.isfinite(by_image), by_image, 0.0).sum(0), n)
    squares = np.where(np.isfinite(by_image), (by_image - mean) ** 2, 0.0).sum(0)
    half = half_width(np.stack(means), _mean(_mean(squares, n - 1), n), n)
    return Line(mean, half, n)


def _trace(items: Sequence[Item], call: Call) -> Line | None:
    """A statistic of the data set at all its levels, mean over replicates; images are resampled for its interval."""
    trace = metrics[call.name].facts["trace"]
    if trace is None:
        return None
    options = metrics[call.name].bind(**dict(call.options))
    means, spread = [], []
    for item in items:
        responses = {k: torch.from_numpy(np.array(v)) for k, v in item.arrays.items() if k != RESAMPLES}
        n = len(responses["value"])
        draws = resampled_images(n, TRACED, name="trace")
        again = [trace.of({k: v[r] for k, v in responses.items()}, trace.levels, **options) for r in draws]
        means.append(trace.of(responses, trace.levels, **options).numpy())
        spread.append(torch.stack(again).double().numpy())
    drawn = np.mean(spread, axis=0)
    whole = np.where(np.isfinite(drawn).all(0), drawn, np.nan)  # where some resample does not get, nothing is said
    half = half_width(np.stack(means), whole.var(0, ddof=1), n)
    return Line(np.mean(means, axis=0), half, np.full(len(trace.levels), n))


def _mean(total: np.ndarray, there: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(there > 0, total / there, np.nan))


def _row(name: str, call: Call, method: str, one: Replicated) -> dict[str, Any]:
    interval = one.measured.interval().clipped(*_range(call))
    return with_rank(
        {
            "method": method,
            "metric": name,
            "value": float(one.values.mean()),
            "low": interval.low,
            "high": interval.high,
            "n": one.images,
            "nan": one.undefined,
            "tied": one.tied,
            "note": one.note,
            "higher_is_better": metrics[call.name].facts["higher_is_better"],
        }
    )


def _compared(call: Call, found: Mapping[str, Replicated]) -> pd.DataFrame:
    """All pairs of estimators under one metric, the better one first, Holm over the pairs."""
    unranked = {method: why_unranked(one.images, one.undefined) for method, one in found.items()}
    higher = bool(metrics[call.name].facts["higher_is_better"])
    frame = compare_methods({method: one.measured for method, one in found.items()}, higher, unranked)
    frame.insert(0, "metric", str(call))
    return frame


def _repeated(names: list[str], sizes: list[int]) -> pd.Categorical:
    known = list(dict.fromkeys(names))
    codes = np.repeat([known.index(name) for name in names], sizes).astype(int)
    return pd.Categorical.from_codes(codes, known)
