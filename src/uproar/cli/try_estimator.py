"""`uproar try`: does an estimator of your own satisfy the contract?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from uproar.cli.completion import complete_names
from uproar.cli.console import output, some, table
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import Model, Plugins
from uproar.cli.options import names as names_option
from uproar.cli.progress import watched
from uproar.errors import BadInput
from uproar.statistics.design import BASELINE


def try_estimators(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|EXPRESSION",
            help="my_method.py, or e.g. sg(grad)",
            show_default=False,
            autocompletion=complete_names("estimators"),
        ),
    ],
    estimators: Annotated[
        list[str] | None, names_option(kind="estimators", text="Which ones of the file", default="all")
    ] = None,
    model: Model = "cnn-small",
    plugin: Plugins = None,
) -> int:
    """Check that an estimator keeps the rules that make its scores trustworthy."""
    from uproar.estimators.contract import try_contract  # torch loads slowly
    from uproar.extend import load_plugin

    for file in plugin or ():
        load_plugin(file)
    names = _of_file(what) if _is_file(what) else [what]
    broken = 0
    clauses: list[dict[str, object]] = []
    chosen = some("--estimators", estimators, names)
    for name in chosen:
        with watched(f"checking {name} on {model}") as watch:
            checks, seconds = try_contract(name, model, watch.counting("clauses", name))
        shown = table(f"{name} on {model}, {seconds * 1e3:.1f} ms per image", "clause", "holds", "seen")
        for check in checks:
            holds = ("[green]yes[/]" if check.holds else "[bold red]no[/]") if check.asked else "–"
            shown.add_row(check.clause, holds, escape(check.message))
            seen = {"asked": check.asked, "holds": check.holds, "seen": check.message}
            clauses.append({"estimator": name, "clause": check.clause, **seen})
        output.print(shown)
        failed = sum(not check.holds for check in checks)
        broken += failed > 0
        verdict = f"breaks {failed} clause{'s' if failed > 1 else ''}" if failed else "satisfies the contract"
        output.print(f"{escape(name)} {verdict}.")
    add_to_json(clauses=clauses)
    files = [*(plugin or ()), *([what] if _is_file(what) else ())]
    if broken:
        print_next("mend what breaks a clause, then the same command again (docs/add-an-estimator.md)")
    else:
        compared = ",".join(dict.fromkeys([BASELINE, *chosen]))
        given = [word for file in files for word in ("--plugin", file)]
        print_next(f"{command('run', *given, '--estimators', compared)} compares it with a random ranking")
    return 1 if broken else 0


def _is_file(what: str) -> bool:
    """Whether a file is meant, rather than an expression such as `sg(grad)` or `maps:FILE`."""
    text = what.partition("(")[0]
    named = Path(text).suffix in (".py", ".txt") or os.sep in text or Path(text).exists()
    return named and ":" not in text


def _of_file(what: str) -> list[str]:
    """The estimators of a file; one that declares only other things is refused."""
    from uproar.extend import declared_in

    declared = declared_in(what)
    others = [f"the {kind} {name}" for kind, names in declared.items() for name in names]
    if not declared["estimator"]:
        raise BadInput(f"{what} declares {', '.join(others)}, but no estimator: that is what uproar try checks.")
    return declared["estimator"]
