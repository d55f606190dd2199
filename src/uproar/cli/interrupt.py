"""Ctrl-C and signals: what was kept and how to go on, in one sentence; a second Ctrl-C ends the program at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from uproar.cli.signals import Terminated

INTERRUPTED = 130
"""The exit code of Ctrl-C."""
NOTHING = "Nothing was kept."
AGAIN = "the same command goes on from there."
"""How a sentence on what was kept ends where the work can be resumed."""


_said: list[str] = []
"""What the last interruption leaves. The library that reads the command line turns Ctrl-C into an exit code."""


@contextmanager
def kept(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Whoever stops what happens here is told what it leaves; the innermost of several is."""
    try:
        yield
    except (KeyboardInterrupt, Terminated):
        if not _said:
            _said.append(sentence if isinstance(sentence, str) else sentence())
        raise


def what_is_kept() -> str:
    """What an interruption leaves, as `kept` said."""
    return _said.pop() if _said else NOTHING


@contextmanager
def ending_at_second() -> Iterator[None]:
    """Meanwhile the first Ctrl-C stops in order, and the next one ends the process wherever it is, also afterwards."""
    own = threading.current_thread() is threading.main_thread()
    if not own or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _first)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _first:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _first(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt
