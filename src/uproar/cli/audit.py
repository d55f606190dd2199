"""`uproar audit`: can the benchmark itself be trusted here?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from uproar.cli.checks import check_run
from uproar.cli.console import duration, output, some
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import AGAIN, kept
from uproar.cli.options import HOW, Jobs, Moved, Plugins, RayAddress, RunFolder, Stored, Trust, flag
from uproar.cli.options import names as names_option
from uproar.cli.progress import of_study, watched
from uproar.urls import public

if TYPE_CHECKING:
    from uproar.study.audit_cost import Cost


def audit(
    folder: RunFolder,
    names: Annotated[
        list[str] | None,
        names_option("--audits", text="See uproar ls audits", default="all"),
    ] = None,
    jobs: Jobs = None,
    ray: RayAddress = None,
    cost: Annotated[
        bool, flag("--cost", panel=HOW, text="Say what it would cost, and stop")
    ] = False,
    weights: Moved = None,
    plugin: Plugins = None,
    store: Stored = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Ask whether a run's own scores mislead, and add the answers to its report."""
    check_run(folder)
    from uproar.audits import audits  # torch and tables load slowly
    from uproar.cli.folder import recall, remember
    from uproar.cli.next_steps import command, print_next
    from uproar.cli.printed import finish, print_findings
    from uproar.running import completed
    from uproar.store import Store
    from uproar.study.audit_cost import costs
    from uproar.study.execute import workers

    study, place, facts = recall(folder, weights, store, trust)
    study = study.with_changes(plugins=tuple(dict.fromkeys((*study.plugins, *(plugin or ())))))
    chosen = tuple(some("--audits", names, audits))
    before = [name for name in study.audits if name not in chosen]
    study = study.with_changes(audits=(*before, *chosen))
    count = workers(jobs, study.device)
    new, seconds = 0, 0.0
    for one in costs(study, Store(place), count):
        output.print(escape(_words(one)), soft_wrap=True)
        new, seconds = new + one.cells, seconds + one.seconds
    output.print(
        f"{len(study.audits)} audit{'s' * (len(study.audits) > 1)}: {new} new cells, at most about "
        f"{duration(seconds)} with {count} process{'es' * (count > 1)}."
    )  # fmt: skip
    if cost:
        print_next(f"{command('audit', folder)} asks them")
        return 0
    with watched("planning") as watch, kept(f"Finished cells are in {public(place)}; {AGAIN}"):
        done = completed(study, place, jobs, of_study(watch), ray)
        results = done.results.with_facts(facts)
        remember(folder, study, place, facts)
        watch.say("drawing the report")
        page = results.report(folder)
    print_findings(results.findings)
    return finish(results, page, folder)


def _words(cost: Cost) -> str:
    """What an audit costs, on a line."""
    if cost.refused:
        return f"  {cost.audit}: cannot be asked here: {cost.refused}."
    if not cost.cells:
        return f"  {cost.audit}: nothing new to run."
    return f"  {cost.audit}: {cost.cells} new cells, at most about {duration(cost.seconds)}."
