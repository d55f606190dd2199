"""`uproar compare`: what changed between two runs, or how far a method of one is ahead of others."""

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
from uproar.cli.json_output import add_to_json
from uproar.cli.options import DataRoot, Trust
from uproar.cli.print_tables import number_text, p_text
from uproar.cli.progress import watched
from uproar.errors import BadInput
from uproar.wording import setting_text

if TYPE_CHECKING:
    import pandas as pd

    from uproar.results.difference import Difference

_UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "bits": ("score against random, in bits", "{:+.3f}".format),
    "accuracy": (
        "area against random, in points of accuracy, mean average precision or R²",
        lambda value: f"{100 * value:+.1f}",
    ),
}
"""By the unit of advantages: what they are, and how one is written."""


def compare(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of a run or of scores", show_default=False, autocompletion=complete_runs
        ),
    ],
    other: Annotated[
        str,
        typer.Argument(
            metavar="RUN|METHOD",
            help="Another run, or a method of the first",
            show_default=False,
            autocompletion=complete_runs,
        ),
    ],
    against: Annotated[
        str | None,
        typer.Argument(metavar="METHOD", help="The method to compare it with; without one, each", show_default=False),
    ] = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Compare two runs, or two methods of one run.

    Of runs: settings, values, verdicts, with exit code 1 if verdicts changed.

    uproar compare runs/a runs/b

    uproar compare runs/a ig grad
    """
    if Path(other).is_dir():
        if against is not None:
            raise BadInput("Two runs are compared as a whole: name two runs, or one run and its methods.")
        return _compare_runs(first, Path(other), trust)
    return _compare_methods(first, other, against, trust)


def _compare_runs(before: Path, after: Path, trust: bool) -> int:
    for folder in (before, after):
        check_run(folder)
    from uproar.results.difference import compare as difference_of  # tables load slowly
    from uproar.study.sessions import open_folder

    with watched("collecting the results"):
        difference = difference_of(open_folder(before, trust=trust), open_folder(after, trust=trust))
    add_to_json(
        settings=[{"setting": name, "before": a, "after": b} for name, (a, b) in difference.settings.items()],
        cells=asdict(difference.cells),
        scores=asdict(difference.scores),
        verdicts=difference.verdicts,
        matters=len(difference.decisive) > 0,
        sentence=difference.sentence,
    )
    if difference.settings:
        shown = table("Settings that differ", "setting", "before", "after")
        for name, values in difference.settings.items():
            shown.add_row(escape(name), *(escape(setting_text(value)) for value in values))
        output.print(shown)
    else:
        output.print("The studies are the same.")
    output.print(f"Cells: {difference.cells.sentence}.", highlight=False, soft_wrap=True)
    if difference.scores.common or difference.scores.added or difference.scores.removed:
        output.print(f"Metrics: {difference.scores.sentence}.", highlight=False, soft_wrap=True)
    _print_verdicts(difference)
    output.print(escape(difference.sentence), soft_wrap=True)
    return 1 if len(difference.decisive) else 0


def _print_verdicts(difference: Difference) -> None:
    """The verdicts that changed: of evaluators first, then of protocols."""
    several = len(difference.verdicts[["task", "model"]].drop_duplicates()) > 1
    for unit, (title, show) in _UNITS.items():
        rows = difference.decisive[difference.decisive["unit"] == unit]
        if len(rows):
            columns = ("metric", "method", "before", "after", ">advantage before", ">after")
            shown = table(f"Verdicts that changed ({title})", *columns)
            for row in rows.itertuples():
                where = f"{row.protocol} on {row.task} with {row.model}" if several else row.protocol
                advantages = (show(value) for value in (row.advantage_before, row.advantage_after))
                shown.add_row(*map(escape, (where, row.estimator, row.before, row.after)), *advantages)
            output.print(shown)


def _compare_methods(folder: Path, method: str, against: str | None, trust: bool) -> int:
    """One method of a run or of scores against another, or against each: paired, by every metric."""
    from uproar.study.sessions import holds_scores, open_folder

    if not holds_scores(folder):
        check_run(folder)
    with watched("collecting the results"):
        if holds_scores(folder):
            from uproar.report import read_scores

            pairs = read_scores(folder).comparisons.rename(columns={"metric": "measure"})
            protocols: dict[str, float] = {}
        else:
            run = open_folder(folder, trust=trust)
            pairs, protocols = run.comparisons, dict.fromkeys(run.protocols, run.comparison_alpha)
    known = list(dict.fromkeys([*pairs["better"], *pairs["worse"]]))
    for name in (method, *([against] if against else [])):
        if name not in known:
            raise BadInput(f"{folder} has no method {name!r} to compare; it has {', '.join(known) or 'none'}.")
    add_to_json(comparisons=_print_pairs(pairs, protocols, method, against))
    return 0


def _print_pairs(pairs: pd.DataFrame, protocols: dict[str, float], method: str, against: str | None) -> pd.DataFrame:
    """A table per metric: how far a method leads, corrected over the pairs shown; the rows of all of them."""
    import pandas as pd

    from uproar.statistics.comparisons import comparisons_with
    from uproar.statistics.design import ALPHA

    places = [name for name in ("task", "model") if name in pairs]
    if against is not None:
        pairs = pairs[(pairs["better"] == against) | (pairs["worse"] == against)]
    frames = []
    for names, group in pairs.groupby([*places, "measure"], sort=False):
        measure, retrained = str(names[-1]), names[-1] in protocols
        own = comparisons_with(group, method, protocols.get(measure, ALPHA))
        frames.append(own)
        where = f" on {names[0]} with {names[1]}" if places else ""
        scale, form = (100, "{:+.1f}") if retrained else (1, "{:+.3f}")
        title = f"{measure}{where}: lead of {method}{', points' * retrained} ({len(own)} pairs, Holm)"
        shown = table(escape(title), "against", ">lead", ">95 % CI", ">p (Holm)", ">n", "verdict")
        for row in own.itertuples():
            ahead = row.better == method
            towards = scale * (1 if ahead == (row.difference >= 0) else -1)
            low, high = sorted((towards * row.low, towards * row.high))
            verdict = (
                ("[green]better[/]" if ahead else "[red]worse[/]") if row.side == 1 else "[yellow]not significant[/]"
            )
            shown.add_row(
                escape(row.worse if ahead else row.better),
                number_text(towards * row.difference, form),
                f"{number_text(low, form)}…{number_text(high, form)}",
                p_text(row.p_holm),
                str(row.n),
                verdict,
            )
        output.print(shown)
    return pd.concat(frames, ignore_index=True) if frames else pairs
