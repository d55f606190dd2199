"""What ends a command early: Ctrl-C, signals, a closed or full standard output. Each is a sentence and an exit code.

A second Ctrl-C ends the program at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""SIGINT is Python's own: it arrives as KeyboardInterrupt."""


class Terminated(BaseException):
    """A signal asked the program to end. Like KeyboardInterrupt it is no Exception: nothing may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell reports of a program that the signal ended."""
        return 128 + self.number

    def __str__(self) -> str:
        return f"Ended by {signal.Signals(self.number).name}."


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Meanwhile a signal that asks for the end raises `Terminated` instead of ending the process on the spot.

    A signal that is ignored, as `nohup` has it, stays ignored. Only the main thread may ask for signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    taken = [number for number, handler in before.items() if handler == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


def _end(number: int, _: FrameType | None) -> NoReturn:
    for other in ENDING:  # one is enough: a second one must not break off the cleaning up
        signal.signal(other, signal.SIG_IGN)
    raise Terminated(number)


INTERRUPTED = 130
"""The exit code of Ctrl-C."""
NOTHING = "Nothing was kept."
AGAIN = "the same command goes on from there."
"""How a sentence on what was kept ends where the work can be resumed."""


_said: list[str] = []
"""What the last interruption leaves. The library that reads the command line turns Ctrl-C into an exit code."""


@contextlib.contextmanager
def keeping(sentence: str | Callable[[], str]) -> Iterator[None]:
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


@contextlib.contextmanager
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


BROKEN_PIPE = 141
"""The exit code of a program that a closed pipe ended (128 + SIGPIPE)."""
UNWRITABLE = 3


def lost_output(error: BaseException) -> bool:
    """Whether an error says that the standard output takes no more, rather than that a file cannot be used."""
    if isinstance(error, SystemExit):  # what rich makes of a closed pipe
        return isinstance(error.__context__, BrokenPipeError)
    codes = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF)
    return isinstance(error, OSError) and error.filename is None and error.errno in codes


def end_output(error: BaseException) -> int:
    """Let go of the standard output, and say why unless whoever read it just had enough; the exit code."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is flushed into it at the end
    if not isinstance(error, OSError) or error.errno == errno.EPIPE:
        return BROKEN_PIPE
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"Error: Cannot write to the standard output: {error.strerror}.", file=sys.stderr)
    return UNWRITABLE
