"""`uproar diff`: what changed between two runs, and whether it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from uproar.cli.checks import check_run
from uproar.cli.completion import complete_runs
from uproar.cli.console import output, table
from uproar.cli.data import DataRoot
from uproar.cli.json_output import add_to_json
from uproar.cli.options import Trust
from uproar.cli.progress import watched
from uproar.wording import setting_text

if TYPE_CHECKING:
    from uproar.results.difference import Difference

Before = Annotated[
    Path,
    typer.Argument(
        metavar="BEFORE", help="Folder of a run, e.g. runs/a", show_default=False, autocompletion=complete_runs
    ),
]
After = Annotated[
    Path,
    typer.Argument(
        metavar="AFTER", help="Folder of another, e.g. runs/b", show_default=False, autocompletion=complete_runs
    ),
]

_UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "bits": ("score against random, in bits", "{:+.3f}".format),
    "accuracy": (
        "area against random, in points of accuracy, mean average precision or R²",
        lambda value: f"{100 * value:+.1f}",
    ),
}
"""By the unit of advantages: what they are, and how one is written."""


def diff(before: Before, after: After, trust: Trust = False, data_root: DataRoot = None) -> int:
    """Say what changed between two runs, and whether it matters: settings, values, verdicts. Exit 1 if it does."""
    for folder in (before, after):
        check_run(folder)
    from uproar.results.difference import compare_runs  # tables load slowly
    from uproar.runs.open import open_folder

    with watched("collecting the results"):
        difference = compare_runs(open_folder(before, trust=trust), open_folder(after, trust=trust))
    add_to_json(
        settings=[{"setting": name, "before": a, "after": b} for name, (a, b) in difference.settings.items()],
        cells=asdict(difference.cells),
        scores=asdict(difference.scores),
        verdicts=difference.verdicts,
        matters=len(difference.decisive) > 0,
        sentence=difference.sentence,
    )
    _print_settings(difference)
    output.print(f"Cells: {difference.cells.sentence}.", highlight=False, soft_wrap=True)
    if difference.scores.common or difference.scores.added or difference.scores.removed:
        output.print(f"Metrics: {difference.scores.sentence}.", highlight=False, soft_wrap=True)
    _print_verdicts(difference)
    output.print(escape(difference.sentence), soft_wrap=True)
    return 1 if len(difference.decisive) else 0


def _print_settings(difference: Difference) -> None:
    if not difference.settings:
        output.print("The studies are the same.")
        return
    shown = table("Settings that differ", "setting", "before", "after")
    for name, values in difference.settings.items():
        shown.add_row(escape(name), *(escape(setting_text(value)) for value in values))
    output.print(shown)


def _print_verdicts(difference: Difference) -> None:
    """The verdicts that changed: of evaluators first, then of protocols."""
    several = len(difference.verdicts[["task", "model"]].drop_duplicates()) > 1
    for unit, (title, show) in _UNITS.items():
        rows = difference.decisive[difference.decisive["unit"] == unit]
        if len(rows):
            columns = ("protocol", "estimator", "before", "after", ">advantage before", ">after")
            shown = table(f"Verdicts that changed ({title})", *columns)
            for row in rows.itertuples():
                where = f"{row.protocol} on {row.task} with {row.model}" if several else row.protocol
                advantages = (show(value) for value in (row.advantage_before, row.advantage_after))
                shown.add_row(*map(escape, (where, row.estimator, row.before, row.after)), *advantages)
            output.print(shown)
