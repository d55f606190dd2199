"""Layers by their role or name, and what is computed in them.

The *last convolutional block* is found by running the model, not by its type: of all convolutions that the scores
depend on and that see more than one place, take the one executed last; of all modules whose output is ready after it
and has its rows and columns, take the last. So batch norm, ReLU and residual addition belong to the block where they
are modules or inside one, and pooling does not: `layer4` of a ResNet, the last ReLU before the last pooling of a VGG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput, NotApplicable, unknown
from uproar.estimators.backward_rules import graph
from uproar.estimators.class_scores import class_scores
from uproar.types import Images, Labels

LayerName = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) is int else name)]
"""A module's name in `model.named_modules()`; a number is a place in a sequence."""


@dataclass
class LayerOutput:
    """What a module computed in its latest call; None as long as there was none."""

    output: Any = None


@contextmanager
def forward_hooks(hooks: Iterable[tuple[nn.Module, Callable]]) -> Iterator[None]:
    """Inside, each module calls its hook after its forward pass."""
    with ExitStack() as stack:
        for module, hook in hooks:
            stack.callback(module.register_forward_hook(hook).remove)
        yield


@contextmanager
def captured(module: nn.Module) -> Iterator[LayerOutput]:
    """Inside, the module's output is kept, and gradients can be taken with respect to it.

    A module that is called several times keeps the last call. What follows works on a copy, so that an in-place ReLU
    after the module does not change what was kept. Without a graph below, one starts here: nothing is computed in vain.
    """
    kept = LayerOutput()

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        kept.output = output
        if not isinstance(output, Tensor):
            return None
        if torch.is_grad_enabled() and not output.requires_grad:
            kept.output = output.detach().requires_grad_()
        return kept.output.clone()

    with forward_hooks([(module, keep)]):
        yield kept


def layer_gradient(model: nn.Module, x: Images, target: Labels, layer: str | None) -> tuple[Tensor, Tensor]:
    """The feature maps of a layer and the gradient of the target score in them, both (n, k, rows, columns)."""
    name = last_conv_layer(model, x) if layer is None else layer
    x = x.detach().clone(memory_format=torch.channels_last)
    with torch.enable_grad(), captured(module_named(model, name)) as kept:
        total = class_scores(model, x, target).sum()
    features = kept.output
    if not isinstance(features, Tensor) or features.dim() != 4 or len(features) != len(x):
        raise BadInput(
            f"The output of layer {name!r} is {_described(features)}, and feature maps (n, k, rows, columns) "
            "are needed; name another layer."
        )
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, features, allow_unused=True)
    if gradient is None:
        raise BadInput(f"The scores do not depend on layer {name!r}; name another layer.")
    return features.detach().contiguous(), gradient.contiguous()


def module_named(model: nn.Module, name: str) -> nn.Module:
    """The module with this name; an unknown one is refused with names that are near."""
    modules = dict(model.named_modules())
    if not name or name not in modules:
        raise unknown("layer of this model", name, [known for known in modules if known])
    return modules[name]


def last_conv_layer(model: nn.Module, x: Images) -> str:
    """Name of the module whose output is that of the last convolutional block (the rule is on top of the file).

    A module that is called several times stands where its last call was.
    """
    record, reached = _recorded(model, x[:2])
    if not record.convolutions:
        raise NotApplicable("a convolution is needed, and none was met in this model")
    used = [i for i, made in enumerate(record.convolutions) if _places(made) > 1 and made.grad_fn in reached]
    if not used:
        raise NotApplicable("all convolutions of this model see a single place, so there is nothing to rank")
    size = record.convolutions[used[-1]].shape[2:]
    block = [
        name
        for name, (*_, (made, before)) in record.calls.items()
        if before > used[-1] and isinstance(made, Tensor) and made.grad_fn in reached
        if made.dim() == 4 and made.shape[2:] == size
    ]
    if not block:
        raise NotApplicable("the last convolution is not inside a module; name a layer with layer=")
    return block[-1]


class ForwardRecord(TorchFunctionMode):
    """Convolutions, however they are called, and outputs of named modules in one forward pass, in the order made."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.kinds = kinds
        self.convolutions: list[Tensor] = []
        self.calls: dict[str, list[tuple[Any, int]]] = {}
        """By module: the output of each call, and how many convolutions were done by then."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in self.kinds:
            self.convolutions.append(made)
        return made

    def hooks(self, model: nn.Module) -> list[tuple[nn.Module, Callable]]:
        """The hooks that fill `calls`."""
        return [(module, self._noting(name)) for name, module in model.named_modules() if name]

    def _noting(self, name: str) -> Callable:
        def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
            # taken out and put back, so that the order is that of the last calls
            self.calls[name] = [*self.calls.pop(name, []), (output, len(self.convolutions))]

        return note


def _recorded(model: nn.Module, x: Images) -> tuple[ForwardRecord, set[Any]]:
    """A forward pass, and the operations that the scores depend on."""
    record = ForwardRecord("conv2d", "conv_transpose2d")
    x = x.detach().clone().requires_grad_()
    with forward_hooks(record.hooks(model)), torch.enable_grad(), record:
        scores = class_scores(model, x, torch.zeros(len(x), dtype=torch.long, device=x.device))
    # read from the graph: gradients would tell the same, for twice the time
    return record, set(graph(scores.grad_fn)) if scores.requires_grad else set()


def _places(made: Tensor) -> int:
    return made.shape[-2] * made.shape[-1]


def _described(output: Any) -> str:
    if output is None:
        return "never made"
    return str(tuple(output.shape)) if isinstance(output, Tensor) else type(output).__name__
