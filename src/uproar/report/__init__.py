"""The report: one page, the figures as files, and the tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from uproar.paths import user_path
from uproar.report.files import (
    MissingLibraries,
    missing_libraries,
    remove_files,
    require_libraries,
    tables_only,
    write_files,
)

if TYPE_CHECKING:
    from uproar.report.content import Chapter
    from uproar.report.markdown import StudyText
    from uproar.results.scores import Scores
    from uproar.results.study import Results

__all__ = ["read_scores", "write_latex", "write_report", "write_results", "write_scores"]

PAGE = "report.html"
"""The page of runs, scores and choices alike."""

# Plotting libraries take a second to import, which only those who write a report should wait.


def write_report(results: Results, folder: str | Path) -> Path:
    """Write the page, the figures and the tables into a folder; the page's path.

    Each file appears as a whole, the page last: who can open the page finds everything it links to. Without the
    libraries of the extra `report` only tables are written, which a warning says, and the path is that of
    `results.csv`.
    """
    from uproar.report.tables import study_table_files

    if missing := missing_libraries():
        return _only_tables(study_table_files(results, parquet=False), folder, missing) / "results.csv"
    from uproar.report.chapters import chapters_of
    from uproar.report.page import study_page

    tables, chapters = study_table_files(results), chapters_of(results)
    figures = _drawn(chapters, "svg")
    page = study_page(results, chapters, figures, list(tables))
    files = {**tables, **{f"figures/{name}.svg": svg for name, svg in figures.items()}, PAGE: page.encode()}
    return write_files(files, folder) / PAGE


def write_scores(scores: Scores, folder: str | Path) -> Path:
    """Write the page, the figures and the tables of scores into a folder, the page last; the page's path."""
    from uproar.report.tables import score_table_files

    if missing := missing_libraries():
        return _only_tables(score_table_files(scores, parquet=False), folder, missing) / "scores.csv"
    from uproar.report.chapters import score_chapter
    from uproar.report.page import score_page
    from uproar.report.score_archive import archive_files

    chapter, tables = score_chapter(scores), score_table_files(scores)
    figures = _drawn([chapter], "svg")
    page = score_page(scores, chapter, figures, list(tables))
    drawn = {f"figures/{name}.svg": svg for name, svg in figures.items()}
    return write_files({**tables, **archive_files(scores), **drawn, PAGE: page.encode()}, folder) / PAGE


def read_scores(folder: str | Path) -> Scores:
    """The scores whose page is in a folder."""
    require_libraries("Opening the folder of scores")
    from uproar.report.score_archive import read_archive

    return read_archive(Path(folder))


def write_latex(results: Results | Scores, folder: str | Path) -> Path:
    """Write tables for LaTeX and figures as PDF into a folder; the path of a document that takes them in."""
    require_libraries("A report for LaTeX")
    from uproar.report.chapters import chapters_of, score_chapter
    from uproar.report.latex import MAIN, latex_files
    from uproar.results.scores import Scores

    if isinstance(results, Scores):
        title, chapters = "Scores of attribution maps", [score_chapter(results)]
    else:
        title, chapters = str(results.study.get("name", "study")), chapters_of(results)
    return write_files(latex_files(title, chapters, _drawn(chapters, "pdf")), folder) / MAIN


def write_results(results: Results, study: StudyText, folder: str | Path) -> Path:
    """Write a run as a Markdown page with its figures and tables into a folder of results; the page's path.

    What an earlier page of the run linked to and this one does not is removed.
    """
    require_libraries("A Markdown page with figures")
    from uproar.report.chapters import chapters_of
    from uproar.report.markdown import linked_files, result_files

    chapters = chapters_of(results)
    files = result_files(results, study, chapters, _drawn(chapters, "svg"))
    page = user_path(folder) / next(name for name in files if name.endswith(".md"))
    before = linked_files(page)
    write_files(files, folder)
    remove_files(before - files.keys(), folder)
    return page


def _only_tables(files: Mapping[str, bytes], folder: str | Path, missing: list[str]) -> Path:
    """Write tables where nothing can be drawn, and say so; the folder."""
    warnings.warn(tables_only(missing), MissingLibraries, stacklevel=3)
    return write_files(files, folder)


def _drawn(chapters: list[Chapter], kind: str) -> dict[str, bytes]:
    """Every figure of some chapters as a file of one kind, by name."""
    from uproar.report.drawing import draw

    return {name: draw(figure, kind) for chapter in chapters for name, figure in chapter.figures().items()}
