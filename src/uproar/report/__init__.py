"""The report: one page, the figures as files, and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from uproar.paths import user_path
from uproar.report.files import remove_files, write_files
from uproar.results.scores import Scores
from uproar.results.study import Results

if TYPE_CHECKING:
    from uproar.report.result_page import Told

__all__ = ["read_scores", "write_latex", "write_overview", "write_report", "write_results", "write_scores"]


def write_report(results: Results, folder: str | Path) -> Path:
    """Write the page, the figures and the tables into a folder; the page's path.

    Each file appears as a whole, the page last: who can open the page finds everything it links to. Where the folder
    has the report of the same results already, nothing is drawn.
    """
    from uproar.report.fingerprint import write_once

    return write_once(results, lambda: _files(results), folder) / "report.html"


def write_scores(scores: Scores, folder: str | Path) -> Path:
    """Write the scores as a page with figures and tables into a folder; the page's path."""
    from uproar.report.score_report import write_scores as write

    return write(scores, folder)


def read_scores(folder: str | Path) -> Scores:
    """The scores whose page is in a folder."""
    from uproar.report.score_archive import read_archive

    return read_archive(Path(folder))


def write_latex(found: Results | Scores, folder: str | Path) -> Path:
    """Write tables for LaTeX and figures as PDF into a folder; the path of a document that takes them in."""
    from uproar.report.latex_files import MAIN, latex_files, score_latex_files

    files = score_latex_files(found) if isinstance(found, Scores) else latex_files(found)
    return write_files(files, folder) / MAIN


def write_results(results: Results, told: Told, folder: str | Path) -> Path:
    """Write a run as a Markdown page with its figures and tables into a folder of results; the page's path.

    What an earlier page of the run linked to and this one does not is removed, and the overview is made again.
    """
    from uproar.report.result_page import linked_files, result_files

    files = result_files(results, told)
    page = user_path(folder) / next(name for name in files if name.endswith(".md"))
    before = linked_files(page)
    write_overview(write_files(files, folder))
    remove_files(before - files.keys(), folder)
    return page


def write_overview(folder: str | Path) -> Path:
    """Make the tables in the overview of a folder of results again; the path of the page."""
    from uproar.report.overview import INDEX, overview

    return write_files({INDEX: overview(folder)}, folder) / INDEX


def _files(results: Results) -> Mapping[str, bytes]:
    """Every file of the report by its place in the folder."""
    # Plotting libraries take a second to import, which only those who write a report should wait.
    from uproar.report.document import chapters_of
    from uproar.report.draw import drawn
    from uproar.report.page import page
    from uproar.report.score_draw import drawn as drawn_scores
    from uproar.report.tables import table_files

    chapters = chapters_of(results)
    files = table_files(results, chapters)
    for chapter in chapters:
        for figure in chapter.drawings():
            for name, content in drawn(figure).items():
                files[f"figures/{chapter.prefix}{name}"] = content
        if chapter.metrics is not None:
            for metric_figure in chapter.metrics.drawings():
                for name, content in drawn_scores(metric_figure).items():
                    files[f"figures/{chapter.metrics.prefix}{name}"] = content
    return {**files, "report.html": page(results, chapters, files).encode()}
