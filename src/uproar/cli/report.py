"""`uproar report`: the page, tables and claims of what is finished."""

from __future__ import annotations

import warnings
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from rich.markup import escape

from uproar.cli.checks import check_folder, check_run
from uproar.cli.console import note, output, print_file, some
from uproar.cli.interrupt import keeping
from uproar.cli.options import DataRoot, Moved, RunFolder, Stored, Trust, flag, names, option
from uproar.cli.print_results import add_scores_to_json
from uproar.cli.progress import machine_lines, watched
from uproar.errors import BadInput

UNCHANGED = "The results are as they were; the same command writes the page again."


def report(
    folder: RunFolder,
    show: Annotated[bool, flag("--open", text="Open the page in the browser")] = False,
    latex: Annotated[
        Path | None, option(takes="FOLDER", text="Instead write LaTeX tables and PDF figures here")
    ] = None,
    markdown: Annotated[Path | None, option(takes="FOLDER", text="Instead write a Markdown page here")] = None,
    claims: Annotated[list[str] | None, names(kind="claims", text="Test these, see uproar ls claims")] = None,
    out: Annotated[Path | None, option(takes="FOLDER", text="Write the page here", default="FOLDER")] = None,
    weights: Moved = None,
    store: Stored = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Write the report of a run or of scores: page, tables, LaTeX, claims.

    It shows whatever is finished, also while the run goes on.
    """
    if markdown is not None and latex is not None:
        raise BadInput("--markdown and --latex write different things: give one at a time.")
    for place in (out, markdown, latex):
        if place is not None:
            check_folder(place)
    from uproar.study.sessions import holds_scores, run_in  # torch loads slowly

    if holds_scores(folder):
        if markdown is not None or claims is not None:
            raise BadInput("--markdown and --claims are for runs: scores have their page and --latex.")
        page = _report_scores(folder, out or folder, latex)
        return _opened(page) if show else 0
    check_run(folder)
    from uproar.cli.print_results import finish, print_results
    from uproar.papers.claims import claims_named
    from uproar.study.progress import read_progress
    from uproar.study.record import read_run

    study, root, facts = read_run(folder, weights, store, trust)
    if claims is not None:
        study = study.with_changes(claims=some("--claims", claims, ()))
        claims_named(study.claims)  # an unknown name is refused before results are collected
    state = read_progress(folder)
    with watched("collecting the results") as watch, keeping(UNCHANGED):
        results = run_in(folder, study, root, facts)
        watch.say("drawing the page and its figures")
        if latex is not None:
            page = results.report(latex, "latex")
        elif markdown is not None:
            page = results.report(markdown, "markdown")
        else:
            page = written(lambda: results.report(out or folder))
    print_results(results)
    if state is not None and state.done < state.total:
        output.print(f"The run was at {state.done} of {state.total} cells when it was last heard of.")
        for line in machine_lines(state):
            output.print(f"  {escape(line)}", soft_wrap=True)
    code = finish(results, page, folder)
    return _opened(page) or code if show else code


def _opened(page: Path) -> int:
    """Show a page in the browser."""
    webbrowser.open(page.resolve().as_uri())
    return 0


def _report_scores(folder: Path, out: Path, latex: Path | None) -> Path:
    """The page of scores again, or their tables and figures for a paper."""
    from uproar.report import read_scores, write_latex, write_scores

    scores = read_scores(folder)
    with watched("drawing the report"), keeping(UNCHANGED):
        page = write_scores(scores, out) if latex is None else write_latex(scores, latex)
    add_scores_to_json(scores, page)
    print_file("Report", page)
    return page


def written(write: Callable[[], Path]) -> Path:
    """What writes a page, called; where the libraries for it are missing, a note says so. The path of what it wrote."""
    from uproar.report.files import MissingLibraries, missing_libraries, tables_only

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingLibraries)
        page = write()
    if missing := missing_libraries():
        note(tables_only(missing))
    return page
