"""The answer on a terminal: methods by judges, and the sentence to act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding

from uproar.cli.console import output, table

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.evidence import Evidence, Standing


def print_answers(answers: Sequence[Answer]) -> None:
    """Every method against the model-free baselines, under the metrics that are reliable here."""
    for answer in answers:
        reliable = [metric for metric in answer.metrics if not metric.unreliable]
        if not reliable or not answer.methods:
            continue
        where = f" on {answer.task} with {answer.model}" if len(answers) > 1 else ""
        title = f"▲ significantly better than every model-free baseline, ○ not better than that one{escape(where)}"
        shown = table(title, "method", "group", *map(_heading, reliable), "warnings")
        for row in answer.table.itertuples():
            cells = [_mark(metric.standings.get(row.method)) for metric in reliable]
            shown.add_row(escape(row.method), row.group, *cells, row.warnings)
        output.print(shown)
        output.print("Methods that share a letter (group) are not significantly different.", style="dim")


def _mark(standing: Standing | None) -> str:
    if standing is None:
        return "–"
    return "[green]▲[/]" if standing.better else f"[yellow]○ {escape(standing.baseline)}[/]"


def _heading(metric: Evidence) -> str:
    """A metric above its column, with how well it recovers known rankings."""
    recovery = "" if metric.board is None else f" ({metric.board.recovery.value:.2f})"
    return escape(f"{metric.label}{recovery}")


def print_headline(answer: Answer, several: bool = False) -> None:
    """What supports and limits the recommendation, and the recommendation in a few lines below it."""
    from uproar.report.formatting import clean  # tables load slowly

    if several:
        output.print(escape(clean(f"{answer.task} with {answer.model}:")), soft_wrap=True, highlight=False)
    for line in answer.details:
        output.print(Padding(f"[dim]{escape(clean(line))}[/]", (0, 0, 0, 2)), highlight=False)
    for line in answer.lines:
        output.print(f"[bold]{escape(clean(line))}[/]", soft_wrap=True, highlight=False)
