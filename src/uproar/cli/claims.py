"""`uproar claims`: what became of the claims of papers in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uproar.cli.console import listed
from uproar.cli.data import DataRoot
from uproar.cli.folder import gathered, recall
from uproar.cli.printed import print_claims
from uproar.study.progress import left_in


def claims(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, e.g. runs/hooker2019-tiny")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--claims", metavar="A,B,…",
            help="Papers or single claims  [default: the study's own, else all]",
        ),
    ] = None,
    data_root: DataRoot = None,
) -> int:  # fmt: skip
    """Test the claims of papers on what a run found: n, effect, interval, outcome. Nothing is run."""
    from uproar.claims import PAPERS, judge

    study, place, facts = recall(folder)
    chosen = listed(names) or study.claims or tuple(PAPERS)
    found = gathered(study, place, left_in(folder), facts)
    print_claims(judge(found, chosen))
    return 0
