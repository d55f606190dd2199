"""How long a network takes for an image here, measured now."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from uproar.models.borrow import borrowed, device_of
from uproar.models.forward import forward

ROWS = 64
"""Images per measured pass of a quick network."""
PROBE = 0.2
"""Seconds spent on measuring each kind of pass, or one pass after the first if that takes longer."""


@dataclass(frozen=True)
class Speed:
    """Seconds per image: forward alone, and forward with the gradient of the input."""

    forward: float
    both: float

    @classmethod
    def of(cls, model: nn.Module, x: Tensor) -> Speed:
        """The speed of a model on images like these; where it has no gradient, both count as twice forward."""
        device = device_of(model)
        rows = x[:1].expand(ROWS, *x.shape[1:]).to(device)
        rows = rows.contiguous(memory_format=torch.channels_last)
        with borrowed(model):
            forward, few = _timed(lambda some: _forward(model, some), rows)
            try:
                both, _ = _timed(lambda some: _gradient(model, some), few)
            except RuntimeError:
                both = 2 * forward
        return cls(forward, both)


def _timed(work: Callable[[Tensor], None], x: Tensor) -> tuple[float, Tensor]:
    """Seconds per image, and images enough for the next measurement: two of a network that takes long."""
    began = time.perf_counter()
    work(x[:2])  # also chooses kernels, which does not matter where it takes long
    spent = time.perf_counter() - began
    if spent > 5 * PROBE:
        return spent / 2, x[:2]
    began = time.perf_counter()
    work(x[:2])
    spent = time.perf_counter() - began
    x = x[: 2 if spent > PROBE else 8 if spent > PROBE / 10 else ROWS]
    began, images = time.perf_counter(), 0
    while not images or time.perf_counter() - began < PROBE:
        work(x)
        images += len(x)
    return (time.perf_counter() - began) / images, x


def _forward(model: nn.Module, x: Tensor) -> None:
    with torch.inference_mode():
        forward(model, x)
    _wait(x.device)


def _gradient(model: nn.Module, x: Tensor) -> None:
    with torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        torch.autograd.grad(forward(model, x).amax(1).sum(), x)
    _wait(x.device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
