"""Dropout whose draws are made on the CPU, so that they are the same on every device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def drawn_here(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Inside, dropout layers on another device than the CPU drop what they would drop on the CPU."""
    layers: list[Any] = [part for part in model.modules() if type(part) is nn.Dropout]
    if device.type == "cpu":
        layers = []
    for layer in layers:
        layer.forward = _Drawn(layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


class _Drawn:
    """A dropout layer's forward pass with a mask from the CPU's generator."""

    def __init__(self, layer: nn.Dropout) -> None:
        self.layer = layer

    def __call__(self, x: Tensor) -> Tensor:
        if not self.layer.training or self.layer.p == 0:
            return x
        kept = torch.empty(x.shape).bernoulli_(1 - self.layer.p)
        return x * (kept / (1 - self.layer.p)).to(x)
