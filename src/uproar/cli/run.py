"""`uproar run`, `uproar validate` and `uproar report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from uproar.cli.checks import check_folder, check_run
from uproar.cli.console import about, duration, errors, output, table
from uproar.cli.data import DataRoot
from uproar.cli.durations import seconds_of
from uproar.cli.interrupt import AGAIN, kept
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import HOW, WHERE, Jobs, Moved, RayAddress, RunFolder, Stored, Trust, flag, option
from uproar.cli.print_results import Compare, check_compared, print_comparisons
from uproar.cli.progress import machine_lines, of_study, watched
from uproar.cli.study_options import Changes, changing
from uproar.errors import BadInput
from uproar.storage.urls import public, public_command

if TYPE_CHECKING:
    from uproar.study.spec import Study

File = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        help="A study file (TOML) or name (uproar ls studies), whose settings the options replace; "
        "without one, ROAR and KAR on digits",
        show_default=False,
    ),
]
UNCHANGED = "The results are as they were; the same command writes the page again."

Out = Annotated[Path | None, option(panel=WHERE, takes="FOLDER", text="The report goes here", default="runs/NAME")]
Place = Annotated[
    str | None,
    option(
        "--store", panel=WHERE, takes="FOLDER|URL", text="Results go here, e.g. s3://bucket/study", default="OUT/store"
    ),
]


@changing
def run(
    study: File = None,
    *,
    changes: Changes,
    jobs: Jobs = None,
    ray: RayAddress = None,
    until_decided: Annotated[
        bool, flag("--until-decided", panel=HOW, text="Add replicates (3, 5, 8, 13, 20) only where verdicts are open")
    ] = False,
    budget: Annotated[
        str | None,
        option(panel=HOW, takes="TIME", text="Begin nothing new after so long: 90s, 30m, 2h", default="no end"),
    ] = None,
    collect: Annotated[
        bool, flag("--collect", panel=HOW, text="Only report what is finished, also while it runs")
    ] = False,
    compare: Compare = None,
    out: Out = None,
    store: Place = None,
    data_root: DataRoot = None,
) -> int:
    """Run a study, or what is missing of it, and write its report."""
    limit_seconds = None if budget is None else seconds_of(budget)
    if out is not None:
        check_folder(out)
    from uproar.cli.imputer import ready
    from uproar.cli.print_results import finish, print_results
    from uproar.runs.execute import completed
    from uproar.runs.folder import earlier_facts, write_run  # torch loads slowly
    from uproar.runs.open import open_store
    from uproar.statistics.design import INTERIM_ANALYSES
    from uproar.study.bundled import file_named
    from uproar.study.environment import environment
    from uproar.study.progress import kept_in, left_in

    chosen = changes.study(study)
    if until_decided:
        seeds = INTERIM_ANALYSES[-1] if changes.seeds is None else None
        chosen = chosen.with_changes(until_decided=True, seeds=seeds)
    if compare is not None:
        check_compared(compare, [chain.name for chain in chosen.chains])
    folder = out if out is not None else Path("runs") / chosen.name
    place = store if store is not None else str(folder / "store")
    facts: dict[str, Any] = {"command": public_command(["uproar", *sys.argv[1:]])}
    if collect:
        if left_in(folder) is None:
            open_store(chosen, place, facts)  # refused where nothing of the study is finished
        return _report(chosen, place, folder, folder, facts, compare)
    chosen.check_files()
    if len(chosen.seeds) < 2 and chosen.protocols:
        errors.print(
            "[yellow]Note:[/] One replicate gives no verdicts, only curves: for those, give --seeds 2 or more.",
            soft_wrap=True,
        )
    file = file_named(study).read_text(encoding="utf-8") if study else None
    before = earlier_facts(folder)
    wall = before["wall"]
    facts |= {**environment(), "wall": {**wall, "begun": wall["begun"] + 1}}
    facts["executor"] = _executor_name(jobs, ray, chosen.device)
    with watched("planning") as watch, kept(f"Finished cells are in {public(place)}; {AGAIN}"):
        ready(chosen.fill, chosen.metrics, watch)
        watch.say("planning")
        listen = kept_in(folder, of_study(watch), lambda: write_run(folder, chosen, place, facts, file))
        done = completed(chosen, place, jobs, listen, ray, limit_seconds)
    state, spent = done.progress, done.seconds
    new = state.total - state.cached
    facts |= {"seconds": round(spent, 1), "wall": _ended(facts["wall"], spent)}
    if not new and wall["ended"]:
        facts = before  # nothing was done: the record is that of who did it
    with watched("drawing the report"), kept(_finished(folder)):
        results = done.results.with_facts(facts)
        write_run(folder, chosen, place, facts, file)
        page = results.report(folder)
    for notice in results.notices:
        errors.print(f"[yellow]Note:[/] {escape(notice)}", soft_wrap=True)
    print_results(results, compare)
    output.print(f"{state.total} cells, {new} of them new, in {duration(spent)}.")
    return finish(results, page, folder)


def _finished(folder: Path) -> str:
    return f"All cells are kept; the report is written by: uproar report {folder}"


def _ended(wall: dict[str, Any], spent: float) -> dict[str, Any]:
    return {**wall, "seconds": round(wall["seconds"] + spent, 1), "ended": wall["ended"] + 1}


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

    chosen, place, facts = read_run(folder, weights, store, trust)
    if compare is not None:
        check_compared(compare, [chain.name for chain in chosen.chains])
    if markdown is not None or latex is not None:
        with watched("collecting what was found") as watch, kept(UNCHANGED):
            results = run_in(folder, chosen, place, facts)
            watch.say("drawing the page and its figures")
            page = results.report(latex, "latex") if markdown is None else results.report(markdown, "markdown")
        return finish(results, page, folder)
    return _report(chosen, place, folder, out or folder, facts, compare)


def _report_scores(folder: Path, out: Path, latex: Path | None, compare: str | None) -> int:
    """The page of scores again, or their tables and figures for a paper."""
    from uproar.report import read_scores, write_latex, write_scores

    scores = read_scores(folder)
    if compare is not None:
        check_compared(compare, scores.table["method"])
    with watched("drawing the report"), kept(UNCHANGED):
        page = write_scores(scores, out) if latex is None else write_latex(scores, latex)
    print_comparisons(scores.comparisons.rename(columns={"metric": "measure"}), {}, compare)
    output.print(f"Report: [bold]{escape(str(page))}[/]", soft_wrap=True)
    return 0


def _report(study: Study, place: str, folder: Path, out: Path, facts: dict[str, Any], compare: str | None) -> int:
    """A report of what the store has, with what the run in `folder` said of the rest."""
    from uproar.cli.print_results import finish, print_results
    from uproar.runs.open import run_in
    from uproar.study.progress import left_in

    state = left_in(folder)
    with watched("collecting what was found") as watch, kept(UNCHANGED):
        results = run_in(folder, study, place, facts)
        watch.say("drawing the report")
        page = results.report(out)
    print_results(results, compare)
    if state is not None and state.done < state.total:
        output.print(f"The run was at {state.done} of {state.total} cells when it was last heard of.")
        for line in machine_lines(state):
            output.print(f"  {escape(line)}", soft_wrap=True)
    return finish(results, page, folder)


def _executor_name(jobs: int | None, ray: str | None, device: str) -> str:
    if ray is not None:
        return f"Ray cluster ({ray})"
    from uproar.study.executors import workers

    count = workers(jobs, device)
    return "serial" if count == 1 else f"{count} processes"


@changing
def validate(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY…",
            help="Study files or names, whose settings the options replace; without one, ROAR and KAR on digits",
            show_default=False,
        ),
    ] = None,
    *,
    changes: Changes,
    jobs: Jobs = None,
    out: Out = None,
    store: Place = None,
    data_root: DataRoot = None,
) -> int:
    """Check studies and say what would run, how long it would take, and what is there already or missing.

    Without the data, cells, passes, storage and GPU hours follow from what is known of the set.
    """
    from uproar.cli.outline import print_outline  # torch loads slowly
    from uproar.study.executors import workers
    from uproar.study.outline import outline

    given: list[str | None] = [*(studies or (None,))]
    missing = False
    for chosen in [changes.study(text) for text in given]:
        count = workers(jobs, chosen.device)
        with watched(f"counting {chosen.name}"):
            size = outline(chosen)
        print_outline(chosen, size)
        if not size.missing:
            folder = out if out is not None else Path("runs") / chosen.name
            place = store if store is not None else str(folder / "store")
            _print_estimate(chosen, place, count)
        missing = missing or bool(size.missing)
    runs = [command("run", text) for text in given]
    if missing:
        print_next("the same command again when nothing is missing")
    else:
        print_next(f"{', '.join(runs)}, with the same options, runs {'it' if len(runs) == 1 else 'them'}")
    return 0


def _print_estimate(study: Study, place: str, count: int) -> None:
    """What is still to be done and how long it would take on this machine; audits apart."""
    from uproar.storage.store import Store
    from uproar.study.estimate import estimate
    from uproar.study.grid import check_fractions

    check_fractions(study, Store(place).root)
    with watched("planning and measuring the networks"):
        found = estimate(study, Store(place), count)
    shape = table(f"Study {study.name}", "what", ">jobs", ">seconds each")
    for kind, (jobs, seconds) in found.jobs.items():
        shape.add_row(kind, str(jobs), f"{seconds:.2f}")
    output.print(shape)
    beside = " (what audits need beside it not counted)" if study.audits else ""
    output.print(
        f"{found.cells} cells{beside}: {found.cached} in the store, {found.skipped} do not apply, "
        f"{found.cells - found.cached - found.skipped} to do."
    )
    output.print(
        f"{about(found.seconds).capitalize()} with {count} process{'es' if count > 1 else ''}, "
        f"{found.megabytes:.0f} MB for the store."
    )
