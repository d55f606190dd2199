"""The report: one page, the figures as files, and the tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from uproar.paths import user_path
from uproar.report.files import remove_files, write_files
from uproar.report.libraries import MissingLibraries, missing_libraries, require_libraries, tables_only
from uproar.results.scores import Scores
from uproar.results.study import Results

if TYPE_CHECKING:
    from uproar.report.document import Chapter
    from uproar.report.printing import Drawing
    from uproar.report.result_page import StudyText

__all__ = ["read_scores", "write_choice", "write_latex", "write_report", "write_results", "write_scores"]

# Plotting libraries take a second to import, which only those who write a report should wait.


def write_report(results: Results, folder: str | Path) -> Path:
    """Write the page, the figures and the tables into a folder; the page's path.

    Each file appears as a whole, the page last: who can open the page finds everything it links to. Where the folder
    has the report of the same results already, nothing is drawn. Without the libraries of the extra `report` only
    tables are written, which a warning says, and the path is that of `results.csv`.
    """
    if missing := missing_libraries():
        from uproar.report.tables import csv_files

        return _only_tables(csv_files(results), folder, missing) / "results.csv"
    from uproar.report.fingerprint import write_once

    return write_once(results, lambda: _study_files(results), folder) / "report.html"


def write_scores(scores: Scores, folder: str | Path) -> Path:
    """Write the page, the figures and the tables of scores into a folder, the page last; the page's path."""
    if missing := missing_libraries():
        from uproar.report.tables import score_csv_files

        return _only_tables(score_csv_files(scores), folder, missing) / "scores.csv"
    return write_files(_score_files(scores), folder) / "scores.html"


def write_choice(scores: Scores, folder: str | Path) -> Path:
    """Write the page of a choice of method, `report.html`, with its figures and tables; the page's path."""
    if missing_libraries():
        return write_scores(scores, folder)
    files = _score_files(scores)
    files["report.html"] = files.pop("scores.html")
    return write_files(files, folder) / "report.html"


def read_scores(folder: str | Path) -> Scores:
    """The scores whose page is in a folder."""
    require_libraries("Opening the folder of scores")
    from uproar.report.score_archive import read_archive

    return read_archive(Path(folder))


def write_latex(results: Results | Scores, folder: str | Path) -> Path:
    """Write tables for LaTeX and figures as PDF into a folder; the path of a document that takes them in."""
    require_libraries("A report for LaTeX")
    from uproar.report.latex_files import MAIN, latex_files, score_latex_files

    files = score_latex_files(results) if isinstance(results, Scores) else latex_files(results)
    return write_files(files, folder) / MAIN


def write_results(results: Results, study: StudyText, folder: str | Path) -> Path:
    """Write a run as a Markdown page with its figures and tables into a folder of results; the page's path.

    What an earlier page of the run linked to and this one does not is removed.
    """
    require_libraries("A Markdown page with figures")
    from uproar.report.result_page import linked_files, result_files

    files = result_files(results, study)
    page = user_path(folder) / next(name for name in files if name.endswith(".md"))
    before = linked_files(page)
    write_files(files, folder)
    remove_files(before - files.keys(), folder)
    return page


def _only_tables(files: Mapping[str, bytes], folder: str | Path, missing: list[str]) -> Path:
    """Write tables where nothing can be drawn, and say so; the folder."""
    warnings.warn(tables_only(missing), MissingLibraries, stacklevel=3)
    return write_files(files, folder)


def _study_files(results: Results) -> dict[str, bytes]:
    """Every file of a study's report by its place in the folder."""
    from uproar.report.document import chapters_of
    from uproar.report.page import study_page
    from uproar.report.tables import table_files

    chapters = chapters_of(results)
    drawings = _drawings(chapters)
    page = study_page(results, chapters, drawings)
    return {**table_files(results, chapters), **_figure_files(drawings), "report.html": page.encode()}


def _score_files(scores: Scores) -> dict[str, bytes]:
    """Every file of a score report by its place in the folder."""
    from uproar.report.document import score_chapter
    from uproar.report.page import score_page
    from uproar.report.score_archive import archive_files
    from uproar.report.tables import score_table_files

    chapter = score_chapter(scores)
    drawings = _drawings([chapter])
    page = score_page(scores, chapter, drawings)
    tables = score_table_files(scores)
    return {**tables, **archive_files(scores), **_figure_files(drawings), "scores.html": page.encode()}


def _drawings(chapters: list[Chapter]) -> dict[str, Drawing]:
    """Every figure drawn, by name."""
    from uproar.report.printing import draw

    return {name: draw(figure, name) for chapter in chapters for name, figure in chapter.figures()}


def _figure_files(drawings: Mapping[str, Drawing]) -> dict[str, bytes]:
    return {f"figures/{name}": content for one in drawings.values() for name, content in one.files.items()}
