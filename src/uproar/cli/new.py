"""`uproar new`: a commented file to begin from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from uproar.cli.console import print_file
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next
from uproar.errors import BadInput, StoreError
from uproar.paths import write_file

STARTERS = Path(__file__).with_name("starters")
"""The files; Python ones end in .txt, so that nothing imports them where they are."""


class Kind(StrEnum):
    """What can be begun."""

    study = "study"
    estimator = "estimator"
    metric = "metric"


DEFAULTS = {Kind.study: "study.toml", Kind.estimator: "my_method.py", Kind.metric: "my_metric.py"}


def new(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"What to begin: {', '.join(Kind)}")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", show_default=False, help=f"Where to write it, e.g. {', '.join(DEFAULTS.values())}"
        ),
    ] = None,
) -> int:
    """Write a commented study, estimator or metric to begin from."""
    target = Path(DEFAULTS[kind]) if file is None else file
    (starter,) = STARTERS.glob(f"{kind}.*")
    suffix = Path(DEFAULTS[kind]).suffix
    if target.suffix != suffix:
        raise BadInput(f"The file of a new {kind} ends in {suffix}, not {target.name!r}.")
    if target.exists():
        raise BadInput(f"{target} is there already: give another name, or remove it first.")
    if not target.parent.is_dir():
        raise BadInput(f"The folder {target.parent} is not there: make it first.")
    try:
        write_file(target, starter.read_text(encoding="utf-8").replace("FILE", str(target)).encode())
    except OSError as error:
        raise StoreError(f"Cannot write {target}: {error.strerror or error}.") from None
    add_to_json(kind=str(kind), file=target)
    print_file(f"New {kind}", target)
    print_next(_next(kind, target))
    return 0


def _next(kind: Kind, file: Path) -> str:
    """What can be done with the new file as it is."""
    if kind is Kind.study:
        return f"{command('run', file, '--dry-run')} says what would run"
    if kind is Kind.estimator:
        return f"{command('check', file)} checks it"
    return f"{command('score', '--plugin', file, '--metrics', 'my_metric')} asks it of built-in estimators"
