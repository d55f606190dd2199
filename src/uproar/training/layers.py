"""Layers whose forward pass is replaced while a network is trained: ghost batch norm, and dropout drawn on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def _replaced(layers: Iterable[Any], forward: Callable[[Any, Tensor], Tensor]) -> Iterator[None]:
    """Inside, the layers compute `forward(layer, x)`."""
    layers = list(layers)
    for layer in layers:
        layer.forward = partial(forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def ghost_norms(model: nn.Module, size: int | None) -> AbstractContextManager[None]:
    """Ghost batch norm (Hoffer et al. 2017): each batch norm that trains sees parts of at least `size` images in turn.

    A large batch then trains like small ones. It is cut into equal parts where it can be, so that none is too small to
    have a variance. The running statistics follow every part.
    """
    norms = [part for part in model.modules() if isinstance(part, _BatchNorm)]

    def in_parts(norm: Any, x: Tensor) -> Tensor:
        forward = type(norm).forward
        if size is None or not norm.training or len(x) < 2 * size:
            return forward(norm, x)
        return torch.cat([forward(norm, part) for part in x.tensor_split(len(x) // size)])

    return _replaced(norms if size is not None else (), in_parts)


def cpu_dropout(model: nn.Module, device: torch.device) -> AbstractContextManager[None]:
    """Dropout layers on another device than the CPU drop what they would drop on the CPU."""
    layers = [part for part in model.modules() if type(part) is nn.Dropout]
    return _replaced(layers if device.type != "cpu" else (), _drawn_on_cpu)


def _drawn_on_cpu(layer: nn.Dropout, x: Tensor) -> Tensor:
    if not layer.training or layer.p == 0:
        return x
    kept = torch.empty(x.shape).bernoulli_(1 - layer.p)
    return x * (kept / (1 - layer.p)).to(x)
