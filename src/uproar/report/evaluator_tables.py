"""Tables of the evaluator, on the page and beside it: its verdicts with all that they rest on, its pairs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from uproar.results.evaluator import EvaluatorScores
from uproar.results.study import Results
from uproar.results.view import StudyView

SIDEDNESS = (
    "Intervals and p against random are two-sided; p against the network-free ranking asks only whether the method is "
    "better, and is 1 where it is not ahead, however far it is behind."
)
"""Which question the two p of a row belong to."""


@dataclass(frozen=True)
class EvaluatorPart:
    """What the evaluators say of one target, a row per method, best first; see `EvaluatorScores.verdicts`."""

    target: str
    """`label`: true to the data; `answer`: to the explained network."""
    rows: tuple[Mapping[Hashable, Any], ...]
    models: tuple[str, ...]
    """The architectures of the evaluators."""

    @property
    def sidedness(self) -> str:
        """Which question the two p of a row belong to."""
        return SIDEDNESS

    @property
    def trained_as(self) -> str:
        """Of which architectures the evaluators are, in a sentence."""
        if len(self.models) < 2:
            return f"Evaluators are of the architecture {self.models[0]}." if self.models else ""
        turns = "which replicates take in turn, so that intervals have their differences"
        return f"Evaluators are of the architectures {', '.join(self.models)}, {turns}."


def evaluator_parts(view: StudyView) -> tuple[EvaluatorPart, ...]:
    """The verdicts of every target that has any."""
    return tuple(
        EvaluatorPart(target, tuple(scores.verdicts.to_dict("records")), scores.bits.models)
        for target, scores in view.evaluators.items()
        if len(scores.verdicts)
    )


def evaluator_tables(results: Results) -> Mapping[str, pd.DataFrame]:
    """By file name, those that have rows: one row per task, model, target and method, pair or estimator."""
    tables = {
        "evaluator": _over_targets(results, lambda scores: scores.verdicts),
        "evaluator_scores": _over_targets(results, lambda scores: scores.table),
        "evaluator_comparisons": _over_targets(results, lambda scores: scores.pairs),
    }
    return {name: frame for name, frame in tables.items() if len(frame)}


def bits_per_image(results: Results) -> pd.DataFrame:
    """What the evaluators say of every estimator, replicate and image, from which all their tables follow."""
    return _over_targets(results, lambda scores: scores.per_image)


def _over_targets(results: Results, part: Callable[[EvaluatorScores], pd.DataFrame]) -> pd.DataFrame:
    """A table of the evaluator for all tasks, models and targets, whose names come first."""
    frames = []
    for view in results.views:
        for target, scores in view.evaluators.items():
            frame = part(scores)
            placed = frame.assign(task=view.task, model=view.model, target=target)
            frames.append(placed[["task", "model", "target", *frame.columns]])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
