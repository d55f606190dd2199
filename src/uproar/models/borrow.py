"""A model is borrowed: put in evaluation, frozen, and given back exactly as it came, also after an error."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from uproar.containment.model import HOOKS
from uproar.models.batch_invariance import BatchInvariant


@contextmanager
def borrowed(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode with frozen weights; modes, flags and hooks come back afterwards.

    Frozen weights also make a backward pass cheaper: only the gradient of the input is computed. Inside, what the
    model says of an image does not depend on the images beside it; see `batch_invariance`.
    """
    modes = {module: module.training for module in model.modules()}
    flags = {parameter: parameter.requires_grad for parameter in model.parameters()}
    hooks = [
        (getattr(module, name), OrderedDict(getattr(module, name)))
        for module in model.modules()
        for name in HOOKS
        if hasattr(module, name)
    ]
    try:
        model.eval()
        for parameter in flags:
            parameter.requires_grad_(False)
        with BatchInvariant():
            yield model
    finally:
        for module, mode in modes.items():
            module.training = mode
        for parameter, flag in flags.items():
            parameter.requires_grad_(flag)
        for live, before in hooks:
            live.clear()
            live.update(before)


def device_of(model: nn.Module) -> torch.device:
    """The device a model's weights are on; without weights, the CPU."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))
