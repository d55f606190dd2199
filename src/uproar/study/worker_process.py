"""A worker process: takes jobs from a pipe, ends with its parent. Run by path by `executors.Processes`, not by people.

The process is bound to its parent before anything else is loaded: torch alone takes seconds to import, and a worker
whose parent dies meanwhile must not be left behind. On Linux the kernel ends it, whatever it is doing; everywhere a
thread checks for the parent, which is enough as long as the work releases the interpreter's lock, as torch does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

EVERY = 0.25
"""Seconds between two checks for the parent."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2), from <linux/prctl.h>."""


def end_with(parent: int) -> None:
    """End this process when the process `parent`, which started it, is gone."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a C library without prctl: the thread remains
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)
    threading.Thread(target=watch, args=(parent,), name="parent", daemon=True).start()


def watch(parent: int) -> None:
    """Wait until the parent is gone, then end at once: nobody is left to receive the job's report."""
    while os.getppid() == parent:
        time.sleep(EVERY)
    os._exit(1)


def main(parent: str, handle: str) -> None:
    """Bind this process to its parent, then serve jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # it was blocked until here
    end_with(int(parent))
    if not sys.flags.safe_path:
        sys.path[0] = ""  # where the command runs, as for its parent, instead of the folder of this file
    serve(int(handle))


def serve(handle: int) -> None:
    """Do jobs until the parent closes the pipe or is gone; first it sends where the store and the plug-ins are."""
    import torch

    from uproar.errors import UproarError
    from uproar.extend import load_plugins_later
    from uproar.plugins import installed
    from uproar.study.graph import run_job

    torch.set_num_threads(1)
    connection: Connection = Connection(handle)
    first = _received(connection)
    if first is None:
        return
    root, plugins, places = first
    installed.update(places)
    load_now = load_plugins_later(plugins)
    while (job := _received(connection)) is not None:
        try:
            if job.plugins:
                load_now()
            answer: object = run_job(job, root)
        except UproarError as error:
            answer = error
        with contextlib.suppress(OSError):  # the parent is gone, which the next turn finds out
            connection.send(answer)


def _received(connection: Connection) -> Any:
    """What the parent sends next; None when it has closed the pipe or is gone."""
    try:
        return connection.recv()
    except (EOFError, OSError):
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
