"""Ghost batch norm (Hoffer et al. 2017): statistics over parts of a batch, so that it trains like small ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def ghosts(model: nn.Module, size: int | None) -> Iterator[None]:
    """Inside, each batch norm that trains sees parts of at least `size` images one after the other.

    A batch is cut into equal parts where it can be, so that none is too small to have a variance. The running
    statistics follow every part.
    """
    norms: list[Any] = [part for part in model.modules() if isinstance(part, _BatchNorm)]
    if size is None:
        norms = []
    for norm in norms:
        norm.forward = _Parts(norm, size or 1)
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


class _Parts:
    """A batch norm's forward pass, part by part."""

    def __init__(self, norm: nn.Module, size: int) -> None:
        self.norm, self.size = norm, size

    def __call__(self, x: Tensor) -> Tensor:
        forward = type(self.norm).forward
        if not self.norm.training or len(x) < 2 * self.size:
            return forward(self.norm, x)
        parts = x.tensor_split(len(x) // self.size)
        return torch.cat([forward(self.norm, part) for part in parts])
