"""A network on another device, asked from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from uproar.models.borrow import home
from uproar.models.forward import called


class Remote(nn.Module):
    """Images go to where the network is, and scores come back."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return called(self.network, x.to(home(self.network))).to(x.device)


def bare(model: nn.Module) -> nn.Module:
    """The network itself, where it is."""
    return model.network if isinstance(model, Remote) else model


def from_here(model: nn.Module) -> nn.Module:
    """The model as one that takes images on the CPU: itself, if it is there."""
    return model if home(model).type == "cpu" else Remote(model)


def explained_there(explain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`explain(model, images, classes, draws)` where the model is, asked from here."""

    def asked(model: nn.Module, images: Tensor, classes: Tensor, *more: Any) -> Tensor:
        network = bare(model)
        place = home(network)
        return explain(network, images.to(place), classes.to(place), *more).to(images.device)

    return asked
