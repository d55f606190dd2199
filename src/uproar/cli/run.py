"""`uproar run`: run a study, or what is missing of it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uproar.cli.checks import check_folder
from uproar.cli.completion import complete_names, complete_runs
from uproar.cli.console import note, output, split_list, table
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import DataRoot, Jobs, RayAddress, Slurm, Trust, flag, option, with_options
from uproar.cli.progress import of_study, watched
from uproar.cli.report import written
from uproar.cli.study_options import Changes
from uproar.errors import BadInput
from uproar.paths import public, public_command
from uproar.remaining_time import about, duration, seconds_of
from uproar.statistics.design import LEAST_REPLICATES
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study


@with_options(changes=Changes)
def run(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY",
            help="Study file, name (uproar ls studies) or folder of a run",
            show_default=False,
            autocompletion=lambda incomplete: [*complete_names("studies")(incomplete), *complete_runs(incomplete)],
        ),
    ] = None,
    *,
    changes: Changes,
    dry_run: Annotated[bool, flag("--dry-run", text="Only say what would run and how long it takes")] = False,
    out: Annotated[Path | None, option(takes="FOLDER", text="The report goes here", default="runs/NAME")] = None,
    jobs: Jobs = None,
    until_decided: Annotated[
        bool, flag("--until-decided", text="Add replicates (5, 8, 13, 20) only where verdicts are open", advanced=True)
    ] = False,
    budget: Annotated[
        str | None, option(takes="TIME", text="Begin nothing new after so long: 90s, 30m, 2h", advanced=True)
    ] = None,
    others: Annotated[
        list[str] | None,
        option(
            "--from",
            takes="A,B,…",
            text="First copy the results of these runs or stores, e.g. other seeds made elsewhere",
            advanced=True,
        ),
    ] = None,
    store: Annotated[
        str | None,
        option(takes="FOLDER|URL", text="Results go here, e.g. s3://bucket/study", default="OUT/store", advanced=True),
    ] = None,
    ray: RayAddress = None,
    slurm: Slurm = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Run a study and write its report; the same command again resumes."""
    from uproar.study.record import RECORD

    seconds = None if budget is None else seconds_of(budget)
    if study is not None and (Path(study) / RECORD).is_file():
        chosen, folder, root = _recorded(Path(study), changes, out, store, trust)
    else:
        chosen = changes.study(study)
        folder = out if out is not None else Path("runs") / chosen.name
        root = store if store is not None else str(folder / "store")
    check_folder(folder)
    if until_decided:
        from uproar.statistics.design import INTERIM_ANALYSES

        replicates = INTERIM_ANALYSES[-1] if changes.seeds is None else None
        chosen = chosen.with_changes(until_decided=True, seeds=replicates)
    chosen = _with_audits(chosen, folder)
    chosen.check_files()
    if dry_run:
        return _print_plan(chosen, root, jobs)
    if len(chosen.seeds) < LEAST_REPLICATES and chosen.protocols:
        given = counted(len(chosen.seeds), "replicate")
        note(f"No verdicts from {given}, only curves: for those, give --seeds {LEAST_REPLICATES} or more.")
    if others:
        _copy_results(split_list(others) or [], root, trust)
    return _run(chosen, study, root, folder, jobs, ray, slurm, seconds)


def _recorded(
    folder: Path, changes: Changes, out: Path | None, store: str | None, trust: bool
) -> tuple[Study, Path, str]:
    """The study of a run, its folder and its store: what is missing of it is made."""
    from uproar.study.record import read_run

    study, root, _ = read_run(folder, changes.weights, store, trust)
    return changes.applied(study), folder if out is None else out, root


def _with_audits(study: Study, folder: Path) -> Study:
    """The study with the audits that `uproar audit` added to the same one, so that its page keeps them."""
    from uproar.study.record import read_record

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


def _print_plan(study: Study, root: str, jobs: int | None) -> int:
    """Print what is still to be done and how long it would take on this machine; audits apart."""
    from uproar.store import Store
    from uproar.study.cost_estimate import estimate
    from uproar.study.executors import workers
    from uproar.study.grid import check_fractions

    count = workers(jobs, study.device)
    check_fractions(study, Store(root).root)
    with watched("planning and measuring the networks"):
        cost = estimate(study, Store(root), count)
    shown = table(f"Study {study.name}", "what", ">jobs", ">seconds each")
    for kind, (number, seconds) in cost.jobs.items():
        shown.add_row(kind, str(number), f"{seconds:.2f}")
    output.print(shown)
    todo = cost.cells - cost.cached - cost.skipped
    beside = " (audits not counted)" if study.audits else ""
    output.print(f"{cost.cells} cells{beside}: {cost.cached} in the store, {cost.skipped} do not apply, {todo} to do.")
    output.print(f"{about(cost.seconds).capitalize()} with {count} process{'es' if count > 1 else ''}.")
    kinds = [{"kind": kind, "jobs": number, "seconds": seconds} for kind, (number, seconds) in cost.jobs.items()]
    add_to_json(study=study.name, **{**asdict(cost), "jobs": kinds})
    print_next("the same command without --dry-run runs it")
    return 0


def _copy_results(places: list[str], root: str, trust: bool) -> None:
    """Copy what runs or stores have into a store: results are named by their content, so that none can be mixed up."""
    from uproar.cli.store import opened
    from uproar.store import Store, copy_results

    sources = [opened(place, trust)[0] for place in places]
    with watched("copying results") as watch, keeping(f"What was copied is in {public(root)}; {AGAIN}"):
        copy_results(sources, Store(root), watch.counting("results", "copying"))


def _run(
    study: Study,
    file: str | None,
    root: str,
    folder: Path,
    jobs: int | None,
    ray: str | None,
    slurm: str | None,
    limit_seconds: float | None,
) -> int:
    """Run what is missing, record the run in its folder, write and print its results."""
    from uproar.cli.print_results import finish, print_results
    from uproar.cli.subjects import compile_imputer
    from uproar.study.collect import environment
    from uproar.study.progress import kept_in
    from uproar.study.record import earlier_facts, write_run  # torch loads slowly
    from uproar.study.sessions import run_to_end
    from uproar.study.spec import file_named

    text = file_named(file).read_text(encoding="utf-8") if file and not Path(file).is_dir() else None
    before = earlier_facts(folder)
    wall = before["wall"]
    facts: dict[str, Any] = {"command": public_command(["uproar", *sys.argv[1:]]), **environment()}
    facts |= {"wall": {**wall, "begun": wall["begun"] + 1}, "executor": _executor_name(jobs, ray, slurm, study.device)}
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
    print_results(results)
    failed = int((results.table["status"] == "failed").sum() + (results.scores["status"] == "failed").sum())
    made = f"{failed} failed" if failed else f"{new} of them new"
    output.print(f"{state.total} cells, {made}, in {duration(spent)}.")
    return finish(results, page, folder)


def _executor_name(jobs: int | None, ray: str | None, slurm: str | None, device: str) -> str:
    if ray is not None:
        return f"Ray cluster ({ray})"
    if slurm is not None:
        return f"SLURM through submitit ({slurm})"
    from uproar.study.executors import workers

    count = workers(jobs, device)
    return "serial" if count == 1 else f"{count} processes"
