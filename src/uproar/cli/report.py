"""`uproar report` and `uproar compare`: the page, tables and claims of what is finished; two runs or methods beside
each other."""

from __future__ import annotations

import warnings
import webbrowser
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from uproar.cli.interrupt import keeping
from uproar.cli.options import (
    DataRoot,
    Moved,
    RunFolder,
    Stored,
    Trust,
    argument,
    check_folder,
    check_run,
    complete_runs,
    flag,
    names,
    option,
)
from uproar.cli.progress import machine_lines, watched
from uproar.cli.results import add_scores_to_json, finish, interval_text, number_text, p_text, print_results
from uproar.cli.screen import add_to_json, note, output, print_file, some, table
from uproar.errors import BadInput
from uproar.wording import setting_text

if TYPE_CHECKING:
    import pandas as pd

    from uproar.results.difference import Difference

UNCHANGED = "The results are as they were; the same command writes the page again."


def report(
    folder: RunFolder,
    show: Annotated[bool, flag("--open", "Open the page in the browser")] = False,
    latex: Annotated[Path | None, option("FOLDER", "Instead write LaTeX tables and PDF figures here")] = None,
    markdown: Annotated[Path | None, option("FOLDER", "Instead write a Markdown page here")] = None,
    claims: Annotated[list[str] | None, names("claims", "Test these claims (uproar ls claims)")] = None,
    out: Annotated[Path | None, option("FOLDER", "Write the page here", default="FOLDER")] = None,
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
        from uproar.report import read_scores, write_latex, write_report

        scores = read_scores(folder)
        with watched("drawing the report"), keeping(UNCHANGED):
            page = write_report(scores, out or folder) if latex is None else write_latex(scores, latex)
        add_scores_to_json(scores, page)
        print_file("Report", page)
        code = 0
    else:
        check_run(folder)
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
            output.print(f"The run was at {state.done} of {state.total} results when it was last heard of.")
            for line in machine_lines(state):
                output.print(f"  {escape(line)}", soft_wrap=True)
        code = finish(results, page, folder)
    if show:
        webbrowser.open(page.resolve().as_uri())
    return code


def written(write: Callable[[], Path]) -> Path:
    """What writes a page, called; where the libraries for it are missing, a note says so. The path of what it wrote."""
    from uproar.report.files import MissingLibraries, missing_libraries, tables_only

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingLibraries)
        page = write()
    if missing := missing_libraries():
        note(tables_only(missing))
    return page


