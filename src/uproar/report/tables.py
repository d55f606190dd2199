"""The tables beside the page: everything a verdict is recomputed from, for programs; numbers in full."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

import pandas as pd

from uproar.report.formatting import slug
from uproar.results.claim_outcome import claims_table
from uproar.results.scores import Scores
from uproar.results.study import Results

FILES = {
    "results": "one row per trained or tested network",
    "verdicts": "every estimator against random",
    "comparisons": "every method against every baseline, and every two methods, by every metric",
    "negative_controls": "whether each metric distinguishes any method from random",
    "trust": "what audits say of each verdict",
    "audits": "what each audit found",
    "claims": "one row per number behind each claim",
    "scores": "one row per metric and method, of a study also per replicate",
    "metric_values": "the same over all replicates",
    "checks": "what the checks behind warnings measured",
    "evaluator": "the evaluator's verdicts: difference, interval, df, unadjusted and adjusted p, n",
    "evaluator_scores": "its score of every estimator and baseline",
    "evaluator_per_image": "one row per estimator, replicate and image, from which the evaluator's tables follow",
    "per_image": "one row per metric, method and image, of a study also per replicate",
}
"""What is in each table."""
LARGE = ("per_image", "evaluator_per_image")
"""Written as Parquet where pyarrow is there."""


def study_tables(results: Results) -> dict[str, pd.DataFrame]:
    """The tables of a run by name, those that have rows."""
    about = ("task", "model", "audit", "question", "state", "sentence")
    tables = {
        "results": results.cells,
        "verdicts": results.verdicts,
        "comparisons": results.comparisons,
        "negative_controls": results.negative_controls,
        "trust": results.trust,
        "audits": pd.DataFrame([{name: getattr(finding, name) for name in about} for finding in results.findings]),
        "claims": claims_table(results.claims) if results.claims else pd.DataFrame(),
        "scores": results.scores if len(results.metric_rows) else pd.DataFrame(),
        "metric_values": _over_settings(results.metric_scores),
        "checks": _over_settings(results.check_scores),
        "evaluator": _over_targets(results, "verdicts"),
        "evaluator_scores": _over_targets(results, "table"),
    }
    return {name: frame for name, frame in tables.items() if len(frame)}


def table_files(results: Results | Scores, parquet: bool = True) -> dict[str, bytes]:
    """The tables of a run or of scores by file name, those of single audits in a folder of their own."""
    if isinstance(results, Scores):
        tables = {"scores": results.table, "comparisons": results.comparisons, "per_image": results.per_image}
    else:
        several = len({(finding.task, finding.model) for finding in results.findings}) > 1
        large = {"per_image": results.image_scores, "evaluator_per_image": _over_targets(results, "per_image")}
        tables = {**study_tables(results), **{name: frame for name, frame in large.items() if len(frame)}}
        for finding in results.findings:
            where = [finding.task, finding.model] if several else []
            tables |= {
                f"audits/{slug([*where, finding.audit, title])}": frame for title, frame in finding.tables.items()
            }
    return dict(_file(name, frame, parquet and name in LARGE) for name, frame in tables.items())


def _file(name: str, frame: pd.DataFrame, parquet: bool) -> tuple[str, bytes]:
    if not parquet:
        return f"{name}.csv", str(frame.to_csv(index=False, lineterminator="\n")).encode()
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    return f"{name}.parquet", content.getvalue()


def _over_settings(by_setting: Mapping[tuple[str, str], Scores]) -> pd.DataFrame:
    """The table of metrics or checks for all tasks and models."""
    places = [{"task": task, "model": model} for task, model in by_setting]
    return _stacked(zip(places, (scores.table for scores in by_setting.values()), strict=True))


def _over_targets(results: Results, name: str) -> pd.DataFrame:
    """A table of the evaluators for all tasks, models and targets."""
    return _stacked(
        ({"task": view.task, "model": view.model, "target": target}, getattr(scores, name))
        for view in results.views
        for target, scores in view.evaluators.items()
    )


def _stacked(placed: Iterable[tuple[Mapping[str, str], pd.DataFrame]]) -> pd.DataFrame:
    """Tables one below the other, what each is about in its first columns."""
    frames = [frame.assign(**keys)[list(dict.fromkeys([*keys, *frame.columns]))] for keys, frame in placed]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
