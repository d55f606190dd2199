"""Cells of tables on a terminal, and what is said under a table."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape

from uproar.cli.console import output

UNABLE = "; unable to judge here: the negative control failed"
"""Behind the name of a protocol or metric that tells no method from random rankings."""


def number_text(value: float, form: str) -> str:
    """A number in a form, or a dash where there is none."""
    return "–" if value != value else form.format(value)


def test_cells(df: float, p: float, p_holm: float) -> tuple[str, str, str]:
    """Degrees of freedom, p alone and p adjusted by Holm's method."""
    alone, adjusted = ("<0.001" if one < 0.001 else number_text(one, "{:.3f}") for one in (p, p_holm))
    return number_text(df, "{:.1f}"), alone, adjusted


def recovery_suffix(judge: str) -> str:
    """How well a metric or protocol recovers known orders, behind its name, where the board has asked it."""
    from uproar.results.recovery import recovery_words

    words = recovery_words(judge, interval=False)
    return f"; recovery {words}" if words else ""


def print_notes(noted: Iterable[tuple[str, str]]) -> None:
    """What is said of single rows of a table, under it; rows of one note together."""
    names: dict[str, list[str]] = {}
    for name, note in noted:
        names.setdefault(note, []).append(name)
    for note, some in names.items():
        if note:
            output.print(escape(f"{', '.join(some)}: {note}."), style="dim", highlight=False)
