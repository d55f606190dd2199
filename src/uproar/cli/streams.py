"""The standard output that is closed or full: `uproar ls | head -1`, `uproar ls > /dev/full`."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

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
