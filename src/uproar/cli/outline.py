"""What a study amounts to, printed."""

from __future__ import annotations

from rich.markup import escape

from uproar.cli.console import errors, output, table
from uproar.study.outline import SPEED, Outline
from uproar.study.spec import Study


def print_outline(study: Study, size: Outline) -> None:
    """Cells, passes, storage and GPU hours of a study with its audits, and what is missing before it can run."""
    shown = table(f"Study {study.name}: its whole size", "what", ">amount")
    for what, amount in (
        ("cells", f"{size.cells:,}"),
        ("trainings", f"{size.trainings:,}"),
        ("images passed forward and backward in training", _large(size.trained)),
        ("images passed forward and backward for maps", _large(size.explained)),
        ("images passed forward for scores", _large(size.shown)),
        ("storage", _bytes(size.bytes)),
        (f"GPU hours at {SPEED / 1e12:g} TFLOP/s", f"{size.gpu_hours:,.2f}"),
    ):
        shown.add_row(what, amount)
    output.print(shown)
    for note in size.notes:
        output.print(escape(note), soft_wrap=True)
    for sentence in size.missing:
        errors.print(f"[yellow]Missing:[/] {escape(sentence)}", soft_wrap=True)


def _large(n: float) -> str:
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n:,.0f}"


def _bytes(n: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n / 1e6:.0f} MB"
