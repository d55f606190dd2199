"""Tables of the evaluator, on the page and beside it: its verdicts with all that they rest on, its pairs, encoding."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from uproar.results.study import Results
from uproar.results.view import StudyView


@dataclass(frozen=True)
class EvaluatorPart:
    """What the evaluators say of one target, a row per method, best first; see `EvaluatorScores.verdicts`."""

    target: str
    """`label`: true to the data; `answer`: to the explained network."""
    rows: tuple[Mapping[Hashable, Any], ...]


def evaluator_parts(view: StudyView) -> tuple[EvaluatorPart, ...]:
    """The verdicts of every target that has any."""
    return tuple(
        EvaluatorPart(target, tuple(scores.verdicts.to_dict("records")))
        for target, scores in view.evaluators.items()
        if len(scores.verdicts)
    )


def evaluator_tables(results: Results) -> Mapping[str, pd.DataFrame]:
    """By file name, those that have rows: one row per task, model, target and method, pair or estimator."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for view in results.views:
        for target, scores in view.evaluators.items():
            tables = {
                "evaluator": scores.verdicts,
                "evaluator_scores": scores.table,
                "evaluator_comparisons": scores.pairs,
                "encoding": scores.encoding,
            }
            for name, frame in tables.items():
                placed = frame.assign(task=view.task, model=view.model, target=target)
                parts.setdefault(name, []).append(placed[["task", "model", "target", *frame.columns]])
    whole = {name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()}
    return {name: frame for name, frame in whole.items() if len(frame)}
