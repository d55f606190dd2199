"""ReLUs replaced while a model runs, however the model calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_RELUS = {F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_}


class _Replace(TorchFunctionMode):
    def __init__(self, relu: Callable[[Tensor], Tensor], seen: list[torch.Size]) -> None:
        super().__init__()
        self.relu, self.seen = relu, seen

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func in _RELUS:
            x = args[0] if args else (kwargs or {})["input"]
            self.seen.append(x.shape)
            return self.relu(x)
        return func(*args, **(kwargs or {}))


@contextmanager
def relus_replaced(relu: Callable[[Tensor], Tensor]) -> Iterator[list[torch.Size]]:
    """Every ReLU call inside is `relu` instead; yields the list of calls met so far.

    Calls are intercepted where torch dispatches them, so `nn.ReLU`, `F.relu`, in-place versions and one module
    used in many places are all the same. Scripted models do not dispatch in Python: none is met there.
    """
    seen: list[torch.Size] = []
    with _Replace(relu, seen):
        yield seen
