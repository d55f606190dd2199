"""What the store has of a study's metrics: rows per replicate, rows per image, and what all replicates say together."""

from __future__ import annotations

import itertools
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
from uproar.seeds import generator
from uproar.statistics.bootstrap import interval
from uproar.statistics.comparisons import Comparison, comparison_table, paired_means
from uproar.statistics.variance_components import estimate, half_width
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

    seeds: tuple[int, ...]
    values: np.ndarray
    """The number of every replicate."""
    resampled: np.ndarray
    """(replicates, draws): the same number for resamples of the images, the same images in every row."""
    images: int
    undefined: int
    tied: float
    note: str
    line: Line | None
    trace: Line | None
    by_image: np.ndarray | None
    """(replicates, images): the values whose mean it is; None for a statistic of all images together."""

    def against(self, other: Replicated, name: str, its_name: str) -> Comparison:
        """The difference to another estimator on the same replicates and the images where both are defined."""
        both = [seed for seed in self.seeds if seed in other.seeds]
        mine, its = ([r.seeds.index(seed) for seed in both] for r in (self, other))
        if self.by_image is not None and other.by_image is not None:
            first, second = self.by_image[mine], other.by_image[its]
            if not np.array_equal(np.isfinite(first), np.isfinite(second)):
                found, n = paired_means(first, second)
                return Comparison(name, its_name, found, n, len(both))
        draws = self.resampled[mine].mean(0) - other.resampled[its].mean(0)
        found = estimate(self.values[mine] - other.values[its], _variance(draws), self.images)
        n = self.images - max(self.undefined, other.undefined)
        return Comparison(name, its_name, found, n, len(both))


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
    low, high = interval(item.arrays[RESAMPLES])
    return row | {
        "status": "done",
        "value": _number(item),
        "low": low,
        "high": high,
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
        tuple(seed for seed, _ in found),
        np.array([_number(item) for item in items]),
        np.stack([item.arrays[RESAMPLES] for item in items]),
        items[0].facts["n"],
        max(item.facts["nan"] for _, item in made),
        float(np.mean([item.facts["tied"] for item in items])),
        items[0].facts["note"],
        _line(items) if has_curve(call) else None,
        _trace(items, call),
        np.stack([item.arrays["value"].astype(float) for item in items])
        if metrics[call.name].facts["whole"] is None
        else None,
    )


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
        draws = torch.randint(n, (TRACED, n), generator=generator(0, "trace", n))
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
    found = estimate(one.values, _variance(one.resampled.mean(0)), one.images)
    facts = metrics[call.name].facts
    low, high = max(found.low, facts["low"]), min(found.high, facts["high"])  # the metric's range
    return with_rank(
        {
            "method": method,
            "metric": name,
            "value": found.value,
            "low": low,
            "high": high,
            "n": one.images,
            "nan": one.undefined,
            "tied": one.tied,
            "note": one.note,
            "higher_is_better": facts["higher_is_better"],
        }
    )


def _compared(call: Call, found: Mapping[str, Replicated]) -> pd.DataFrame:
    """All pairs of estimators under one metric, the better one first, Holm over the pairs."""
    pairs = [
        found[a].against(found[b], a, b)
        for a, b in itertools.combinations(found, 2)
        if set(found[a].seeds) & set(found[b].seeds)
    ]
    unranked = {method: why_unranked(one.images, one.undefined) for method, one in found.items()}
    higher = bool(metrics[call.name].facts["higher_is_better"])
    frame = comparison_table(pairs, higher, "images", unranked=unranked)
    frame.insert(0, "metric", str(call))
    return frame


def _variance(draws: np.ndarray) -> float:
    finite = draws[np.isfinite(draws)]
    return float(finite.var(ddof=1)) if len(finite) > 1 else float("nan")


def _repeated(names: list[str], sizes: list[int]) -> pd.Categorical:
    known = list(dict.fromkeys(names))
    codes = np.repeat([known.index(name) for name in names], sizes).astype(int)
    return pd.Categorical.from_codes(codes, known)
