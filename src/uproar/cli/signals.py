"""Signals that ask the program to end: it stops its workers, says a sentence and exits with the usual code."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
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
