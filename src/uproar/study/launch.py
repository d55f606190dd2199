"""Starts a worker process that ends with its parent. Run by path by `execute.Processes`, not by people.

The process is bound to its parent before anything else is loaded: torch alone takes seconds to import, and a worker
whose parent dies meanwhile must not be left behind. On Linux the kernel ends it, whatever it is doing; everywhere a
thread looks for the parent, which is enough as long as the work releases the interpreter's lock, as torch does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

EVERY = 0.25
"""Seconds between two looks for the parent."""
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
    """Look for the parent until it is gone, then end at once: nobody is left to hear of the job."""
    while os.getppid() == parent:
        time.sleep(EVERY)
    os._exit(1)


def main(parent: str, handle: str) -> None:
    """Bind this process to its parent, then serve jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    end_with(int(parent))
    if not sys.flags.safe_path:
        sys.path[0] = ""  # where the command runs, as for its parent, instead of the folder of this file
    from uproar.study.worker import serve

    serve(int(handle))


if __name__ == "__main__":
    main(*sys.argv[1:])
