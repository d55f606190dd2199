"""A network on another device, called with tensors on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from uproar.models.borrow import device_of
from uproar.models.forward import forward


class RemoteModel(nn.Module):
    """Images go to where the network is, and scores come back."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return forward(self.network, x.to(device_of(self.network))).to(x.device)


def unwrap_remote(model: nn.Module) -> nn.Module:
    """The network itself, on its own device."""
    return model.network if isinstance(model, RemoteModel) else model


def callable_from_cpu(model: nn.Module) -> nn.Module:
    """The model as one that takes images on the CPU: itself, if it is there."""
    return model if device_of(model).type == "cpu" else RemoteModel(model)


def explain_on_device(explain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`explain(model, images, classes, draws)` on the model's device, called with tensors on the CPU."""

    def explained(model: nn.Module, images: Tensor, classes: Tensor, *more: Any) -> Tensor:
        network = unwrap_remote(model)
        device = device_of(network)
        return explain(network, images.to(device), classes.to(device), *more).to(images.device)

    return explained
