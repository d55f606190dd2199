"""`uproar run`: run a study, or what is missing of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uproar.cli.checks import check_folder
from uproar.cli.completion import complete_names
from uproar.cli.console import note, output
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.next_steps import command
from uproar.cli.options import HOW, WHERE, Jobs, RayAddress, Slurm, flag, option
from uproar.cli.print_comparisons import Compare, check_compared
from uproar.cli.progress import of_study, watched
from uproar.cli.report import write_and_print, written
from uproar.cli.study_options import Changes, changing
from uproar.errors import BadInput
from uproar.remaining_time import duration, seconds_of
from uproar.storage.urls import public, public_command

if TYPE_CHECKING:
    from uproar.study.spec import Study

File = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        help="A study file (TOML) or name (uproar ls studies), whose settings the options replace; "
        "without one, the evaluator, ROAR and KAR on digits",
        show_default=False,
        autocompletion=complete_names("studies"),
    ),
]
Out = Annotated[Path | None, option(panel=WHERE, takes="FOLDER", text="The report goes here", default="runs/NAME")]
StoreRoot = Annotated[
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
    slurm: Slurm = None,
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
    store: StoreRoot = None,
    data_root: DataRoot = None,
) -> int:
    """Run a study, or what is missing of it, and write its report."""
    limit_seconds = None if budget is None else seconds_of(budget)
    if out is not None:
        check_folder(out)
    chosen = _with_replicates(changes, changes.study(study), until_decided)
    if compare is not None:
        check_compared(compare, [chain.name for chain in chosen.chains])
    folder, root = folder_and_store(chosen, out, store)
    chosen = _with_audits(chosen, folder)
    facts: dict[str, Any] = {"command": public_command(["uproar", *sys.argv[1:]])}
    if collect:
        from uproar.runs.open import open_store
        from uproar.study.progress import read_progress

        if read_progress(folder) is None:
            open_store(chosen, root, facts)  # refused where nothing of the study is finished
        return write_and_print(chosen, root, folder, folder, facts, compare)
    chosen.check_files()
    if len(chosen.seeds) < 2 and chosen.protocols:
        note("One replicate gives no verdicts, only curves: for those, give --seeds 2 or more.")
    return _run(chosen, study, root, folder, facts, jobs, ray, slurm, limit_seconds, compare)


def folder_and_store(study: Study, out: Path | None, store: str | None) -> tuple[Path, str]:
    """The folder of a run, and where its results go."""
    folder = out if out is not None else Path("runs") / study.name
    return folder, store if store is not None else str(folder / "store")


def _with_replicates(changes: Changes, study: Study, until_decided: bool) -> Study:
    """The study, with as many replicates as may be needed if it runs until verdicts are decided."""
    if not until_decided:
        return study
    from uproar.statistics.design import INTERIM_ANALYSES

    return study.with_changes(until_decided=True, seeds=INTERIM_ANALYSES[-1] if changes.seeds is None else None)


def _with_audits(study: Study, folder: Path) -> Study:
    """The study with the audits that `uproar audit` added to the same one, so that its page keeps them."""
    from uproar.runs.record import read_record

    try:
        before = read_record(folder).study
    except BadInput:  # nothing was run there
        return study
    added = [name for name in before.get("audits", ()) if name not in study.audits]
    if not added:
        return study
    settings = study.model_dump(mode="json")
    if all(before.get(name) == value for name, value in settings.items() if name not in ("audits", "resources")):
        return study.with_changes(audits=(*study.audits, *added))
    again = command("audit", folder, "--audits", ",".join(added))
    note(f"The study is another one than that in {folder}: what audits found there leaves the page; {again} asks anew.")
    return study


def _run(
    study: Study,
    file: str | None,
    root: str,
    folder: Path,
    facts: dict[str, Any],
    jobs: int | None,
    ray: str | None,
    slurm: str | None,
    limit_seconds: float | None,
    compare: str | None,
) -> int:
    """Run what is missing, record the run in its folder, write and print its results."""
    from uproar.cli.imputer import compile_imputer
    from uproar.cli.print_results import finish, print_results
    from uproar.runs.execute import run_to_end
    from uproar.runs.folder import earlier_facts, write_run  # torch loads slowly
    from uproar.study.bundled import file_named
    from uproar.study.environment import environment
    from uproar.study.progress import kept_in

    text = file_named(file).read_text(encoding="utf-8") if file else None
    before = earlier_facts(folder)
    wall = before["wall"]
    facts |= {**environment(), "wall": {**wall, "begun": wall["begun"] + 1}}
    facts["executor"] = _executor_name(jobs, ray, slurm, study.device)
    with watched("planning") as watch, keeping(f"Finished cells are in {public(root)}; {AGAIN}"):
        compile_imputer(study.fill, study.metrics, watch)
        watch.say("planning")
        listen = kept_in(folder, of_study(watch), lambda: write_run(folder, study, root, facts, text))
        done = run_to_end(study, root, jobs, listen, ray, limit_seconds, slurm)
    state, spent = done.progress, done.seconds
    new = state.total - state.cached
    wall = {**facts["wall"], "seconds": round(wall["seconds"] + spent, 1), "ended": wall["ended"] + 1}
    facts |= {"seconds": round(spent, 1), "wall": wall}
    if not new and before["wall"]["ended"]:
        facts = before  # nothing was done: the record is that of who did it
    with (
        watched("drawing the report"),
        keeping(f"All cells are kept; the report is written by: uproar report {folder}"),
    ):
        results = done.results.with_facts(facts)
        write_run(folder, study, root, facts, text)
        page = written(lambda: results.report(folder))
    note(*results.notices)
    print_results(results, compare)
    output.print(f"{state.total} cells, {new} of them new, in {duration(spent)}.")
    return finish(results, page, folder)


def _executor_name(jobs: int | None, ray: str | None, slurm: str | None, device: str) -> str:
    if ray is not None:
        return f"Ray cluster ({ray})"
    if slurm is not None:
        return f"SLURM through submitit ({slurm})"
    from uproar.study.executors import workers

    count = workers(jobs, device)
    return "serial" if count == 1 else f"{count} processes"
