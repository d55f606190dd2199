"""Metrics evaluated on all images: the one loop behind `uproar.score` and the metrics of a study."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uproar.expression import Call
from uproar.metrics import Batch
from uproar.metrics.probe import evaluate, joined, summarise
from uproar.metrics.registry import Responses, resampled_statistic
from uproar.models import MemoryBudget
from uproar.removal.order import tied_pixels
from uproar.statistics.intervals import nanmean
from uproar.tensors import spans

TOGETHER = 64
"""Images whose changes are made together, at most; each has many."""

RESAMPLED = "resampled"
"""The array that holds a statistic of the data set for resamples of the images, the same for every method."""

AVERAGED = ("value", "curve", RESAMPLED)
"""The arrays whose mean over several maps of an image has a meaning."""

Listener = Callable[[str, int, int, float], None]
"""Called with the methods evaluated, on how many more images, how many images all methods have, and the seconds."""


@dataclass(frozen=True)
class Evaluation:
    """One metric of one method's maps on all images, by one network: what a store keeps of it."""

    arrays: Mapping[str, np.ndarray]
    """By image: `value`, NaN where it is not defined, and what else the metric keeps (`curve`, …); `RESAMPLED`."""
    facts: Mapping[str, Any]
    """`value` (None or NaN where it is not defined), `n` images, `nan` of them undefined, `note`, and `tied`, the mean
    share of pixels whose value another pixel of the map has too."""

    @classmethod
    def of(cls, call: Call, responses: Responses, tied: float, seed: int = 0) -> Evaluation:
        """The evaluation that a metric's responses to all images make."""
        arrays = {name: value.contiguous().numpy() for name, value in responses.items()}
        resampled = resampled_statistic(call, responses, seed)
        if resampled is not None:
            arrays[RESAMPLED] = resampled
        return cls(arrays, {**summarise(call, responses), "tied": tied})

    @property
    def value(self) -> float:
        """The metric's number; NaN where it is not defined."""
        value = self.facts["value"]
        return math.nan if value is None else float(value)

    @property
    def responses(self) -> Responses:
        """The metric's responses, as it gave them."""
        return {name: torch.from_numpy(np.array(a)) for name, a in self.arrays.items() if name != RESAMPLED}


def average_evaluations(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """One evaluation with the means of several of one metric and network, e.g. of several random maps.

    The mean of a number that is not defined in some of them is that of the others. What else a metric keeps is that of
    the first; None without any.
    """
    if len(evaluations) < 2:
        return next(iter(evaluations), None)
    shared = [name for name in AVERAGED if all(name in evaluation.arrays for evaluation in evaluations)]
    means = {
        name: nanmean(np.stack([evaluation.arrays[name].astype(float) for evaluation in evaluations]))
        for name in shared
    }
    value = float(nanmean(np.array([evaluation.value for evaluation in evaluations])))
    undefined = max(evaluation.facts["nan"] for evaluation in evaluations)
    tied = float(np.mean([evaluation.facts["tied"] for evaluation in evaluations]))
    facts = {**evaluations[0].facts, "value": value, "nan": undefined, "tied": tied}
    return Evaluation({**evaluations[0].arrays, **means}, facts)


@dataclass(frozen=True)
class MethodResponses:
    """What all metrics say of one method's maps."""

    responses: Mapping[str, Responses]
    """By metric."""
    tied: float
    shown: int
    """Images that the model was shown."""

    @property
    def images(self) -> int:
        """How many images were evaluated."""
        return len(next(iter(self.responses.values()))["value"])


def evaluate_methods(
    calls: Mapping[str, Sequence[Call]],
    groups: Sequence[Sequence[str]],
    batches: Callable[[Sequence[str], slice], Iterable[Batch]],
    n: int,
    budget: MemoryBudget,
    *,
    step: int | None = None,
    listen: Listener = lambda *_: None,
) -> dict[str, MethodResponses]:
    """The metrics (`calls`, by method) of all methods on `n` images; each changed image is shown to the model once.

    `batches(group, rows)` gives the images and maps of a group of methods, whose maps are made together. The groups
    take turns every `step` images.
    """
    parts: dict[str, list[tuple[dict[str, Responses], int, Tensor]]] = {method: [] for method in calls}
    for rows in spans(n, step or n):
        for group in groups:
            began = time.perf_counter()

            def evaluated(
                some: slice, at_once: int, group: Sequence[str] = group, start: int = rows.start
            ) -> list[tuple[dict[str, Responses], int, Tensor]]:
                explained = batches(group, slice(start + some.start, start + some.stop))
                return [
                    (*evaluate(calls[method], batch, at_once), tied_pixels(batch.maps))
                    for method, batch in zip(group, explained, strict=True)
                ]

            for responses in budget.over(rows.stop - rows.start, TOGETHER, evaluated):
                for method, evaluation in zip(group, responses, strict=True):
                    parts[method].append(evaluation)
            whole = rows.stop if group is groups[-1] else rows.start
            listen(", ".join(group), rows.stop - rows.start, whole, time.perf_counter() - began)
    return {method: _joined(each) for method, each in parts.items()}


def _joined(parts: Sequence[tuple[dict[str, Responses], int, Tensor]]) -> MethodResponses:
    responses, shown, tied = zip(*parts, strict=True)
    return MethodResponses(joined(responses), float(torch.cat(tied).mean()), sum(shown))
