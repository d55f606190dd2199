"""`uproar run` and `uproar audit`: run a study, or what is missing of it; check whether its benchmark misleads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.options import Changes, Plugins, RunAt, Trust, Workers, advanced, argument, check_folder, flag, option
from uproar.cli.options import names as names_option
from uproar.cli.progress import watched
from uproar.cli.screen import add_to_json, command, note, output, print_file, print_next, print_table, some, split_list
from uproar.errors import BadInput
from uproar.paths import public, public_command
from uproar.statistics.design import INTERIM_ANALYSES, LEAST_REPLICATES
from uproar.wording import about, counted, duration, seconds_of

if TYPE_CHECKING:
    from uproar.papers.exhibits import Exhibit
    from uproar.study.collected import Run
    from uproar.study.cost_estimate import AuditCost
    from uproar.study.spec import Study

JOBS = {
    "base_model": "train a network",
    "prepared_state": "prepare estimators",
    "ranking": "compute maps",
    "evaluator": "train evaluators",
    "evaluation": "evaluate methods",
    "retrained": "retrain (ROAR, KAR)",
    "without_retraining": "test without retraining",
    "fine_tuned": "fine-tune a network",
    "metric_of_maps": "score by other metrics",
}
"""What jobs do, by step."""
DryRun = Annotated[bool, flag("--dry-run", "Only say what would run and how long it takes")]


def run(
    study: Annotated[
        str | None, argument("STUDY", "Study file, name (uproar ls studies) or folder of a run", "studies")
    ] = None,
    *,
    changes: Changes,
    dry_run: DryRun = False,
    out: Annotated[Path | None, option("FOLDER", "The report goes here", default="runs/NAME")] = None,
    workers: Workers,
    until_decided: Annotated[
        bool, flag("--until-decided", "Add seeds (5, 8, 13, 20) only where verdicts are open", advanced=True)
    ] = False,
    budget: Annotated[str | None, advanced("TIME", "Begin nothing new after so long: 90s, 30m, 2h")] = None,
    others: Annotated[
        list[str] | None,
        advanced("A,B,…", "First copy the results of these runs or stores, e.g. other seeds made elsewhere", "--from"),
    ] = None,
    store: Annotated[
        str | None, advanced("FOLDER|URL", "Results go here, e.g. s3://bucket/study", default="OUT/store")
    ] = None,
    figure: Annotated[
        str | None, advanced("N", "Run what a figure of a paper (uproar ls papers) needs, and draw it")
    ] = None,
    table_: Annotated[str | None, advanced("N", "The same for a table of a paper", "--table")] = None,
    trust: Trust = False,
) -> int:
    """Run a study and write its report; the same command again resumes."""
    from uproar.study.record import RECORD, read_run

    seconds = None if budget is None else seconds_of(budget)
    shown: Sequence[Exhibit] = ()
    if study is not None and (Path(study) / RECORD).is_file():  # what is missing of a run
        recorded, root, _ = read_run(Path(study), changes.weights, store, trust)
        chosen, folder = changes.applied(recorded), out or Path(study)
    else:
        if figure is None and table_ is None:
            chosen = changes.study(study)
        else:
            from uproar.papers.exhibits import exhibit  # torch loads slowly

            if study is None:
                raise BadInput("--figure and --table go with a paper (uproar ls papers): uproar run PAPER --figure 1.")
            shown = exhibit(study, f"Table {table_}" if figure is None else f"Figure {figure}")
            if not shown[0].study:
                return draw_exhibit(None, shown, out or Path("runs") / f"{study}-{shown[0].file}")
            chosen = changes.applied(study_of_exhibit(shown[0]))
        folder = out or Path("runs") / chosen.name
        root = store or str(folder / "store")
    check_folder(folder)
    if until_decided:
        most = INTERIM_ANALYSES[-1] if changes.seeds is None else None
        chosen = chosen.with_changes(until_decided=True, seeds=most)
    chosen = with_earlier_audits(chosen, folder)
    chosen.check_files()
    if dry_run:
        return print_plan(chosen, root, workers.jobs)
    if len(chosen.seeds) < LEAST_REPLICATES and (chosen.retrainings or chosen.evaluator_targets):
        few = counted(len(chosen.seeds), "seed")
        note(f"No verdicts from {few}, only curves: for those, give --seeds {LEAST_REPLICATES} or more.")
    if others:
        from uproar.cli.data import opened
        from uproar.store import Store, copy_results

        sources = [opened(address, trust)[0] for address in split_list(others) or []]
        with watched("copying results") as watch, keeping(f"What was copied is in {public(root)}; {AGAIN}"):
            copy_results(sources, Store(root), watch.counting("results", "copying"))
    return run_and_report(chosen, study, root, folder, workers, seconds, shown)


def study_of_exhibit(shown: Exhibit) -> Study:
    """The study that a figure or table is drawn from, with nothing in it that it does not show."""
    from uproar.study.spec import study_named, study_of

    base = {**study_named(shown.study).model_dump(), "claims": (), **shown.changes}
    if {"task", "tasks"} & set(shown.changes):  # a study has one or the other
        base.pop("task" if "tasks" in shown.changes else "tasks", None)
    return study_of({**base, "name": f"{shown.paper}-{shown.file}"})


def draw_exhibit(results: Run | None, shown: Sequence[Exhibit], folder: Path) -> int:
    """Draw a figure or table of a paper with its parts, and say where it is."""
    from uproar.report.files import require_libraries, write_files

    require_libraries("a figure of a paper")
    from uproar.report.paper_figures import exhibit_files

    files = {name: content for exhibit in shown for name, content in exhibit_files(results, exhibit).items()}
    write_files(files, folder)
    name_of_exhibit = shown[0].place.partition(",")[0]
    print_file(name_of_exhibit, ", ".join(str(folder / name) for name in sorted(files)))
    add_to_json(exhibit={"paper": shown[0].paper, "place": name_of_exhibit, "files": sorted(files)})
    return 0


def with_earlier_audits(study: Study, folder: Path) -> Study:
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
    note(f"The study differs from that in {folder}: what audits found there leaves the page; {again} repeats them.")
    return study


def print_plan(study: Study, root: str, jobs: int | None) -> int:
    """Print what is still to be done and how long it would take on this machine; audits apart."""
    from uproar.store import Store
    from uproar.study.cost_estimate import estimate
    from uproar.study.executors import workers

    count = workers(jobs, study.device)
    with watched("planning and measuring the networks"):
        cost = estimate(study, Store(root), count)
    rows = [(JOBS.get(kind, kind), str(number), f"{seconds:.2f}") for kind, (number, seconds) in cost.jobs.items()]
    if rows:
        print_table(f"Study {study.name}", ("what", ">jobs", ">seconds each"), rows)
    todo = cost.cells - cost.cached - cost.skipped
    beside = " (audits not counted)" if study.audits else ""
    output.say(f"{cost.cells} results{beside}: {cost.cached} in the store, {cost.skipped} do not apply, {todo} to do.")
    output.say(f"{about(cost.seconds).capitalize()} with {counted(count, 'process', 'processes')}.")
    kinds = [{"kind": kind, "jobs": number, "seconds": seconds} for kind, (number, seconds) in cost.jobs.items()]
    add_to_json(study=study.name, **{**asdict(cost), "jobs": kinds})
    print_next("the same command without --dry-run runs it")
    return 0


EARLY = 30.0
"""Seconds after which the page of a run is first written; again whenever the run has taken twice as long."""


@contextmanager
def page_meanwhile(folder: Path) -> Iterator[None]:
    """While a run goes on, have another process write the page of what is finished, which reloads itself."""
    ended = threading.Event()
    writers: list[subprocess.Popen[bytes]] = []

    def write() -> None:
        pause, announced = EARLY, False
        while not ended.wait(pause):
            arguments = [sys.executable, "-m", "uproar", "report", "--trust", str(folder)]
            writers.append(subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            writers[-1].wait()
            page, pause = folder / "report.html", pause * (1 + announced)
            if page.is_file() and not announced and not ended.is_set():
                note(f"{page} shows what is finished and reloads itself.")
                announced = True

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        for writer in writers:
            writer.terminate()
        thread.join()


def run_and_report(
    study: Study,
    file: str | None,
    root: str,
    folder: Path,
    workers: Workers,
    budget: float | None,
    shown: Sequence[Exhibit] = (),
) -> int:
    """Run what is missing, record the run in its folder, write and print its results."""
    from uproar.cli.network import compile_imputer
    from uproar.cli.results import finish, print_results, status_count
    from uproar.study import executors
    from uproar.study.collect import environment
    from uproar.study.progress import kept_in
    from uproar.study.record import earlier_facts, write_run  # torch loads slowly
    from uproar.study.sessions import run_to_end
    from uproar.study.spec import file_named

    name = shown[0].study if shown else file
    text = file_named(name).read_text(encoding="utf-8") if name and not Path(name).is_dir() else None
    before = earlier_facts(folder)
    wall = before["wall"]
    jobs, ray, slurm = workers.jobs, workers.ray, workers.slurm
    if ray is not None or slurm is not None:
        executor = f"Ray cluster ({ray})" if ray is not None else f"SLURM through submitit ({slurm})"
    else:
        executor = counted(executors.workers(jobs, study.device), "process", "processes")
    facts: dict[str, Any] = {"command": public_command(["uproar", *sys.argv[1:]]), **environment()}
    facts |= {"wall": {**wall, "begun": wall["begun"] + 1}, "executor": executor}
    with watched("planning") as watch, keeping(f"Finished results are in {public(root)}; {AGAIN}"):
        compile_imputer(study.fill, study.metric_names, watch)
        watch.say("planning")
        listen = kept_in(folder, watch.of_study, lambda: write_run(folder, study, root, facts, text))
        with page_meanwhile(folder):
            done = run_to_end(study, root, jobs, listen, ray, budget, slurm)
    total, new, spent = done.progress.total, done.progress.total - done.progress.cached, done.seconds
    wall = {**facts["wall"], "seconds": round(wall["seconds"] + spent, 1), "ended": wall["ended"] + 1}
    facts |= {"seconds": round(spent, 1), "wall": wall}
    if not new and before["wall"]["ended"]:
        facts = before  # nothing was done: the record is that of who did it
    kept = f"All results are kept; the report is written by: uproar report {folder}"
    with watched("drawing the report"), keeping(kept):
        results = done.results.with_facts(facts)
        write_run(folder, study, root, facts, text)
        page = results.report(folder)
    note(*results.notices)
    print_results(results)
    failed = status_count(results, "failed")
    output.say(f"{total} results, {f'{failed} failed' if failed else f'{new} of them new'}, in {duration(spent)}.")
    if shown:
        draw_exhibit(results, shown, folder)
    return finish(results, page, folder)


def audit(
    run: RunAt,
    names: Annotated[
        list[str] | None, names_option("audits", "Audits (uproar ls audits)", "--audits", default="all")
    ] = None,
    dry_run: DryRun = False,
    plugin: Plugins = None,
    *,
    workers: Workers,
) -> int:
    """Check whether the benchmark misleads on a run, and add that to its report."""
    study, root, facts = run.read()
    from uproar.audits import audits  # torch and tables load slowly
    from uproar.cli.results import finish, print_findings
    from uproar.study import executors
    from uproar.study.record import write_run
    from uproar.study.sessions import run_to_end

    study = study.with_changes(plugins=tuple(dict.fromkeys((*study.plugins, *(plugin or ())))))
    chosen = tuple(some("--audits", names, audits))
    count = executors.workers(workers.jobs, study.device)
    planned = plan_audits(study, chosen, () if names is None else chosen, root, count)
    add_to_json(planned=[asdict(cost) for cost in planned])
    cells, seconds = sum(cost.cells for cost in planned), max(1, sum(cost.seconds for cost in planned))
    time = f"at most about {duration(seconds)} with {counted(count, 'process', 'processes')}"
    output.say(f"{counted(len(planned), 'audit')}: {cells} new results, {time}.")
    if dry_run or not planned:
        if planned:
            again = () if names is None else ("--audits", ",".join(chosen))
            print_next(f"{command('audit', run.folder, *again)} runs them")
        return 0
    study = study.with_changes(audits=[cost.audit for cost in planned])
    with watched("planning") as watch, keeping(f"Finished results are in {public(root)}; {AGAIN}"):
        done = run_to_end(study, root, workers.jobs, watch.of_study, workers.ray, slurm=workers.slurm)
        results = done.results.with_facts(facts)
        write_run(run.folder, study, root, facts)
        watch.say("drawing the report")
        page = results.report(run.folder)
    print_findings(results.findings)
    return finish(results, page, run.folder)


def plan_audits(
    study: Study, chosen: Sequence[str], by_name: Sequence[str], root: str, workers: int
) -> list[AuditCost]:
    """The audits of the study and the chosen ones; a line for each with its cost is printed.

    Where the study itself does not retrain, an audit that would is left out unless it is chosen by its name.
    """
    from uproar.store import Store
    from uproar.study.cost_estimate import audit_costs, retrains

    before = study.audits
    study = study.with_changes(audits=(*[name for name in before if name not in chosen], *chosen))
    with watched("planning and measuring the networks"):
        costs = list(audit_costs(study, Store(root), workers))
    planned = [cost for cost in costs if retrains(study) or not cost.trainings or cost.audit in (*before, *by_name)]
    for cost in costs:
        if cost not in planned:
            time = f"would retrain {cost.trainings} networks, {about(cost.seconds)}"
            line = f"left out: {time}; --audits {cost.audit} runs it."
        elif cost.refused:
            line = f"does not apply here: {cost.refused}."
        elif not cost.cells:
            line = "nothing new to run."
        else:
            line = f"{cost.cells} new results, at most about {duration(max(1, cost.seconds))}."
        output.say(f"{cost.audit}: {line}", indent="  ")
    return planned
