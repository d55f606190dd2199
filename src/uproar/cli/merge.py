"""`uproar merge`: several runs of a study as one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from uproar.cli.checks import check_folder, check_run
from uproar.cli.completion import complete_runs
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import keeping
from uproar.cli.next_steps import command
from uproar.cli.options import WHERE, Trust, option
from uproar.cli.progress import watched
from uproar.storage.urls import public_command


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER FOLDER…",
            show_default=False,
            help="Folders of runs, e.g. runs/a runs/b",
            autocompletion=complete_runs,
        ),
    ],
    out: Annotated[Path, option(panel=WHERE, takes="FOLDER", text="The merged run goes here, a new folder")],
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Merge runs whose studies differ only in what they list (seeds, estimators, fractions, …) into a new one."""
    for folder in folders:
        check_run(folder)
    check_folder(out)
    from uproar.cli.print_results import finish, print_results
    from uproar.runs.merge import merge_runs  # torch loads slowly

    facts = {"command": public_command(["uproar", *sys.argv[1:]])}
    left = f"The runs are as they were; remove {out} before you merge again."
    with watched("copying results") as watch, keeping(left):
        merged = merge_runs(folders, out, facts, trust, watch.counting("results", "copying"))
        watch.say("drawing the report")
        page = merged.report(out)
    print_results(merged)
    return finish(merged, page, out, f"{command('store', 'repair', out)} makes what is missing")
