"""What a command is doing and how long it will still take: one line that is redrawn on a terminal, a line now and then
elsewhere (pipes, TERM=dumb). All commands show it the same way, on standard error.

    with watched("reading digits") as watch:
        watch.say("training the base model")                   # nothing to count
        watch.count(3, 40, "images", pace.left, "ig")          # 3/40 images, 2 min 05 s left, ig
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.text import Text

from uproar.cli.console import errors
from uproar.remaining_time import Pace, duration

if TYPE_CHECKING:
    from uproar.study.progress import Listener
    from uproar.study.progress import Progress as State

FIRST, EVERY = 2.0, 10.0
"""Seconds until the first line where there is no terminal, and between lines."""
BAR = 24
"""Columns of the bar, where there is room for it."""


@dataclass(frozen=True)
class Stage:
    """What is being done: how much of it is done, and how long the rest will take."""

    doing: str = ""
    counted: str = ""
    """Such as `3/40 images`."""
    share: float | None = None
    left: Callable[[], float | None] = field(default=lambda: None)
    below: tuple[str, ...] = ()
    """Further lines, one per machine of a cluster."""
    since: float = 0.0

    @property
    def time(self) -> str:
        """The time left, or how long it has taken where nobody knows."""
        left = self.left()
        if left is not None:
            return f"{duration(left)} left"
        spent = time.monotonic() - self.since
        return f"{duration(spent)} so far" if spent >= FIRST else ""


class Watch:
    """Shows the stage a command is in; the command says when it is in another."""

    def __init__(self, doing: str) -> None:
        self.stage = Stage(doing, since=time.monotonic())

    def say(self, doing: str) -> None:
        """Something begins of which nothing can be counted."""
        self.stage = Stage(doing, since=time.monotonic())

    def note(self, doing: str) -> None:
        """As `say`; where lines are not drawn again, there is one at once."""
        self.say(doing)
        if not redrawn():
            tell(self.stage)

    def count(
        self,
        done: float,
        total: float,
        unit: str,
        left: Callable[[], float | None] = lambda: None,
        doing: str = "",
        share: float | None = None,
        below: Sequence[str] = (),
    ) -> None:
        """So much of something is done; `left` is asked whenever it is shown."""
        if share is None:
            share = done / total if total else None
        self.stage = Stage(
            doing,
            f"{done:,.0f}/{total:,.0f} {unit}" if total else f"{done:,.0f} {unit}",
            share,
            left,
            tuple(below),
            self.stage.since,
        )

    def counting(self, unit: str, doing: str = "", size: float = 1) -> Callable[[int, int], None]:
        """A listener for `(done, total)` of a loop whose rounds take alike; `size` of them are one unit."""
        self.say(doing)
        pace, before, began = Pace(), 0, time.perf_counter()

        def listen(done: int, total: int) -> None:
            nonlocal before, began
            if not pace.total:
                pace.expect((), total - done)  # what is there at the first call was not done now
            else:
                pace.spent((), done - before, time.perf_counter() - began)
            before, began = done, time.perf_counter()
            self.count(done / size, total / size, unit, lambda: pace.left, doing)

        return listen


class _Line:
    """The stage as one line of a terminal: counts and times whole, what is being done as far as there is room."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        stage, width = self.watch.stage, options.max_width - 1
        line = Text(no_wrap=True, overflow="crop", end="")
        facts = [fact for fact in (stage.counted, stage.time) if fact]
        if stage.share is not None and width >= BAR + 1 + cell_len("  ".join(facts)):
            full = round(BAR * min(max(stage.share, 0.0), 1.0))
            line.append("━" * full, "green").append("━" * (BAR - full), "bright_black").append(" ")
        for fact, style in ((stage.counted, ""), (stage.time, "cyan")):
            if fact:
                line.append(fact, style).append("  ")
        line.append(shortened(stage.doing, width - line.cell_len), "dim")
        line.rstrip()
        yield line
        for below in stage.below:
            yield Text(f"\n  {shortened(below, width - 2)}", "dim", end="")


def shortened(text: str, width: int) -> str:
    """As many whole words of a text as there is room for.

    >>> shortened("explain grad seed 12", 18), shortened("explain grad seed 12", 40), shortened("x", 0)
    ('explain grad seed', 'explain grad seed 12', '')
    """
    if cell_len(text) <= width:
        return text
    words = text.split(" ")
    while words and cell_len(" ".join(words)) > width:
        words.pop()
    return " ".join(words)


def redrawn() -> bool:
    """Whether standard error is a terminal whose lines can be drawn again; FORCE_COLOR makes no terminal of a pipe."""
    return errors.on_terminal and not errors.is_dumb_terminal


@contextmanager
def watched(doing: str) -> Iterator[Watch]:
    """Show what is going on until the end of the block."""
    watch = Watch(doing)
    if redrawn():
        with Live(_Line(watch), console=errors, transient=True, refresh_per_second=5):
            yield watch
        return
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(watch, ended), daemon=True)
    teller.start()
    try:
        yield watch
    finally:
        ended.set()
        teller.join(timeout=EVERY)


def _tell(watch: Watch, ended: threading.Event) -> None:
    """A line for every stage that lasts, and then every now and then."""
    shown, last = 0.0, time.monotonic()
    while not ended.wait(0.25):
        stage, now = watch.stage, time.monotonic()
        due = FIRST if stage.since != shown else EVERY
        if now - max(last, stage.since) >= due or now - last >= EVERY:
            shown, last = stage.since, now
            tell(stage)


def tell(stage: Stage) -> None:
    """A stage as a line of its own."""
    line = ", ".join(part for part in (stage.counted, stage.time, stage.doing) if part)
    errors.print(line, soft_wrap=True, markup=False, highlight=False)
    for below in stage.below:
        errors.print(f"  {below}", soft_wrap=True, markup=False, highlight=False)


def of_study(watch: Watch) -> Listener:
    """A listener that shows how far a run is, and where there is no terminal says it once more at the end."""

    def listen(state: State) -> None:
        part = f"{state.study}: " if ": " in state.study else ""
        doing = "" if state.machines else "; ".join(map(str, state.running))
        watch.count(
            state.done,
            state.total,
            "cells",
            lambda: None if _ended(state) else state.left,
            part + doing,
            state.pace.share if state.pace.total else None,
            machine_lines(state),
        )
        if _ended(state) and not redrawn():
            cached = f" ({state.cached} were there already)" if state.cached else ""
            last = replace(watch.stage, counted=watch.stage.counted + cached, doing=part.rstrip(": "))
            tell(replace(last, since=time.monotonic()))
        if _ended(state) and not state.left:
            watch.say("collecting the results")

    return listen


def _ended(state: State) -> bool:
    return state.done == state.total


def machine_lines(state: State) -> list[str]:
    """What each machine of a cluster has done and is doing."""
    return [
        f"{name}: {node.done} done, {'; '.join(node.doing) or 'nothing under way'}"
        for name, node in sorted(state.machines.items())
    ]
