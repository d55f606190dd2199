"""`uproar audit`: can the benchmark itself be trusted here?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from uproar.cli.checks import check_run
from uproar.cli.console import output, some
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.json_output import add_to_json
from uproar.cli.options import DataRoot, Jobs, Moved, Plugins, RayAddress, RunFolder, Slurm, Stored, Trust, flag
from uproar.cli.options import names as names_option
from uproar.cli.progress import of_study, watched
from uproar.paths import public
from uproar.remaining_time import about, duration

if TYPE_CHECKING:
    from uproar.study.cost_estimate import AuditCost
    from uproar.study.spec import Study


def audit(
    folder: RunFolder,
    names: Annotated[
        list[str] | None, names_option("--audits", kind="audits", text="See uproar ls audits", default="all")
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", text="Only say what would run and how long it takes")] = False,
    plugin: Plugins = None,
    jobs: Jobs = None,
    ray: RayAddress = None,
    slurm: Slurm = None,
    weights: Moved = None,
    store: Stored = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Ask whether the benchmark misleads on a run, and add that to its report."""
    check_run(folder)
    from uproar.audits import audits  # torch and tables load slowly
    from uproar.cli.next_steps import command, print_next
    from uproar.cli.print_results import finish, print_findings
    from uproar.study.executors import workers
    from uproar.study.record import read_run, write_run
    from uproar.study.sessions import run_to_end

    study, root, facts = read_run(folder, weights, store, trust)
    study = study.with_changes(plugins=tuple(dict.fromkeys((*study.plugins, *(plugin or ())))))
    chosen = tuple(some("--audits", names, audits))
    count = workers(jobs, study.device)
    planned = _planned(study, chosen, () if names is None else chosen, root, count)
    add_to_json(planned=[asdict(one) for one in planned])
    output.print(
        f"{len(planned)} audit{'s' * (len(planned) != 1)}: {sum(one.cells for one in planned)} new cells, at most "
        f"about {duration(max(1, sum(one.seconds for one in planned)))} with {count} process{'es' * (count > 1)}."
    )
    if dry_run or not planned:
        if planned:
            some_only = () if names is None else ("--audits", ",".join(chosen))
            print_next(f"{command('audit', folder, *some_only)} asks them")
        return 0
    study = study.with_changes(audits=[one.audit for one in planned])
    with watched("planning") as watch, keeping(f"Finished cells are in {public(root)}; {AGAIN}"):
        done = run_to_end(study, root, jobs, of_study(watch), ray, slurm=slurm)
        results = done.results.with_facts(facts)
        write_run(folder, study, root, facts)
        watch.say("drawing the report")
        page = results.report(folder)
    print_findings(results.findings)
    return finish(results, page, folder)


def _planned(study: Study, chosen: Sequence[str], by_name: Sequence[str], root: str, workers: int) -> list[AuditCost]:
    """The audits of the study and the chosen ones, with their costs printed.

    Where the study itself does not retrain, an audit that would is left out unless it is asked for by its name.
    """
    from uproar.store import Store
    from uproar.study.cost_estimate import audit_costs, retrains

    before = study.audits
    study = study.with_changes(audits=(*[name for name in before if name not in chosen], *chosen))
    costs: list[AuditCost] = []
    with watched("planning and measuring the networks") as watch:
        for one in audit_costs(study, Store(root), workers):
            costs.append(one)
            watch.count(len(costs), len(study.audits), "audits", doing="planning and measuring")
    planned = [one for one in costs if retrains(study) or not one.trainings or one.audit in (*before, *by_name)]
    for one in costs:
        output.print(escape(_words(one, one in planned)), soft_wrap=True)
    return planned


def _words(cost: AuditCost, planned: bool) -> str:
    """What an audit costs, on a line."""
    if not planned:
        return (
            f"  {cost.audit}: not asked: would retrain {cost.trainings} networks, "
            f"{about(cost.seconds)}; ask with --audits {cost.audit}."
        )
    if cost.refused:
        return f"  {cost.audit}: cannot be asked here: {cost.refused}."
    if not cost.cells:
        return f"  {cost.audit}: nothing new to run."
    return f"  {cost.audit}: {cost.cells} new cells, at most about {duration(max(1, cost.seconds))}."
