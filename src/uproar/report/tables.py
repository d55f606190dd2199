"""The tables beside the page: everything a verdict is recomputed from, for programs; numbers in full."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import pandas as pd

from uproar.report.formatting import slug
from uproar.results.claim_outcome import claims_table
from uproar.results.evaluator import EvaluatorScores
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.statistics.comparisons import VERDICT_COLUMNS

FILES = {
    "results": "one row per trained or tested network",
    "verdicts": "every estimator against random",
    "comparisons": "every method against every baseline, and every two methods, by every metric",
    "negative_controls": "whether each protocol and metric distinguishes any method from random",
    "trust": "what audits say of each verdict",
    "audits": "what each audit found",
    "claims": "one row per number behind each claim",
    "scores": "one row per metric, estimator and replicate",
    "metric_values": "the same over all replicates",
    "checks": "what the checks behind warnings measured",
    "evaluator": "the evaluator's verdicts: difference, interval, df, p alone and adjusted, n",
    "evaluator_scores": "its score of every estimator and baseline",
    "evaluator_per_image": "one row per estimator, replicate and image, from which the evaluator's tables follow",
    "per_image": "one row per metric, estimator, replicate and image",
}
"""What is in each table."""
SCORE_FILES = {
    "scores": "one row per method and metric",
    "comparisons": "one row per metric and pair of methods",
    "per_image": "one row per method, metric and image",
}
"""What is in each table of scores alone."""
LARGE = ("per_image", "evaluator_per_image")
"""Written as Parquet where pyarrow is there."""


def study_tables(results: Results) -> dict[str, pd.DataFrame]:
    """The tables of a run by name: those that have rows, and `results`."""
    about = ("task", "model", "audit", "question", "state", "sentence")
    tables = {
        "results": results.cells,
        "verdicts": results.verdicts if len(results.verdicts) else pd.DataFrame(columns=list(VERDICT_COLUMNS)),
        "comparisons": results.comparisons,
        "negative_controls": results.negative_controls,
        "trust": results.trust,
        "audits": pd.DataFrame([{name: getattr(one, name) for name in about} for one in results.findings]),
        "claims": claims_table(results.claims) if results.claims else pd.DataFrame(),
        "scores": results.scores if len(results.metric_rows) else pd.DataFrame(),
        "metric_values": _over_settings(results.metric_scores, lambda scores: scores.table),
        "checks": _over_settings(results.check_scores, lambda scores: scores.table),
        "evaluator": _over_targets(results, lambda scores: scores.verdicts),
        "evaluator_scores": _over_targets(results, lambda scores: scores.table),
    }
    return {name: frame for name, frame in tables.items() if len(frame) or name in ("results", "verdicts")}


def table_files(results: Results | Scores, parquet: bool = True) -> dict[str, bytes]:
    """The tables of a run or of scores by file name, those of single audits in a folder of their own."""
    if isinstance(results, Scores):
        tables = {"scores": results.table, "comparisons": results.comparisons, "per_image": results.per_image}
    else:
        several = len({(one.task, one.model) for one in results.findings}) > 1
        large = {
            "per_image": results.image_scores,
            "evaluator_per_image": _over_targets(results, lambda s: s.per_image),
        }
        tables = {**study_tables(results), **{name: frame for name, frame in large.items() if len(frame)}}
        for one in results.findings:
            where = [one.task, one.model] if several else []
            tables |= {f"audits/{slug([*where, one.audit, title])}": frame for title, frame in one.tables.items()}
    return dict(_file(name, frame, parquet and name in LARGE) for name, frame in tables.items())


def _file(name: str, frame: pd.DataFrame, parquet: bool) -> tuple[str, bytes]:
    if not parquet:
        return f"{name}.csv", str(frame.to_csv(index=False, lineterminator="\n")).encode()
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    return f"{name}.parquet", content.getvalue()


def _over_settings(
    by_setting: Mapping[tuple[str, str], Scores], part: Callable[[Scores], pd.DataFrame]
) -> pd.DataFrame:
    """A table of metrics or checks for all tasks and models, whose names come first."""
    frames = []
    for (task, model), scores in by_setting.items():
        frame = part(scores)
        frames.append(frame.assign(task=task, model=model)[["task", "model", *frame.columns]])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _over_targets(results: Results, part: Callable[[EvaluatorScores], pd.DataFrame]) -> pd.DataFrame:
    """A table of the evaluator for all tasks, models and targets, whose names come first."""
    frames = []
    for view in results.views:
        for target, scores in view.evaluators.items():
            frame = part(scores)
            placed = frame.assign(task=view.task, model=view.model, target=target)
            frames.append(placed[["task", "model", "target", *frame.columns]])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
