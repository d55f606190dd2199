"""Live progress of a run: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from uproar.cli.console import duration, errors
from uproar.study.progress import Listener
from uproar.study.progress import Progress as State

EVERY = 10.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def shown() -> Iterator[Listener]:
    """A listener that shows how far a run is."""
    if not errors.is_terminal:
        yield _lines()
        return
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.fields[count]}"),
        TextColumn("[cyan]{task.fields[left]}"),
        TextColumn("[dim]{task.description}"),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        line = bar.add_task("planning", total=None, count="", left="")

        def listen(state: State) -> None:
            part = f"{state.study}: " if ": " in state.study else ""
            doing = "\n".join(machine_lines(state)) or "; ".join(map(str, state.running))
            working = part + doing or "starting"
            bar.update(
                line,
                total=state.total,
                completed=state.done,
                count=f"{state.done}/{state.total} cells",
                left=_left(state),
                description=working,
            )

        yield listen


def _lines() -> Listener:
    last = 0.0

    def listen(state: State) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY or state.done == state.total:
            last = now
            errors.print(
                f"{state.done}/{state.total} cells ({state.cached} were there already)"
                f"{', ' + _left(state) if _left(state) else ''}",
                soft_wrap=True,
            )
            for line in machine_lines(state):
                errors.print(f"  {escape(line)}", soft_wrap=True)

    return listen


def machine_lines(state: State) -> list[str]:
    """What each machine of a cluster has done and is doing."""
    return [
        f"{name}: {node.done} done, {'; '.join(node.doing) or 'nothing under way'}"
        for name, node in sorted(state.machines.items())
    ]


def _left(state: State) -> str:
    return "" if state.left is None or state.done == state.total else f"{duration(state.left)} left"
