"""`uproar try`: does an estimator of your own satisfy the contract?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from uproar.cli.console import output, some, table
from uproar.cli.options import Model
from uproar.cli.options import names as names_option
from uproar.cli.progress import watched


def try_estimators(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|EXPRESSION", help="my_method.py, or e.g. sg(grad)", show_default=False
        ),
    ],
    estimators: Annotated[
        list[str] | None,
        names_option(text="Which ones of the file", default="all"),
    ] = None,
    model: Model = "cnn-small",
) -> int:
    """Check that an estimator keeps the rules that make its scores trustworthy."""
    from uproar.estimators.contract import try_contract  # torch loads slowly
    from uproar.extend import load_plugin

    names = load_plugin(what) if Path(what).suffix == ".py" else [what]
    broken = 0
    for name in some("--estimators", estimators, names):
        with watched(f"checking {name} on {model}") as watch:
            checks, seconds = try_contract(name, model, watch.counting("clauses", name))
        shown = table(
            f"{name} on {model}, {seconds * 1e3:.1f} ms per image", "clause", "holds", "seen"
        )
        for check in checks:
            holds = "[green]yes[/]" if check.holds else "[bold red]no[/]"
            shown.add_row(check.clause, holds, escape(check.seen))
        output.print(shown)
        failed = sum(not check.holds for check in checks)
        broken += failed > 0
        verdict = (
            f"breaks {failed} clause{'s' if failed > 1 else ''}"
            if failed
            else "satisfies the contract"
        )
        output.print(f"{escape(name)} {verdict}.")
    return 1 if broken else 0
