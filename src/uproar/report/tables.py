"""The tables beside the page: the tidy results and the verdicts, for programs."""

from __future__ import annotations

import io

import pandas as pd

from uproar.metrics.verdicts import COLUMNS as VERDICT_COLUMNS
from uproar.report.document import Chapter
from uproar.results import Results


def table_files(results: Results, chapters: list[Chapter]) -> dict[str, bytes]:
    """`results.csv`, `results.parquet` and `verdicts.csv`; numbers in full, so that they read back exactly."""
    parquet = io.BytesIO()
    results.table.to_parquet(parquet, index=False)
    return {
        "results.csv": _csv(results.table),
        "results.parquet": parquet.getvalue(),
        "verdicts.csv": _csv(verdict_table(chapters)),
    }


def verdict_table(chapters: list[Chapter]) -> pd.DataFrame:
    """The verdicts the page shows, one row per task, model, protocol and estimator."""
    frames = [frame for chapter in chapters for frame in chapter.section.verdicts.values()]
    if not frames:
        return pd.DataFrame(columns=["task", "model", "protocol", *VERDICT_COLUMNS])
    return pd.concat(frames, ignore_index=True)


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()
