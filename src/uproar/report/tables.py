"""The tables beside the page: the tidy results and the verdicts, for programs."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from uproar.report.document import Chapter
from uproar.report.evaluator_tables import bits_per_image, evaluator_tables
from uproar.report.formatting import slug
from uproar.results.claim_outcome import claims_table
from uproar.results.finding import Finding
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.statistics.verdicts import COLUMNS as VERDICT_COLUMNS


def table_files(results: Results, chapters: list[Chapter]) -> dict[str, bytes]:
    """The tables by file name; numbers in full, so that they read back exactly.

    `results.csv`, `results.parquet` (with every random ranking of the baseline), `verdicts.csv`, `comparisons.csv`
    (every pair of estimators under every protocol and metric) and `negative_controls.csv`; with metrics also
    `scores.csv` and `scores.parquet` (a row per replicate), `per_image.parquet`, and over all replicates
    `metric_values.csv` and `metric_comparisons.csv`; with checks `checks.csv`; with an evaluator `evaluator.csv` (its
    verdicts), `evaluator_scores.csv`, `evaluator_comparisons.csv` and `evaluator_per_image.parquet`,
    from which they follow; with claims `claims.csv`, a row per number behind each.
    """
    files = {f"{name}.csv": _csv(frame) for name, frame in run_tables(results, verdict_table(chapters)).items()}
    files["results.parquet"] = _parquet(results.table)
    if results.findings:
        files |= _audit_tables(results)
    if len(results.metric_rows):
        files |= {"scores.parquet": _parquet(results.scores), "per_image.parquet": _parquet(results.image_scores)}
    if results.evaluations:
        files["evaluator_per_image.parquet"] = _parquet(bits_per_image(results))
    return files


def run_tables(results: Results, verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of a run that are written as CSV, by the name of the file; those of single audits apart."""
    tables = {
        "results": results.table,
        "verdicts": verdicts,
        "comparisons": results.comparisons,
        "negative_controls": results.negative_controls,
    }
    if results.findings:
        tables |= {"trust": results.trust, "audits": findings_table(results.findings)}
    if results.claims:
        tables["claims"] = claims_table(results.claims)
    if len(results.metric_rows):
        tables |= {
            "scores": results.scores,
            "metric_values": _over_settings(results.metric_scores, lambda scores: scores.table),
            "metric_comparisons": _over_settings(results.metric_scores, lambda scores: scores.comparisons),
        }
    if results.check_scores:
        tables["checks"] = _over_settings(results.check_scores, lambda scores: scores.table)
    return {**tables, **evaluator_tables(results)}


def findings_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """What each audit found, a row each."""
    columns = ("task", "model", "audit", "question", "state", "sentence")
    return pd.DataFrame([{name: getattr(one, name) for name in columns} for one in findings], columns=list(columns))


def csv_files(results: Results) -> dict[str, bytes]:
    """The tables of a study that need no library beside the core, by file name: where no page can be drawn."""
    by_image = {"per_image": results.image_scores, "evaluator_per_image": bits_per_image(results)}
    tables = {**run_tables(results, results.verdicts), **by_image}
    return {f"{name}.csv": _csv(frame) for name, frame in tables.items() if len(frame) or name == "results"}


def score_csv_files(scores: Scores) -> dict[str, bytes]:
    """The tables of scores that need no library beside the core, by file name."""
    tables = {"scores": scores.table, "comparisons": scores.comparisons, "per_image": scores.per_image}
    return {f"{name}.csv": _csv(frame) for name, frame in tables.items()}


def score_table_files(scores: Scores) -> dict[str, bytes]:
    """The tables of scores alone: `scores.csv`, `comparisons.csv` and `per_image.parquet`."""
    return {
        "scores.csv": _csv(scores.table),
        "comparisons.csv": _csv(scores.comparisons),
        "per_image.parquet": _parquet(scores.per_image),
    }


def _audit_tables(results: Results) -> dict[str, bytes]:
    """Every table of every audit, in a folder of its own."""
    several = len({(one.task, one.model) for one in results.findings}) > 1
    files = {}
    for one in results.findings:
        where = [one.task, one.model] if several else []
        for title, frame in one.tables.items():
            files[f"audits/{slug([*where, one.audit, title])}.csv"] = _csv(frame)
    return files


def _over_settings(
    by_setting: Mapping[tuple[str, str], Scores], part: Callable[[Scores], pd.DataFrame]
) -> pd.DataFrame:
    """A table of metrics or checks for all tasks and models, whose names come first."""
    frames = []
    for (task, model), scores in by_setting.items():
        frame = part(scores).copy()
        frame.insert(0, "task", task)
        frame.insert(1, "model", model)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def verdict_table(chapters: list[Chapter]) -> pd.DataFrame:
    """The verdicts the page shows, one row per task, model, protocol and estimator."""
    frames = [frame for chapter in chapters for frame in chapter.section.verdicts.values()]
    if not frames:
        return pd.DataFrame(columns=["task", "model", "protocol", *VERDICT_COLUMNS])
    return pd.concat(frames, ignore_index=True)


def _parquet(frame: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    return content.getvalue()


def _csv(frame: pd.DataFrame) -> bytes:
    return str(frame.to_csv(index=False, lineterminator="\n")).encode()
