"""What a command is doing and how long it will still take: a bar on a terminal, a line now and then elsewhere (pipes,
TERM=dumb). All commands show it the same way, on standard error.

    with watched("reading digits") as watch:
        watch.say("training the base model")                    # nothing to count
        watch.count(3, 40, "images", lambda: pace.left, "ig")   # 3/40 images, 2 min 05 s left, ig
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, ProgressColumn
from rich.table import Column
from rich.text import Text

from uproar.cli.console import errors
from uproar.cli.terminal_tables import without_controls
from uproar.remaining_time import Pace, duration

if TYPE_CHECKING:
    from uproar.study.progress import Listener
    from uproar.study.progress import Progress as State
    from uproar.study.subjects import Listener as MapListener
    from uproar.study.subjects import Piece

FIRST, EVERY = 2.0, 10.0
"""Seconds until the first line where there is no terminal, and between lines."""


class Watch:
    """What a command is doing, how much of it is done, and how long the rest will take."""

    def __init__(self, doing: str) -> None:
        self.say(doing)

    def say(self, doing: str) -> None:
        """Something begins of which nothing can be counted."""
        self.doing, self.counted, self.share = doing, "", 0.0
        self.left: Callable[[], float | None] = lambda: None
        self.since = time.monotonic()

    def note(self, doing: str) -> None:
        """As `say`; where lines are not drawn again, there is one at once."""
        self.say(doing)
        if not redrawn():
            tell(self)

    def count(
        self, done: float, total: float, unit: str, left: Callable[[], float | None] = lambda: None, doing: str = ""
    ) -> None:
        """So much of something is done; `left` is asked whenever it is shown."""
        self.doing, self.left = doing, left
        self.counted = f"{done:,.0f}/{total:,.0f} {unit}" if total else f"{done:,.0f} {unit}"
        self.share = done / total if total else 0.0

    def counting(self, unit: str, doing: str = "", size: float = 1) -> Callable[[int, int], None]:
        """A listener for `(done, total)` of a loop whose rounds take alike; `size` of them are one unit."""
        self.say(doing)
        pace, before, began = Pace(), -1, time.perf_counter()

        def listen(done: int, total: int) -> None:
            nonlocal before, began
            if before < 0:  # what is there at the first call was not done now
                pace.expect([("", total - done)])
            else:
                pace.spent("", done - before, time.perf_counter() - began)
            before, began = done, time.perf_counter()
            self.count(done / size, total / size, unit, lambda: pace.left, doing)

        return listen

    def explaining(self, pieces: Sequence[Piece], images: int) -> MapListener:
        """A listener for pieces of maps, which come in this order: images that have all of them."""
        self.say("explaining")
        pace, following = Pace(), iter([*pieces[1:], None])
        pace.expect((piece.group, piece.work) for piece in pieces if piece.passes)

        def listen(piece: Piece, seconds: float, done: int) -> None:
            if piece.passes and not piece.there:
                pace.spent(piece.group, piece.work, seconds)
            now = next(following)
            names = "" if now is None else f" by {', '.join(chain.name for chain in now.group)}"
            self.count(done, images, "images", lambda: pace.left, f"explaining{names}")

        return listen

    @property
    def time(self) -> str:
        """The time left, or how long it has taken where nobody knows."""
        left = self.left()
        if left is not None:
            return f"{duration(left)} left"
        spent = time.monotonic() - self.since
        return f"{duration(spent)} so far" if spent >= FIRST else ""


class _Facts(ProgressColumn):
    """One fact of a watch, asked whenever it is drawn."""

    def __init__(self, watch: Watch, name: str, style: str, column: Column) -> None:
        super().__init__(column)
        self.watch, self.name, self.style = watch, name, style

    def render(self, task: Any) -> Text:
        task.completed, task.total = self.watch.share, 1.0 if self.watch.counted else None  # a bar, or a pulse
        return Text(without_controls(str(getattr(self.watch, self.name))), self.style)


def redrawn() -> bool:
    """Whether standard error is a terminal whose lines can be drawn again; FORCE_COLOR makes no terminal of a pipe."""
    return errors.on_terminal and not errors.is_dumb_terminal


@contextmanager
def watched(doing: str) -> Iterator[Watch]:
    """Show what is going on until the end of the block."""
    watch = Watch(doing)
    if redrawn():
        columns = [
            _Facts(watch, "counted", "", Column(no_wrap=True)),
            _Facts(watch, "time", "cyan", Column(no_wrap=True)),
            _Facts(watch, "doing", "dim", Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        ]
        bar = BarColumn(16, complete_style="green", finished_style="green")
        with Progress(bar, *columns, console=errors, transient=True, refresh_per_second=5, expand=True) as progress:
            progress.add_task("", total=None)
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
        now = time.monotonic()
        due = FIRST if watch.since != shown else EVERY
        if now - max(last, watch.since) >= due or now - last >= EVERY:
            shown, last = watch.since, now
            tell(watch)


def tell(watch: Watch) -> None:
    """A stage as a line of its own."""
    line = ", ".join(part for part in (watch.counted, watch.time, watch.doing) if part)
    errors.print(line, soft_wrap=True, markup=False, highlight=False)


def of_study(watch: Watch) -> Listener:
    """A listener that shows how far a run is, and where there is no terminal says it once more at the end."""

    def listen(state: State) -> None:
        part = f"{state.study}: " if ": " in state.study else ""
        doing = "; ".join(machine_lines(state) or map(str, state.running))
        ended = state.done == state.total
        watch.count(state.done, state.total, "cells", lambda: None if ended else state.left, part + doing)
        if ended and not redrawn():
            watch.counted += f" ({state.cached} were there already)" if state.cached else ""
            watch.doing, watch.since = part.rstrip(": "), time.monotonic()
            tell(watch)
        if ended:
            watch.say("collecting the results")

    return listen


def machine_lines(state: State) -> list[str]:
    """What each machine of a cluster has done and is doing."""
    return [
        f"{name}: {node.done} done, {'; '.join(node.doing) or 'nothing under way'}"
        for name, node in sorted(state.machines.items())
    ]
