"""How far something is, and how long the rest takes: seconds per unit of work so far, times the work that is left.

Work is counted in some unit, such as images passed through a network. What is of another kind, such as a training and a
map, takes another time per unit; what was never done goes as all that was done.

>>> pace = Pace()
>>> pace.expect([("explain", 100), ("train", 300)])
>>> pace.left is None
True
>>> pace.spent("explain", 50, seconds=10)
>>> pace.left
70.0
"""

from __future__ import annotations

import html
import sys
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any


class Pace:
    """Seconds per unit of work so far, and what is left of the work."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._left: dict[Hashable, float] = defaultdict(float)
        self._work: dict[Hashable, float] = defaultdict(float)
        self._seconds: dict[Hashable, float] = defaultdict(float)

    def expect(self, work: Iterable[tuple[Hashable, float]]) -> None:
        """What is to be done from now on, by kind."""
        self._left.clear()
        for kind, amount in work:
            self._left[kind] += amount

    def spent(self, kind: Hashable, work: float, seconds: float) -> None:
        """Work that was done, and the time of one worker that it took."""
        self._left[kind] = max(0.0, self._left[kind] - work)
        self._work[kind] += work
        self._seconds[kind] += seconds

    @property
    def left(self) -> float | None:
        """Seconds still to go; None until something has ended."""
        work, seconds = sum(self._work.values()), sum(self._seconds.values())
        if not work or not seconds:
            return None
        rest = 0.0
        for kind, amount in list(self._left.items()):  # others look at it from their own thread
            known = self._work.get(kind, 0.0) > 0
            rest += amount * (self._seconds[kind] / self._work[kind] if known else seconds / work)
        return rest / self.workers


# below the cell of a notebook, which has loaded IPython already; nothing anywhere else

EVERY = 0.2
"""Seconds between two drawings of the line."""


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """One line below the cell, drawn again whenever there is something new; without a notebook it does nothing."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._last = -EVERY

    def say(self, text: str, share: float | None = None, last: bool = False) -> None:
        """Show a text, with a bar where a share is known; the `last` one is shown however soon it comes."""
        now = time.monotonic()
        if not in_notebook() or (now - self._last < EVERY and not last):
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
