"""Layers by their role or name, and what is computed in them.

The *last convolutional block* is found by running the model, not by its type: of all convolutions that the scores
depend on and that see more than one place, take the one executed last; of all modules whose output is ready after it
and has its rows and columns, take the last. So batch norm, ReLU and residual addition belong to the block where they
are modules or inside one, and pooling does not: `layer4` of a ResNet, the last ReLU before the last pooling of a VGG.

Where attention follows the last convolution, or that convolution only cuts the image into patches, the network is a
transformer, and the layer is the last block or layer norm whose patch tokens the scores depend on: the first norm of
the last block where a class token gives the scores, the norm behind the last block where the patches do.
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
from uproar.estimators.attention import FUSED, MULTI_HEAD, SOFTMAX, Size, TokenGrid, grid_of, is_attention
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
        kept.output = first_tensor(output)
        if not isinstance(kept.output, Tensor):
            return None
        if torch.is_grad_enabled() and not kept.output.requires_grad:
            kept.output = kept.output.detach().requires_grad_()
        return with_first_tensor(output, kept.output.clone())

    with forward_hooks([(module, keep)]):
        yield kept


def first_tensor(output: Any) -> Any:
    """What a module computed: its output, or the first part of a tuple, as blocks of some libraries return."""
    return output[0] if isinstance(output, tuple) and output else output


def with_first_tensor(output: Any, tensor: Tensor) -> Any:
    """The output of a module with another tensor in the place of what it computed."""
    return (tensor, *output[1:]) if isinstance(output, tuple) else tensor


@dataclass(frozen=True)
class LayerGradient:
    """A layer's feature maps and the gradient of the target score in them, both (n, k, rows, columns)."""

    name: str
    grid: TokenGrid
    features: Tensor
    gradient: Tensor


def layer_gradient(model: nn.Module, x: Images, target: Labels, layer: str | None) -> tuple[Tensor, Tensor]:
    """The feature maps of a layer and the gradient of the target score in them, both (n, k, rows, columns)."""
    gradient = gradient_at(model, x, target, layer)
    return gradient.features, gradient.gradient


def gradient_at(model: nn.Module, x: Images, target: Labels, layer: str | None) -> LayerGradient:
    """As `layer_gradient`, with the layer's name and grid."""
    name = default_layer(model, x) if layer is None else layer
    x = x.detach().clone(memory_format=torch.channels_last)
    with torch.enable_grad(), captured(module_named(model, name)) as kept:
        total = class_scores(model, x, target).sum()
    output = kept.output
    grid = layer_grid(model, x, name, output)
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, output, allow_unused=True)
    if gradient is None:
        raise BadInput(f"The scores do not depend on layer {name!r}; name another layer.")
    features, gradient = (grid.maps(part).contiguous() for part in (output.detach(), gradient))
    return LayerGradient(name, grid, features, gradient)


def layer_grid(model: nn.Module, x: Images, name: str, output: Any) -> TokenGrid:
    """How a layer's output becomes feature maps; refused where it does not."""
    grid = None
    if isinstance(output, Tensor) and output.dim() == 4:
        grid = grid_of(output, len(x), _size(x), ())
    elif isinstance(output, Tensor) and output.dim() == 3:
        record, _ = recorded(model, two_versions(x))
        grid = grid_of(output, len(x), _size(x), record.sizes, record.extra_tokens(output.shape[1]))
    if grid is None:
        raise BadInput(
            f"The output of layer {name!r} is {_described(output)}, and feature maps (n, k, rows, columns) or a token "
            "for every patch are needed; name another layer."
        )
    return grid


def two_versions(x: Images) -> Tensor:
    """The first image, and one in which every value differs from it."""
    return torch.cat([x[:1], (x[:1] + 0.37) % 1])


def module_named(model: nn.Module, name: str) -> nn.Module:
    """The module with this name; an unknown one is refused with names that are near."""
    modules = dict(model.named_modules())
    if not name or name not in modules:
        raise unknown("layer of this model", name, [known for known in modules if known])
    return modules[name]


def default_layer(model: nn.Module, x: Images) -> str:
    """The layer of a CNN's or transformer's maps where none is named (the rules are on top of the file)."""
    record, reached = recorded(model, two_versions(x))
    name = _last_token_layer(model, record, _size(x)) if record.attends or record.patches else None
    if name is None and record.attends:
        raise NotApplicable("this transformer has no block or norm with a token for every patch; name a layer")
    return name or _last_conv_layer(record, reached)


def cam_layers(model: nn.Module, x: Images) -> list[str]:
    """The one layer that the CAM family looks at where none is named."""
    return [default_layer(model, x)]


def last_conv_layer(model: nn.Module, x: Images) -> str:
    """Name of the module whose output is that of the last convolutional block (the rule is on top of the file)."""
    record, reached = recorded(model, x[:2])
    record.refuse_transformer()
    return _last_conv_layer(record, reached)


def _last_conv_layer(record: ForwardRecord, reached: set[Any]) -> str:
    """A module that is called several times stands where its last call was."""
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


