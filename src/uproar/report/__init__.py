"""The report: one page, the figures as files, and the tables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from uproar.paths import user_path
from uproar.report.files import MissingLibraries, missing_libraries, require_libraries, tables_only, write_files

if TYPE_CHECKING:
    from uproar.report.content import Chapter
    from uproar.results.scores import Scores
    from uproar.results.study import Results

__all__ = ["read_scores", "write_latex", "write_report", "write_results"]

PAGE = "report.html"
"""The page of runs, scores and choices alike."""

# Plotting libraries take a second to import, which only those who write a report should wait.


def write_report(results: Results | Scores, folder: str | Path) -> Path:
    """Write the page of a run or of scores, its figures and tables into a folder; the page's path.

    Each file appears as a whole, the page last: who can open the page finds everything it links to. Without the
    libraries of the extra `report` only tables are written, which a warning says, and the path is that of the first.
    """
    from uproar.report.tables import FILES, table_files

    if missing := missing_libraries():
        warnings.warn(tables_only(missing), MissingLibraries, stacklevel=2)
        tables = table_files(results, parquet=False)
        return write_files(tables, folder) / next(iter(tables), "")
    from uproar.report.chapters import chapters_of
    from uproar.report.page import page_of
    from uproar.report.score_archive import archive_files

    tables, chapters = table_files(results), chapters_of(results)
    figures = _drawn(chapters, "svg")
    page = page_of(results, chapters, figures, list(tables))
    files = {**tables, **archive_files(results), **{f"figures/{name}.svg": svg for name, svg in figures.items()}}
    earlier = (user_path(folder) / PAGE).is_file()
    path = write_files({**files, PAGE: page.encode()}, folder) / PAGE
    for name in FILES if earlier else ():  # a page of an unfinished run has tables that this one may not have
        if f"{name}.csv" not in files:
            path.with_name(f"{name}.csv").unlink(missing_ok=True)
    return path


def read_scores(folder: str | Path) -> Scores:
    """The scores whose page is in a folder."""
    require_libraries("Opening the folder of scores")
    from uproar.report.score_archive import read_archive

    return read_archive(Path(folder))


def write_latex(results: Results | Scores, folder: str | Path) -> Path:
    """Write tables for LaTeX and figures as PDF into a folder; the path of a document that takes them in."""
    require_libraries("A report for LaTeX")
    from uproar.report.chapters import chapters_of
    from uproar.report.latex import MAIN, latex_files
    from uproar.report.page import title_of

    chapters = chapters_of(results)
    return write_files(latex_files(title_of(results), chapters, _drawn(chapters, "pdf")), folder) / MAIN


def write_results(results: Results, folder: str | Path, summary: str = "", file: str = "") -> Path:
    """Write a run as a Markdown page with its figures and tables into a folder of results; the page's path.

    `summary` says in a sentence what the study is, `file` is the text of the study file.
    """
    require_libraries("A Markdown page with figures")
    from uproar.report.chapters import chapters_of
    from uproar.report.markdown import result_files

    chapters = chapters_of(results)
    files = result_files(results, summary, file, chapters, _drawn(chapters, "svg"))
    return write_files(files, folder) / list(files)[-1]


def _drawn(chapters: list[Chapter], kind: str) -> dict[str, bytes]:
    """Every figure of some chapters as a file of one kind, by name."""
    from uproar.report.drawing import draw

    return {name: draw(figure, kind) for chapter in chapters for name, figure in chapter.figures().items()}
