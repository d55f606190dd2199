"""Commands in a pseudo-terminal, through pipes or with TERM=dumb: as a person, a script and an editor see them.

A server process imports the program once and forks for every command, so that a command costs what it does and not
three seconds of imports. The child has file descriptors, window, environment and session of its own.
"""

from __future__ import annotations

import array
import codecs
import contextlib
import fcntl
import json
import os
import pty
import re
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[=>]")
"""Escape sequences of terminals."""


@dataclass
class Shown:
    """What a command left on the screen or in the pipes, and how it ended."""

    code: int
    text: str
    """Everything in order for a terminal; standard output for pipes."""
    errors: str = ""
    """Standard error, for pipes."""
    times: list[tuple[float, str]] = field(default_factory=list)
    """Pieces of the text with the seconds at which they came."""

    @property
    def plain(self) -> str:
        """The text without escape sequences, bars that were redrawn each on a line of their own."""
        return CONTROL.sub("", self.text).replace("\r\n", "\n").replace("\r", "\n")


class Commands:
    """A server that runs commands of the program, one at a time."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self.socket = here
        command = [sys.executable, __file__, str(there.fileno())]
        # one thread: what is forked has none of the threads that its parent has begun, and would wait for them
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, pass_fds=[there.fileno()], env=one_thread)
        there.close()

    def close(self) -> None:
        self.socket.close()
        self.process.wait(timeout=60)

    def terminal(
        self,
        arguments: Sequence[str],
        folder: Path,
        columns: int = 80,
        term: str = "xterm-256color",
        keys: Sequence[tuple[str, str]] = (),
        timeout: float = 240,
        variables: dict[str, str] | None = None,
    ) -> Shown:
        """A command on a terminal; when text that matches a pattern of `keys` was shown, its keys are typed."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        pid = self._start(arguments, folder, {"TERM": term, **(variables or {})}, [theirs, theirs, theirs])
        os.close(theirs)
        shown = Shown(-1, "")
        typed = list(keys)
        began = time.monotonic()
        try:
            for piece in _pieces([ours], pid, timeout):
                shown.text += piece[1]
                shown.times.append((time.monotonic() - began, piece[1]))
                while typed and re.search(typed[0][0], shown.plain):
                    os.write(ours, typed.pop(0)[1].encode())
        finally:
            os.close(ours)
        shown.code = self._code()
        return shown

    def piped(
        self,
        arguments: Sequence[str],
        folder: Path,
        term: str = "xterm-256color",
        interrupt: str = "",
        timeout: float = 240,
        variables: dict[str, str] | None = None,
        script: str = "",
    ) -> Shown:
        """A command whose output and errors go into pipes; `interrupt` is a pattern in the errors to stop it at.

        With the path of a `script`, that is run in the place of the program.
        """
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        pid = self._start(arguments, folder, {"TERM": term, **(variables or {})}, [nothing, out_end, err_end], script)
        for handle in (nothing, out_end, err_end):
            os.close(handle)
        shown = Shown(-1, "")
        for handle, piece in _pieces([out, err], pid, timeout):
            if handle == out:
                shown.text += piece
            else:
                shown.errors += piece
            if interrupt and re.search(interrupt, shown.errors):
                os.kill(pid, signal.SIGINT)
                interrupt = ""
        os.close(out)
        os.close(err)
        shown.code = self._code()
        return shown

    def _start(
        self, arguments: Sequence[str], folder: Path, environment: dict, handles: list[int], script: str = ""
    ) -> int:
        asked = {"arguments": list(arguments), "folder": str(folder), "environment": environment, "script": script}
        content = json.dumps(asked).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))]
        self.socket.sendmsg([struct.pack("I", len(content)) + content], rights)
        return struct.unpack("i", self.socket.recv(4))[0]

    def _code(self) -> int:
        return struct.unpack("i", self.socket.recv(4))[0]


def _pieces(handles: list[int], pid: int, timeout: float) -> Iterator[tuple[int, str]]:
    """What comes out of some handles until all are closed; a command that takes too long is ended."""
    waiting, deadline = list(handles), time.monotonic() + timeout
    readers = {each: codecs.getincrementaldecoder("utf-8")("replace") for each in handles}
    while waiting:
        ready, _, _ = select.select(waiting, [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            raise TimeoutError(f"the command did not end within {timeout:.0f} seconds")
        for handle in ready:
            try:
                content = os.read(handle, 1 << 16)
            except OSError:  # a terminal whose other side is closed
                content = b""
            if content:
                yield handle, readers[handle].decode(content)
            else:
                waiting.remove(handle)


def _load_everything() -> None:
    """Import what commands import when they need it, so that no command has to."""
    import numba  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch._dynamo  # noqa: F401  # counting operations does

    import uproar.report.page
    import uproar.study.collected  # noqa: F401
    from uproar.cli.listings import listings_text

    listings_text()  # loads every estimator, metric, audit, claim, …


def _serve(handle: int) -> None:
    _load_everything()
    place = socket.socket(fileno=handle)
    while True:
        content, handles, _, _ = socket.recv_fds(place, 1 << 16, 3)
        if not content:
            return
        size = struct.unpack("I", content[:4])[0]
        content = content[4:]
        while len(content) < size:
            content += place.recv(size - len(content))
        pid = os.fork()
        if pid == 0:
            place.close()
            _become(json.loads(content), handles)
        for each in set(handles):
            os.close(each)
        place.sendall(struct.pack("i", pid))
        place.sendall(struct.pack("i", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


def _become(asked: dict, handles: list[int]) -> None:
    """Run one command as a process of its own would."""
    os.setsid()
    if os.isatty(handles[0]):
        fcntl.ioctl(handles[0], termios.TIOCSCTTY, 0)
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
    for handle in set(handles) - {0, 1, 2}:
        os.close(handle)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):  # of whoever runs the tests
        os.environ.pop(name, None)
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["uproar", *asked["arguments"]]
    code = 70
    try:
        from uproar.cli import screen
        from uproar.cli.app import main

        screen.output.__init__()  # type: ignore[misc]  # looks at the terminal it has now
        screen.errors.__init__(stderr=True)  # type: ignore[misc]
        if asked["script"]:
            sys.path[0] = str(Path(asked["script"]).parent)
            runpy.run_path(asked["script"], run_name="__main__")
            code = 0
        else:
            main(asked["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        code = 1
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
