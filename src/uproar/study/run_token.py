"""A small file in the store by which the nodes of a cluster find out that they see the same store.

It is there while a run is. A run that was killed cannot take its own away, so every run takes away those whose run is
known to be over.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid

from uproar.storage.backends import backend_at

FOLDER = "runs"
LONGEST = 30 * 24 * 3600.0
"""Seconds after which a run of another machine is taken to be over."""


class Token:
    """The token of one run."""

    def __init__(self, root: str) -> None:
        self.backend = backend_at(root)
        self.name = f"{FOLDER}/{uuid.uuid4().hex}"

    def write(self) -> None:
        """Say that the run is there; forget those that are over."""
        for name in self.backend.names(FOLDER):
            if self._over(name):
                self._forget(name)
        said = {"host": socket.gethostname(), "pid": os.getpid(), "begun": time.time()}
        self.backend.write(self.name, json.dumps(said).encode())

    def remove(self) -> None:
        """The run is over."""
        self._forget(self.name)

    def _forget(self, name: str) -> None:
        with contextlib.suppress(Exception):  # not worth a sentence: the next run tries again
            self.backend.remove(name)

    def _over(self, name: str) -> bool:
        """Whether the run of a token has ended, as far as this machine can know."""
        try:
            said = json.loads(self.backend.start(name, 1000))
            host, pid, begun = str(said["host"]), int(said["pid"]), float(said["begun"])
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError, OSError):
            return True  # no token of a run of this version
        if time.time() - begun > LONGEST:
            return True
        return host == socket.gethostname() and not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
