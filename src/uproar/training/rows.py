"""Images that are read some rows at a time, because all of them need not fit in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, runtime_checkable

from torch import Tensor

AHEAD = 2
"""Batches that are read while one is in use."""


@runtime_checkable
class Rows(Protocol):
    """Anything that knows how many images it has and reads some of them, in [0, 1], given a slice or a tensor of rows.

    A tensor is one; so is a data set on disk. It must be safe to read from another thread.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor | slice, /) -> Tensor: ...


def ahead(source: Rows, parts: Iterable[Tensor | slice]) -> Iterator[Tensor]:
    """The parts of a source one after the other; the next are read by a thread while one is in use."""
    todo = iter(parts)
    waiting: deque[Future[Tensor]] = deque()
    pool = ThreadPoolExecutor(1, "uproar-read")
    try:
        for part in todo:
            waiting.append(pool.submit(source.__getitem__, part))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
