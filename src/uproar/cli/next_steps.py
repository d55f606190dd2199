"""What a person may want to do after a command: one line that is true of what has just happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from uproar.cli.console import output
from uproar.paths import public_command
from uproar.statistics.design import LEAST_REPLICATES

if TYPE_CHECKING:
    from uproar.study.collected import Run


def print_next(*steps: str) -> None:
    """Print what may come next; nothing if there is nothing to say."""
    text = "; ".join(step for step in steps if step)
    if text:
        output.print(f"[dim]Next:[/] {escape(text)}", soft_wrap=True, highlight=False)


def command(*words: str | Path | None) -> str:
    """A command line that can be pasted into a shell, without secrets; words that are None are left out."""
    return public_command(["uproar", *(str(word) for word in words if word is not None)])


def open_page_hint(page: Path) -> str:
    """Open a page."""
    return f"open {page}"


def after_run(results: Run, page: Path, folder: Path) -> Sequence[str]:
    """After a run or a report of one: finish it, add replicates, open it, audit it."""
    if "missing" in set(results.problems["status"]):
        return (open_page_hint(page), f"{command('run', folder)} resumes what is missing")
    retrained = bool(len(results.table))
    if retrained and len(set(results.table["seed"])) < LEAST_REPLICATES:
        return (open_page_hint(page), f"the same command with --seeds {LEAST_REPLICATES} adds replicates, for verdicts")
    audit = f"{command('audit', folder)} asks whether these scores mislead"
    return (open_page_hint(page), "" if results.findings or not retrained else audit)
