"""`uproar audit`: can the benchmark itself be trusted here?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uproar.cli.console import duration, listed, output
from uproar.cli.data import DataRoot
from uproar.cli.folder import gathered, recall, remember
from uproar.cli.printed import finish, print_findings
from uproar.cli.progress import shown
from uproar.store import Store
from uproar.study.estimate import estimate
from uproar.study.execute import default_jobs
from uproar.study.run import run_study


def audit(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, e.g. runs/digits")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--audits", metavar="A,B,…", help="Which  [default: all, see uproar ls audits]"
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes  [default: one per core]")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="auto|HOST:PORT", help="Run on this Ray cluster")
    ] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Say what it would cost, and stop")] = False,
    data_root: DataRoot = None,
) -> int:
    """Ask whether a run's own scores mislead, and add the answers to its report."""
    from uproar.audits import audits
    from uproar.study.audit import asked, needed

    study, place, facts = recall(folder)
    chosen = tuple(listed(names) or audits)
    before = [name for name in study.audits if name not in chosen]
    study = study.with_changes(audits=(*before, *chosen))
    workers = default_jobs(study.device) if jobs is None else jobs
    new, seconds = 0, 0.0
    for part in needed(asked(study)).values():
        found = estimate(part, Store(place), workers)
        new += found.cells - found.cached - found.skipped
        seconds += found.seconds
    output.print(
        f"{len(chosen)} audits need {new} new cells, at most about {duration(seconds)} with {workers} "
        f"process{'es' if workers > 1 else ''}."
    )  # fmt: skip
    if cost:
        return 0
    with shown() as listen:
        state = run_study(study, place, jobs, listen, ray)
    results = gathered(study, place, state, facts)
    remember(folder, study, place, facts)
    page = results.report(folder)
    print_findings(results.findings)
    return finish(results, page)
