"""How far something is, below the cell of a notebook; nothing anywhere else.

    line = NotebookLine()
    line.say("3/40 cells, 2 min 05 s left", share=3 / 40)

Nothing is imported for it: a notebook has loaded IPython already.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any

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
