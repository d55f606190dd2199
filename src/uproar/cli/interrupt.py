"""What ends a command early: Ctrl-C, signals, a closed or full standard output. Each is a sentence and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130
"""The exit code of Ctrl-C."""
BROKEN_PIPE = 141
"""The exit code of a program that a closed pipe ended (128 + SIGPIPE)."""
UNWRITABLE = 3
NOTHING = "Nothing was kept."
AGAIN = "the same command goes on from there."
"""How a sentence on what was kept ends where the work can be resumed."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(BaseException):
    """A signal asked the program to end. Like KeyboardInterrupt it is no Exception: nothing may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Ended by {signal.Signals(number).name}.")
        self.exit_code = 128 + number


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    for other in ENDING:  # one is enough: a second one must not break off the cleaning up
        signal.signal(other, signal.SIG_IGN)
    raise Terminated(number)


@contextlib.contextmanager
def orderly_end() -> Iterator[None]:
    """Meanwhile the first Ctrl-C stops in order and the next one ends the process wherever it is; signals that ask
    for the end raise `Terminated`. Afterwards all are handled as before.

    A signal that is ignored, as `nohup` has it, stays ignored. Only the main thread may ask for signals.
    """
    handlers: dict[int, tuple[Any, Any]] = {number: (signal.SIG_DFL, _terminate) for number in ENDING}
    handlers[signal.SIGINT] = (signal.default_int_handler, _interrupt)
    if threading.current_thread() is not threading.main_thread():
        handlers = {}
    replaced = {number: pair for number, pair in handlers.items() if signal.getsignal(number) == pair[0]}
    for number, (_, ours) in replaced.items():
        signal.signal(number, ours)
    try:
        yield
    finally:
        for number, (before, _) in replaced.items():
            signal.signal(number, before)


_said: list[str] = []
"""What the last interruption leaves. The library that reads the command line turns Ctrl-C into an exit code."""


@contextlib.contextmanager
def keeping(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Whoever stops what happens here reads what it leaves; of several such blocks the innermost says it."""
    try:
        yield
    except (KeyboardInterrupt, Terminated):
        if not _said:
            _said.append(sentence if isinstance(sentence, str) else sentence())
        raise


def what_is_kept() -> str:
    """What an interruption leaves, as `keeping` said."""
    return _said.pop() if _said else NOTHING


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
