"""The report of scores: one page, the figures as files, and the tables."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from uproar.report.files import write_files
from uproar.report.score_archive import archive_files
from uproar.report.score_document import document_of
from uproar.report.score_draw import drawn
from uproar.report.score_page import page
from uproar.results.scores import Scores


def write_scores(scores: Scores, folder: str | Path) -> Path:
    """Write the page, the figures and the tables into a folder; the page's path.

    Each file appears as a whole, the page last: who can open the page finds everything it links to.
    """
    return write_files(_files(scores), folder) / "scores.html"


def _files(scores: Scores) -> dict[str, bytes]:
    """Every file of the report by its place in the folder."""
    document = document_of(scores)
    parquet = io.BytesIO()
    scores.per_image.to_parquet(parquet, index=False)
    files = {
        "scores.csv": _csv(scores.table),
        "comparisons.csv": _csv(scores.comparisons),
        "per_image.parquet": parquet.getvalue(),
        **archive_files(scores),
    }
    for figure in document.drawings():
        for name, content in drawn(figure).items():
            files[f"figures/{name}"] = content
    return {**files, "scores.html": page(scores, document).encode()}


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()
