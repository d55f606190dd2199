"""How many images go through a model at once: as many as speed it up and memory holds, fewer when memory runs out.

No result depends on the number, so it may be chosen by looking at the machine, and changed on the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from uproar.models.forward import borrowed, device_of, forward

Result = TypeVar("Result")

ON_CPU, ON_DEVICE = 128, 512
"""Rows beyond which more are no faster."""
SHARE = 0.25
"""Of the free memory that the outputs of all layers together may take; copies and gradients need the rest."""
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)

_limit: ContextVar[int | None] = ContextVar("rows at most", default=None)


class MemoryBudget:
    """Rows per pass of one model on one kind of images; halved each time memory runs out.

    `short` says that memory, not time, decides how many.
    """

    def __init__(self, rows: int, short: bool = False) -> None:
        self.rows, self.short = max(rows, 1), short

    @classmethod
    def of(cls, model: nn.Module, x: Tensor) -> MemoryBudget:
        """The budget for images like these, from one pass of two of them and the memory that is free now."""
        device = device_of(model)
        most = ON_CPU if device.type == "cpu" else ON_DEVICE
        free = free_bytes(device)
        fits = most if free is None else int(SHARE * free) // max(bytes_per_image(model, x), 1)
        return cls(min(most, fits), short=fits < most)

    def run(self, work: Callable[[int], Result]) -> Result:
        """`work(rows)`, again with half the rows as often as memory runs out."""
        while True:
            token = _limit.set(self.rows if self.short else None)
            try:
                return work(self.rows)
            except OUT_OF_MEMORY:
                if self.rows == 1:
                    raise
                self.rows, self.short = self.rows // 2, True
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
            finally:
                _limit.reset(token)

    def over(self, n: int, most: int, work: Callable[[slice, int], Result]) -> Iterator[Result]:
        """`work(span, rows)` over 0..n-1 in spans of at most `most` and `rows`; one that fails is done in halves."""
        start = 0
        while start < n:

            def part(rows: int, start: int = start) -> tuple[int, Result]:
                span = slice(start, min(start + min(most, rows), n))
                return span.stop, work(span, rows)

            start, result = self.run(part)
            yield result


def rows_within_budget(rows: int) -> int:
    """`rows`, or fewer where memory is short: for those that choose their rows deep inside a `MemoryBudget`."""
    limit = _limit.get()
    return rows if limit is None else min(rows, limit)


def bytes_per_image(model: nn.Module, x: Tensor) -> int:
    """What one image takes on its way through the model: the images and the outputs of all layers together."""
    pair = x[:2] if len(x) > 1 else torch.cat([x[:1], x[:1]])
    total = pair.numel() * pair.element_size()

    def add(_: nn.Module, __: Any, output: Any) -> None:
        nonlocal total
        if isinstance(output, Tensor):
            total += output.numel() * output.element_size()

    leaves = [
        part for part in model.modules() if not list(part.children()) and not isinstance(part, torch.jit.ScriptModule)
    ]  # a scripted module has no hooks: only its images are counted
    with borrowed(model), torch.inference_mode():
        for part in leaves:
            part.register_forward_hook(add)
        forward(model, pair.to(device_of(model)))
    return total // 2


def free_bytes(device: torch.device) -> int | None:
    """Memory that can be taken on a device now; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    sizes = [size for size in (_available(), _left_in_group()) if size is not None]
    return min(sizes) if sizes and device.type == "cpu" else None


def _available() -> int | None:
    """What Linux says is available."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    return None


def _left_in_group(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the limit of a container leaves."""
    with contextlib.suppress(OSError, ValueError):
        most = int((folder / "memory.max").read_text())
        return max(most - int((folder / "memory.current").read_text()), 0)
    return None