def compare(
    first: Annotated[Path, argument("RUN", "Folder of a run or of scores", autocompletion=complete_runs)],
    other: Annotated[str, argument("RUN|METHOD", "Another run, or a method", autocompletion=complete_runs)],
    against: Annotated[str | None, argument("METHOD", "The method to compare it with; without one, each")] = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Compare two runs, or two methods of one run.

    Of runs: settings, values, verdicts, with exit code 1 if verdicts changed.

    uproar compare runs/a runs/b

    uproar compare runs/a ig grad
    """
    from uproar.study.sessions import holds_scores, open_folder

    if Path(other).is_dir():
        if against is not None:
            raise BadInput("Two runs are compared as a whole: name two runs, or one run and its methods.")
        for folder in (first, Path(other)):
            check_run(folder)
        from uproar.results.difference import compare as difference_of  # tables load slowly

        with watched("collecting the results"):
            difference = difference_of(open_folder(first, trust=trust), open_folder(Path(other), trust=trust))
        print_difference(difference)
        return 1 if len(difference.decisive) else 0
    if not holds_scores(first):
        check_run(first)
    with watched("collecting the results"):
        if holds_scores(first):
            from uproar.report import read_scores

            pairs = read_scores(first).comparisons.rename(columns={"metric": "measure"})
            levels: dict[str, float] = {}
        else:
            run = open_folder(first, trust=trust)
            pairs, levels = run.comparisons, dict.fromkeys(run.protocols, run.comparison_alpha)
    known = list(dict.fromkeys([*pairs["better"], *pairs["worse"]]))
    for name in (other, *([against] if against else [])):
        if name not in known:
            raise BadInput(f"{first} has no method {name!r} to compare; it has {', '.join(known) or 'none'}.")
    add_to_json(comparisons=print_pairs(pairs, levels, other, against))
    return 0


def print_difference(difference: Difference) -> None:
    """Settings, values and verdicts that differ between two runs: verdicts of evaluators first."""
    add_to_json(
        settings=[{"setting": name, "before": a, "after": b} for name, (a, b) in difference.settings.items()],
        values=asdict(difference.values),
        verdicts=difference.verdicts,
        matters=len(difference.decisive) > 0,
        sentence=difference.sentence,
    )
    if difference.settings:
        shown = table("Settings that differ", "setting", "before", "after")
        for name, values in difference.settings.items():
            shown.add_row(escape(name), *(escape(setting_text(value)) for value in values))
        output.print(shown)
    else:
        output.print("The studies are the same.")
    output.print(f"Values: {difference.values.sentence}.", highlight=False, soft_wrap=True)
    several = len(difference.verdicts[["task", "model"]].drop_duplicates()) > 1
    for unit, scale, form, words in (
        ("bits", 1, "{:+.3f}", "score against random, in bits"),
        ("accuracy", 100, "{:+.1f}", "area against random, in points of accuracy, mean average precision or R²"),
    ):
        rows = difference.decisive[difference.decisive["unit"] == unit]
        columns = ("metric", "method", "before", "after", ">advantage before", ">after")
        shown = table(f"Verdicts that changed ({words})", *columns)
        for row in rows.itertuples():
            where = f"{row.protocol} on {row.task} with {row.model}" if several else row.protocol
            advantages = (number_text(scale * value, form) for value in (row.advantage_before, row.advantage_after))
            shown.add_row(*map(escape, (where, row.estimator, row.before, row.after)), *advantages)
        if len(rows):
            output.print(shown)
    output.print(escape(difference.sentence), soft_wrap=True)


def print_pairs(pairs: pd.DataFrame, levels: dict[str, float], method: str, against: str | None) -> pd.DataFrame:
    """A table per metric: how far a method leads, corrected over the pairs shown; the rows of all of them.

    `levels` are those of the tests of metrics that retrain.
    """
    import pandas as pd

    from uproar.statistics.comparisons import comparisons_with
    from uproar.statistics.design import ALPHA

    places = [name for name in ("task", "model") if name in pairs]
    if against is not None:
        pairs = pairs[(pairs["better"] == against) | (pairs["worse"] == against)]
    frames = []
    for key, group in pairs.groupby([*places, "measure"], sort=False):
        metric, retrained = str(key[-1]), key[-1] in levels
        rows = comparisons_with(group, method, levels.get(metric, ALPHA))
        frames.append(rows)
        where = f" on {key[0]} with {key[1]}" if places else ""
        scale, form = (100, "{:+.1f}") if retrained else (1, "{:+.3f}")
        title = f"{metric}{where}: lead of {method}{', points' * retrained} ({len(rows)} pairs, Holm)"
        shown = table(escape(title), "against", ">lead", ">95 % CI", ">p (Holm)", ">n", "verdict")
        for row in rows.itertuples():
            ahead = row.better == method
            towards = scale * (1 if ahead == (row.difference >= 0) else -1)
            low, high = sorted((towards * row.low, towards * row.high))
            significant = "[green]better[/]" if ahead else "[red]worse[/]"
            shown.add_row(
                escape(row.worse if ahead else row.better),
                number_text(towards * row.difference, form),
                interval_text(low, high, form),
                p_text(row.p_holm),
                str(row.n),
                significant if row.side == 1 else "[yellow]not significant[/]",
            )
        output.print(shown)
    return pd.concat(frames, ignore_index=True) if frames else pairs
