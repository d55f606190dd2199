"""A model is borrowed: put in evaluation, frozen, and given back exactly as it came, also after an error."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from uproar.guard import HOOKS


@contextmanager
def borrowed(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode with frozen weights; modes, flags and hooks come back afterwards.

    Frozen weights also make a backward pass cheaper: only the gradient of the input is computed.
    """
    modules, parameters = list(model.modules()), list(model.parameters())
    modes = [module.training for module in modules]
    flags = [parameter.requires_grad for parameter in parameters]
    tables = [table for module in modules for name in HOOKS if (table := getattr(module, name, None)) is not None]
    hooks = [OrderedDict(table) if table else None for table in tables]
    try:
        model.eval()
        for parameter, flag in zip(parameters, flags, strict=True):
            if flag:
                parameter.requires_grad_(False)
        yield model
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter, flag in zip(parameters, flags, strict=True):
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)
        for table, before in zip(tables, hooks, strict=True):
            if table or before:
                table.clear()
                table.update(before or {})


def device_of(model: nn.Module) -> torch.device:
    """The device a model's weights are on; without weights, the CPU."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))
