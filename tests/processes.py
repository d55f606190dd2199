"""Processes as tests look at them: who a process started, and whether they are gone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended and waits to be asked about does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def children(pid: int) -> list[int]:
    """The processes that a process started and that still run."""
    result = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid and alive(int(entry.name)):
                result.append(int(entry.name))
    return result


def left_after(pids: Iterable[int], seconds: float) -> list[int]:
    """The processes that still run after so long; sooner if all have ended."""
    left, deadline = list(pids), time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [pid for pid in left if alive(pid)]
    return left