def _last_token_layer(model: nn.Module, record: ForwardRecord, image: Size) -> str | None:
    """The last block or norm of a transformer whose patch tokens the scores depend on."""
    modules = dict(model.named_modules())
    for name in reversed(record.calls):
        made = first_tensor(record.calls[name][-1][0])
        extra = record.extra_tokens(made.shape[1]) if isinstance(made, Tensor) and made.dim() == 3 else None
        grid = grid_of(made, 2, image, record.sizes, extra)
        if grid is None or grid.rows * grid.columns < 2 or not _is_block_or_norm(modules[name]):
            continue
        (gradient,) = torch.autograd.grad(record.total, made, retain_graph=True, allow_unused=True)
        if gradient is not None and bool((grid.maps(gradient) != 0).any()):
            return name
    return None


def _is_block_or_norm(module: nn.Module) -> bool:
    """Whether a module is a norm, or has norms and no convolution inside, as the blocks of a transformer."""
    inside = list(module.modules())
    norms = any("Norm" in type(each).__name__ for each in inside)
    return norms and not any(isinstance(each, nn.Conv2d) and max(each.stride) > 1 for each in inside)


class ForwardRecord(TorchFunctionMode):
    """Convolutions and attention, however they are called, and outputs of named modules in one forward pass."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.kinds = kinds
        self.convolutions: list[Tensor] = []
        self.patches = False
        """Whether the latest convolution cuts the image into patches: its stride is its size."""
        self.attentions: list[int] = []
        """How many convolutions were done before each attention."""
        self.calls: dict[str, list[tuple[Any, int]]] = {}
        """By module: the output of each call, and how many convolutions were done by then."""
        self.before_attention: list[Tensor] = []
        """What modules made before the first attention."""
        self.total = torch.zeros(())
        """The sum of all scores."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in self.kinds:
            self.convolutions.append(made)
            self.patches = _cuts_patches(args, kwargs or {}, made)
        elif func in (FUSED, MULTI_HEAD) or (func in SOFTMAX and is_attention(made, args, kwargs or {})):
            self.attentions.append(len(self.convolutions))
        return made

    @property
    def sizes(self) -> list[Size]:
        """Rows and columns of the convolutions' outputs."""
        return [(made.shape[2], made.shape[3]) for made in self.convolutions]

    @property
    def attends(self) -> bool:
        """Whether tokens attend to each other after the last convolution."""
        return bool(self.attentions) and self.attentions[-1] == len(self.convolutions)

    def refuse_transformer(self) -> None:
        """Refuse a network whose last convolution is followed by attention, for methods that look for convolutions."""
        if self.attends:
            raise NotApplicable(
                "feature maps of convolutions are needed, and those of this transformer only cut the image into "
                "patches; name a layer to take them"
            )

    def extra_tokens(self, tokens: int) -> tuple[int, ...] | None:
        """Of so many tokens those that were the same for two different images before the first attention."""
        for made in reversed(self.before_attention):
            if made.dim() == 3 and made.shape[:2] == (2, tokens):
                same = (made[0] == made[1]).all(-1)
                return tuple(torch.nonzero(same)[:, 0].tolist())
        return None

    def hooks(self, model: nn.Module) -> list[tuple[nn.Module, Callable]]:
        """The hooks that fill `calls`."""
        return [(module, self._noting(name)) for name, module in model.named_modules() if name]

    def _noting(self, name: str) -> Callable:
        def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
            # taken out and put back, so that the order is that of the last calls
            self.calls[name] = [*self.calls.pop(name, []), (output, len(self.convolutions))]
            if not self.attentions and isinstance(output, Tensor):
                self.before_attention.append(output.detach())

        return note


def _cuts_patches(args: tuple, kwargs: dict[str, Any], made: Tensor) -> bool:
    """Whether a convolution reads pixels of an image in patches larger than one that do not overlap."""
    weight = kwargs.get("weight", args[1] if len(args) > 1 else None)
    x = kwargs.get("input", args[0] if args else None)
    if not isinstance(weight, Tensor) or not isinstance(x, Tensor) or weight.dim() != 4:
        return False
    kernel, sides = max(weight.shape[2:]), x.shape[2:]
    pixels = x.shape[1] <= 4
    return kernel > 1 and pixels and all(-(-a // kernel) >= b for a, b in zip(sides, made.shape[2:], strict=True))


def recorded(model: nn.Module, x: Images) -> tuple[ForwardRecord, set[Any]]:
    """A forward pass with what was met in it, and the operations that the scores depend on."""
    record = ForwardRecord("conv2d", "conv_transpose2d")
    x = x.detach().clone().requires_grad_()
    with forward_hooks(record.hooks(model)), torch.enable_grad(), record:
        record.total = class_scores(model, x, torch.zeros(len(x), dtype=torch.long, device=x.device)).sum()
    # read from the graph: gradients would tell the same, for twice the time
    return record, set(graph(record.total.grad_fn)) if record.total.requires_grad else set()


def _size(x: Images) -> Size:
    return x.shape[2], x.shape[3]


def _places(made: Tensor) -> int:
    return made.shape[-2] * made.shape[-1]


def _described(output: Any) -> str:
    if output is None:
        return "never made"
    return str(tuple(output.shape)) if isinstance(output, Tensor) else type(output).__name__
