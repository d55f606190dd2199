"""How far a run is: for whoever watches it, here or from another terminal."""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from uproar.paths import write_file
from uproar.study.graph import Failed, Job, Outcome, Skipped
from uproar.wording import Pace, duration

FILE = "progress.json"
EVERY = 2.0
"""Seconds between two writings of the file."""


@dataclass
class NodeProgress:
    """A node of a cluster: jobs it has done, and those under way."""

    done: int = 0
    doing: list[str] = field(default_factory=list)


@dataclass
class Progress:
    """How far a run is; `listen` is called whenever something ends."""

    total: int = 0
    cached: int = 0
    done: int = 0
    pace: Pace = field(default_factory=Pace)
    """How fast jobs are done, and what is left of them; of all that a command runs, one study after the other."""
    running: list[Job] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By key, results that are not in the store, and why."""
    study: str = ""
    """Which of several studies it is."""
    promised: set[tuple[str, str]] = field(default_factory=set)
    """Results, by folder and key, that the store has when the run has ended, unless an outcome says otherwise."""
    machines: dict[str, NodeProgress] = field(default_factory=dict)
    """What each machine of a cluster has done and is doing; empty where there is only this one."""

    @property
    def left(self) -> float | None:
        """Seconds still to go at the pace so far; None until enough has ended to know the pace."""
        return self.pace.left

    def where(self, running: Mapping[Job, str], done: str = "") -> None:
        """Note the jobs under way, each with its machine, and which machine has done a job."""
        self.running = list(running)
        for name in {*running.values(), done} - {""}:
            self.machines.setdefault(name, NodeProgress()).done += name == done
        for name, machine in self.machines.items():
            machine.doing = [str(job) for job, host in running.items() if host == name]


Listener = Callable[[Progress], None]
Count = Annotated[int, Field(ge=0, le=10**9)]


def notebook_listener() -> Listener:
    """A listener that shows how far a run is below the cell of a notebook, and nothing anywhere else."""
    line = NotebookLine()

    def listen(progress: Progress) -> None:
        ended = progress.done == progress.total
        rest = "" if ended or progress.left is None else f", {duration(progress.left)} left"
        doing = "; ".join(map(str, progress.running))
        share = progress.done / progress.total if progress.total else None
        text = f"{progress.done}/{progress.total} results{rest}{doing and ', ' + doing}"
        line.say(text, share, last=ended)

    return listen


def kept_in(folder: Path, listen: Listener, begin: Callable[[], None]) -> Listener:
    """A listener that also leaves the progress in a folder, for whoever watches from another terminal.

    `begin` is called once, when the run has begun: a run that was refused leaves nothing behind.
    """
    last, begun = -EVERY, False
    problems: dict[str, Outcome] = {}  # of all studies that were run one after the other

    def both(progress: Progress) -> None:
        nonlocal last, begun
        listen(progress)
        if not begun:
            begin()
            begun = True
        nothing_new = progress.outcomes.keys() <= problems.keys() and progress.done < progress.total
        problems.update(progress.outcomes)
        if time.monotonic() - last >= EVERY or not nothing_new:
            last = time.monotonic()
            with contextlib.suppress(OSError):  # not worth stopping a run
                write_file(folder / FILE, _content(progress, problems))

    return both


class StoredProgress(BaseModel):
    """What the file has that matters to others; one that is not of this form was not written by a run."""

    total: Count
    cached: Count
    done: Count
    left: float | None
    notices: list[str]
    machines: dict[str, NodeProgress]
    skipped: dict[str, str]
    """Results that do not apply, by key, and why."""
    failed: dict[str, str]


def read_progress(folder: Path) -> Progress | None:
    """The progress that a run left in its folder, as far as it matters to others; None if there is none."""
    try:
        left = StoredProgress.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    skipped = {key: Skipped(reason) for key, reason in left.skipped.items()}
    failed = {key: Failed(reason) for key, reason in left.failed.items()}
    outcomes: dict[str, Outcome] = {**skipped, **failed}
    return Progress(left.total, left.cached, left.done, notices=left.notices, machines=left.machines, outcomes=outcomes)


def _content(progress: Progress, problems: Mapping[str, Outcome]) -> bytes:
    stored = StoredProgress(
        total=progress.total,
        cached=progress.cached,
        done=progress.done,
        left=progress.left,
        notices=progress.notices,
        machines=progress.machines,
        skipped={key: outcome.reason for key, outcome in problems.items() if isinstance(outcome, Skipped)},
        failed={key: outcome.reason for key, outcome in problems.items() if isinstance(outcome, Failed)},
    )
    return stored.model_dump_json().encode()


# below the cell of a notebook, which has loaded IPython already; nothing anywhere else

REDRAWN = 0.2
"""Seconds between two drawings of the line."""


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """One line below the cell, drawn again whenever there is something new; without a notebook it does nothing."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._last = -REDRAWN

    def say(self, text: str, share: float | None = None, last: bool = False) -> None:
        """Show a text, with a bar where a share is known; the `last` one is shown however soon it comes."""
        now = time.monotonic()
        if not in_notebook() or (now - self._last < REDRAWN and not last):
            return
        self._last = now
        display = sys.modules["IPython"].display
        content = display.HTML(line_html(text, share))
        if self._shown is None:
            self._shown = display.display(content, display_id=True)
        else:
            self._shown.update(content)


def line_html(text: str, share: float | None) -> str:
    """A line of progress as HTML.

    >>> line_html("3/4 cells", 0.75)
    '<progress max="1" value="0.750"></progress> 3/4 cells'
    >>> line_html("trying <grad>", None)
    'trying &lt;grad&gt;'
    """
    bar = "" if share is None else f'<progress max="1" value="{share:.3f}"></progress> '
    return bar + html.escape(text)
