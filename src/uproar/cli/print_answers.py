"""The answer on a terminal: methods by judges, and the sentence to act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding

from uproar.cli.console import output, table

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.judges import Judge

MARKS = {"better": "[green]▲[/]", "undecided": "[yellow]○ {}[/]", "no better": "[red]▼ {}[/]", "worse": "[red]▼ {}[/]"}
"""A placing on a terminal; the ranking behind it holds the method back."""


def print_answers(answers: Sequence[Answer]) -> None:
    """Every method against the best network-free ranking, under the judges that are able to judge."""
    for answer in answers:
        able = [judge for judge in answer.judges if judge.votes]
        if not able or not answer.methods:
            continue
        where = f" on {answer.task} with {answer.model}" if len(answers) > 1 else ""
        known = "; agreement with known rankings in brackets" * any(judge.known is not None for judge in able)
        marks = "▲ better than every network-free ranking, ○ cannot be told from that one, ▼ no better than it"
        letters = "methods that share a letter (group) are not significantly different"
        title = f"{marks}{escape(where)}; {letters}{known}"
        shown = table(title, "method", "group", *map(_judge_column, able), "flags")
        for method in answer.methods:
            placings = [answer.placing(method, judge) for judge in able]
            cells = ["–" if one is None else MARKS[one.level].format(escape(one.control)) for one in placings]
            shown.add_row(escape(method), answer.group_of(method), *cells, answer.flag_words(method))
        output.print(shown)
        if answer.checks_to_ask:
            output.print(escape(answer.checks_to_ask), style="dim", highlight=False)


def _judge_column(judge: Judge) -> str:
    """A judge above its column, with how well it recovers known orders."""
    known = "" if judge.known is None else f" ({judge.known.recovery.value:.2f})"
    return escape(f"{judge.label}{known}")


def print_headline(sentence: str, details: Sequence[str]) -> None:
    """The answer in a sentence, and below it what supports and limits it."""
    output.print(f"[bold]{escape(sentence)}[/]", soft_wrap=True, highlight=False)
    for line in details:
        output.print(Padding(f"[dim]{escape(line)}[/]", (0, 0, 0, 2)), highlight=False)
