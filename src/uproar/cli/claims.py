"""`uproar claims`: what became of the claims of papers in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uproar.cli.changes import Weights
from uproar.cli.console import some
from uproar.cli.data import DataRoot


def claims(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a run, e.g. runs/hooker2019-tiny")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--claims", metavar="A,B,…",
            help="Papers or single claims  [default: the study's own, else all]",
        ),
    ] = None,
    weights: Weights = None,
    data_root: DataRoot = None,
) -> int:  # fmt: skip
    """Test the claims of papers on what a run found: n, effect, interval, outcome. Nothing is run."""
    from uproar.claims import PAPERS, claims_named, judge  # torch and tables load slowly
    from uproar.cli.folder import gathered, recall
    from uproar.cli.printed import print_claims
    from uproar.study.progress import left_in

    study, place, facts = recall(folder, weights)
    chosen = some("--claims", names, study.claims or PAPERS)
    claims_named(chosen)  # an unknown name is refused before results are gathered
    found = gathered(study, place, left_in(folder), facts)
    print_claims(judge(found, chosen))
    return 0
