"""`uproar report`: pages from what is finished."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from uproar.cli.checks import check_folder, check_run
from uproar.cli.console import note, output, print_file
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import keeping
from uproar.cli.options import WHERE, Moved, RunFolder, Stored, Trust, option
from uproar.cli.print_comparisons import Compare, check_compared, print_comparisons
from uproar.cli.print_results import add_scores_to_json
from uproar.cli.progress import machine_lines, watched
from uproar.errors import BadInput

if TYPE_CHECKING:
    from uproar.study.spec import Study

UNCHANGED = "The results are as they were; the same command writes the page again."


def report(
    folder: RunFolder,
    out: Annotated[
        Path | None, option(panel=WHERE, takes="FOLDER", text="Write the page here", default="FOLDER of the run")
    ] = None,
    markdown: Annotated[
        Path | None,
        option(
            panel=WHERE,
            takes="FOLDER",
            text="Instead write a Markdown page with figures and tables here, to keep under version control",
        ),
    ] = None,
    latex: Annotated[
        Path | None,
        option(panel=WHERE, takes="FOLDER", text="Instead write tables for LaTeX and figures as PDF here, for a paper"),
    ] = None,
    compare: Compare = None,
    weights: Moved = None,
    store: Stored = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Write the report of a run or of scores again, from whatever is finished, also while it runs."""
    if markdown is not None and latex is not None:
        raise BadInput("--markdown and --latex write different things: give one at a time.")
    for written in (out, markdown, latex):
        if written is not None:
            check_folder(written)
    from uproar.runs.open import holds_scores, run_in  # torch loads slowly

    if holds_scores(folder):
        if markdown is not None:
            raise BadInput("--markdown is for runs: the page of scores is scores.html, see --latex.")
        return _report_scores(folder, out or folder, latex, compare)
    check_run(folder)
    from uproar.cli.print_results import finish
    from uproar.runs.folder import read_run

    chosen, root, facts = read_run(folder, weights, store, trust)
    if compare is not None:
        check_compared(compare, [chain.name for chain in chosen.chains])
    if markdown is None and latex is None:
        return write_and_print(chosen, root, folder, out or folder, facts, compare)
    with watched("collecting the results") as watch, keeping(UNCHANGED):
        results = run_in(folder, chosen, root, facts)
        watch.say("drawing the page and its figures")
        page = results.report(latex, "latex") if markdown is None else results.report(markdown, "markdown")
    return finish(results, page, folder)


def _report_scores(folder: Path, out: Path, latex: Path | None, compare: str | None) -> int:
    """The page of scores again, or their tables and figures for a paper."""
    from uproar.report import read_scores, write_latex, write_scores

    scores = read_scores(folder)
    if compare is not None:
        check_compared(compare, scores.table["method"])
    with watched("drawing the report"), keeping(UNCHANGED):
        page = write_scores(scores, out) if latex is None else write_latex(scores, latex)
    add_scores_to_json(scores, page)
    print_comparisons(scores.comparisons.rename(columns={"metric": "measure"}), {}, compare)
    print_file("Report", page)
    return 0


def written(write: Callable[[], Path]) -> Path:
    """What writes a page, called; where the libraries for it are missing, a note says so. The path of what it wrote."""
    from uproar.report.libraries import MissingLibraries, missing_libraries, tables_only

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingLibraries)
        page = write()
    if missing := missing_libraries():
        note(tables_only(missing))
    return page


def write_and_print(
    study: Study, root: str, folder: Path, out: Path, facts: dict[str, Any], compare: str | None
) -> int:
    """A report of what the store has, with what the run in `folder` said of the rest."""
    from uproar.cli.print_results import finish, print_results
    from uproar.runs.open import run_in
    from uproar.study.progress import read_progress

    state = read_progress(folder)
    with watched("collecting the results") as watch, keeping(UNCHANGED):
        results = run_in(folder, study, root, facts)
        watch.say("drawing the report")
        page = written(lambda: results.report(out))
    print_results(results, compare)
    if state is not None and state.done < state.total:
        output.print(f"The run was at {state.done} of {state.total} cells when it was last heard of.")
        for line in machine_lines(state):
            output.print(f"  {escape(line)}", soft_wrap=True)
    return finish(results, page, folder)
