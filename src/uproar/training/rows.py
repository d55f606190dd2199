"""Images that are read some rows at a time, because all of them need not fit in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

AHEAD = 2
"""Batches that wait, read, beside those that are being read."""

MOST = 16
"""Threads that read for an accelerator, at most: with 500 changed photos per second each, it learns 2,500 and more."""


@runtime_checkable
class Rows(Protocol):
    """Anything that knows how many images it has and reads some of them, in [0, 1], given a slice or a tensor of rows.

    A tensor is one; so is a data set on disk. It must be safe to read from several threads at once.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor | slice, /) -> Tensor: ...


def reader_threads(device: torch.device) -> int:
    """How many threads read for a network there: on a CPU it needs the cores itself."""
    if device.type == "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(MOST, (cores or 1) - 1))


def prefetch(source: Rows, parts: Iterable[Tensor | slice], threads: int = 1) -> Iterator[Tensor]:
    """The parts of a source one after the other; the next are read by threads while one is in use."""
    waiting: deque[Future[Tensor]] = deque()
    pool = ThreadPoolExecutor(threads, "uproar-read")
    try:
        for part in parts:
            waiting.append(pool.submit(source.__getitem__, part))
            if len(waiting) >= threads + AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
