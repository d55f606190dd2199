"""What a command is doing and how long it will still take: a bar on a terminal, a line now and then elsewhere (pipes,
TERM=dumb). All commands show it the same way, on standard error.

    with watched("reading digits") as watch:
        watch.say("training the base model")                    # nothing to count
        watch.count(3, 40, "images", lambda: pace.left, "ig")   # 3/40 images, 2 min 05 s left, ig
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from uproar.cli.screen import errors, without_controls
from uproar.wording import duration

if TYPE_CHECKING:
    from uproar.estimators import Chain
    from uproar.study.progress import Progress as State
    from uproar.study.subjects import Listener as MapListener

FIRST, EVERY = 2.0, 10.0
"""Seconds until the first line where there is no terminal, and between lines."""


def without_options(text: str) -> str:
    """A text with the short names of what it speaks of.

    >>> without_options("scoring by road(by=probability, fractions=[0.1, 0.45]), sg(grad, samples=3)")
    'scoring by road, sg(grad)'
    """
    text = re.sub(r"(, *)?\b\w+=(\[[^\]]*\]|[^,()\[\]]*(\([^)]*\))?)", "", text)
    return text.replace("(, ", "(").replace("()", "")


class Watch:
    """What a command is doing, how much of it is done, and how long the rest will take."""

    def __init__(self, doing: str) -> None:
        self.ended: set[str] = set()  # studies whose end was told
        self.say(doing)

    def say(self, doing: str, left: float = math.nan) -> None:
        """Something begins of which nothing can be counted; all takes `left` seconds at most, if anyone knows."""
        self.doing, self.counted, self.share = doing, "", 0.0
        self.since = time.monotonic()
        end = self.since + left
        self.left: Callable[[], float | None] = lambda: max(end - time.monotonic(), 0) if math.isfinite(end) else None

    def note(self, doing: str) -> None:
        """As `say`; where lines are not drawn again, there is one at once."""
        self.say(doing)
        if not redrawn():
            self.print()

    def count(
        self, done: float, total: float, unit: str, left: Callable[[], float | None] = lambda: None, doing: str = ""
    ) -> None:
        """So much of something is done; `left` is asked whenever it is shown."""
        self.doing, self.left = doing, left
        self.counted = f"{done:,.0f}/{total:,.0f} {unit}" if total else f"{done:,.0f} {unit}"
        self.share = done / total if total else 0.0

    def counting(self, unit: str, doing: str = "", size: float = 1) -> Callable[[float, float], None]:
        """A listener for `(done, total)` of a loop whose rounds take alike; `size` of them are one unit."""
        self.say(doing)
        first, began = -1.0, 0.0

        def listen(done: float, total: float) -> None:
            nonlocal first, began
            if first < 0:  # what is there at the first call was not done now
                first, began = done, time.perf_counter()
            rounds = done - first
            left = (time.perf_counter() - began) / rounds * (total - done) if rounds else None
            self.count(done / size, total / size, unit, lambda: left, doing)

        return listen

    def explaining(self, images: int) -> MapListener:
        """A listener for maps of images: how many have been explained, and by which methods the next ones are."""
        count = self.counting("images", "explaining")

        def listen(done: float, chains: Sequence[Chain]) -> None:
            count(done, images)
            self.doing = f"explaining by {', '.join(chain.name for chain in chains)}"

        return listen

    def of_study(self, state: State) -> None:
        """Show how far a run is, and where there is no terminal say it once more at the end."""
        study = f"{state.study}: " if ": " in state.study else ""
        ended = state.done == state.total
        left = (lambda: None) if ended else (lambda: state.left)
        self.count(
            state.done, state.total, "results", left, study + "; ".join(machine_lines(state) or map(str, state.running))
        )
        if ended and not redrawn() and state.study not in self.ended:
            self.ended.add(state.study)
            self.counted += f" ({state.cached} were there already)" if state.cached else ""
            self.doing, self.since = study.rstrip(": "), time.monotonic()
            self.print()
        if ended:
            self.say("collecting the results")

    @property
    def facts(self) -> tuple[str, str, str]:
        """How much is done; the time left, or how long it has taken where nobody knows; what is being done."""
        left, spent = self.left(), time.monotonic() - self.since
        so_far = f"{duration(spent)} so far" if spent >= FIRST else ""
        doing = without_controls(without_options(self.doing))
        return self.counted, so_far if left is None else f"{duration(left)} left", doing

    def print(self) -> None:
        """As a line of its own."""
        errors.print(", ".join(filter(None, self.facts)), soft_wrap=True, markup=False, highlight=False)

    def print_now_and_then(self, ended: threading.Event) -> None:
        """A line for every stage that lasts, and then every now and then."""
        stage, last = 0.0, time.monotonic()
        while not ended.wait(0.25):
            now = time.monotonic()
            due = FIRST if self.since != stage else EVERY
            if now - max(last, self.since) >= due or now - last >= EVERY:
                stage, last = self.since, now
                self.print()

    def __rich__(self) -> Table:
        counted, left, doing = self.facts
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column()
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, style="cyan")
        line.add_column(no_wrap=True, style="dim", overflow="ellipsis", ratio=1)
        pulse = not counted
        bar = ProgressBar(1.0, self.share, 16, pulse, complete_style="green", finished_style="green")
        line.add_row(bar, Text(counted), Text(left), Text(doing))
        return line


def redrawn() -> bool:
    """Whether standard error is a terminal whose lines can be drawn again; FORCE_COLOR makes no terminal of a pipe."""
    return errors.on_terminal and not errors.is_dumb_terminal


@contextmanager
def watched(doing: str) -> Iterator[Watch]:
    """Show what is going on until the end of the block."""
    watch = Watch(doing)
    if redrawn():
        with Live(watch, console=errors, transient=True, refresh_per_second=5):
            yield watch
        return
    ended = threading.Event()
    printer = threading.Thread(target=watch.print_now_and_then, args=(ended,), daemon=True)
    printer.start()
    try:
        yield watch
    finally:
        ended.set()
        printer.join(timeout=EVERY)


def machine_lines(state: State) -> list[str]:
    """What each machine of a cluster has done and is doing."""
    return [
        f"{name}: {node.done} done, {'; '.join(node.doing) or 'nothing under way'}"
        for name, node in sorted(state.machines.items())
    ]
