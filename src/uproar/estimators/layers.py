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

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput, NotApplicable, unknown
from uproar.estimators.chain import Chain
from uproar.estimators.class_scores import (
    FUSED,
    MULTI_HEAD,
    SOFTMAX,
    class_scores,
    gradients,
    graph,
    is_attention,
    tracked,
)
from uproar.models.forward import CopiedViews, borrowed, forward
from uproar.types import Images, Labels

LayerName = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) is int else name)]
"""A module's name in `model.named_modules()`; a number is a place in a sequence."""


@contextmanager
def forward_hooks(hooks: Iterable[tuple[nn.Module, Callable]]) -> Iterator[None]:
    """Inside, each module calls its hook after its forward pass."""
    handles = [module.register_forward_hook(hook) for module, hook in hooks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def captured(*modules: nn.Module) -> Iterator[Callable[[], list[Any]]]:
    """Inside, what the modules compute is kept; the function yielded gives their latest outputs, None without a call.

    Gradients can be taken with respect to them. What follows works on a copy, so that an in-place ReLU after a module
    does not change what was kept. Without a graph below, one starts here: nothing is computed in vain.
    """
    outputs: dict[nn.Module, Any] = {}

    def keep(module: nn.Module, _inputs: Any, output: Any) -> Any:
        kept = outputs[module] = first_tensor(output)
        if not isinstance(kept, Tensor):
            return None
        if torch.is_grad_enabled() and not kept.requires_grad:
            kept = outputs[module] = kept.detach().requires_grad_()
        return with_first_tensor(output, kept.clone())

    with forward_hooks([(module, keep) for module in modules]):
        yield lambda: [outputs.get(module) for module in modules]


def first_tensor(output: Any) -> Any:
    """What a module computed: its output, or the first part of a tuple, as blocks of some libraries return."""
    return output[0] if isinstance(output, tuple) and output else output


def with_first_tensor(output: Any, tensor: Tensor) -> Any:
    """The output of a module with another tensor in the place of what it computed."""
    return (tensor, *output[1:]) if isinstance(output, tuple) else tensor


def layer_output(
    model: nn.Module, x: Images, target: Labels, layer: str | None
) -> tuple[str, TokenGrid, Tensor, Tensor]:
    """A layer's name, how its output holds feature maps, the output, and the sum of the target scores."""
    name = default_layer(model, x) if layer is None else layer
    with captured(module_named(model, name)) as outputs:
        total = class_scores(model, tracked(x), target).sum()
    (output,) = outputs()
    grid = None
    if isinstance(output, Tensor) and output.dim() in (3, 4):
        # rows and columns of tokens are those of a convolution, which is found by running the model once more
        record = ForwardRecord(x) if output.dim() == 4 else recorded(model, x[[0, 0]])
        grid = record.grid(output, len(x))
    if grid is None:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        shape = "never made" if output is None else shape
        raise BadInput(
            f"The output of layer {name!r} is {shape}, and feature maps (n, k, rows, columns) or a token "
            "for every patch are needed; name another layer."
        )
    return name, grid, output, total


def layer_gradient(model: nn.Module, x: Images, target: Labels, layer: str | None) -> tuple[Tensor, Tensor]:
    """The feature maps of a layer and the gradient of the target score in them, both (n, k, rows, columns)."""
    with torch.enable_grad():
        name, grid, output, total = layer_output(model, x, target, layer)
    (gradient,) = gradients(total, [output], f"layer {name!r}")
    return grid.maps(output.detach()).contiguous(), grid.maps(gradient).contiguous()


def module_named(model: nn.Module, name: str) -> nn.Module:
    """The module with this name; an unknown one is refused with names that are near."""
    modules = dict(model.named_modules())
    if not name or name not in modules:
        raise unknown("layer of this model", name, [known for known in modules if known])
    return modules[name]


def default_layer(model: nn.Module, x: Images) -> str:
    """The layer of a CNN's or transformer's maps where none is named (the rules are on top of the file)."""
    record = recorded(model, x[[0, 0]])
    name = _last_token_layer(model, record) if record.attends or record.patches else None
    if name is None and record.attends:
        raise NotApplicable("this transformer has no block or norm with a token for every patch; name a layer")
    return name or _last_conv_layer(record)


def cam_layers(model: nn.Module, x: Images) -> list[str]:
    """The one layer that the CAM family looks at where none is named."""
    return [default_layer(model, x)]


def _last_conv_layer(record: ForwardRecord) -> str:
    """A module that is called several times stands where its last call was."""
    if not record.convolutions:
        raise NotApplicable("a convolution is needed, and none was met in this model")
    # read from the graph: gradients would tell the same, for twice the time
    reached = set(graph(record.total.grad_fn))
    used = [i for i, out in enumerate(record.convolutions) if out.shape[-2:].numel() > 1 and out.grad_fn in reached]
    if not used:
        raise NotApplicable("all convolutions of this model see a single place, so there is nothing to rank")
    size = record.convolutions[used[-1]].shape[2:]
    block = [
        name
        for name, (*_, call) in record.calls.items()
        if call.convolutions > used[-1] and isinstance(call.output, Tensor) and call.output.grad_fn in reached
        if call.output.dim() == 4 and call.output.shape[2:] == size
    ]
    if not block:
        raise NotApplicable("the last convolution is not inside a module; name a layer with layer=")
    return block[-1]


def _last_token_layer(model: nn.Module, record: ForwardRecord) -> str | None:
    """The last block or norm of a transformer whose patch tokens the scores depend on.

    A block is what has norms and no strided convolution inside.
    """
    modules = dict(model.named_modules())
    for name in reversed(record.calls):
        inside = list(modules[name].modules())
        norms = any("Norm" in type(each).__name__ for each in inside)
        strided = any(isinstance(each, nn.Conv2d) and max(each.stride) > 1 for each in inside)
        tokens = first_tensor(record.calls[name][-1].output)
        grid = record.grid(tokens)
        if grid is None or grid.rows * grid.columns < 2 or strided or not norms:
            continue
        (gradient,) = torch.autograd.grad(record.total, tokens, retain_graph=True, allow_unused=True)
        if gradient is not None and bool((grid.maps(gradient) != 0).any()):
            return name
    return None


class ModuleCall(NamedTuple):
    """A call of a module: its output, and how many operations were done by then."""

    output: Any
    convolutions: int
    attentions: int
    attentions_before: int


class ForwardRecord(TorchFunctionMode):
    """Convolutions and attention, however they are called, and outputs of named modules in one forward pass."""

    def __init__(self, x: Images) -> None:
        super().__init__()
        self.image: Size = (x.shape[2], x.shape[3])
        self.convolutions: list[Tensor] = []
        self.patches = False
        """Whether the latest convolution cuts the image into patches: its stride is its size."""
        self.attentions: list[int] = []
        """How many convolutions were done before each attention."""
        self.calls: dict[str, list[ModuleCall]] = {}
        """By module, in the order of the last calls."""
        self.total = torch.zeros(())
        """The sum of all images' scores of the first class."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("conv2d", "conv_transpose2d"):
            arguments = dict(zip(("input", "weight"), args, strict=False)) | (kwargs or {})
            x, weight = arguments["input"], arguments["weight"]
            # pixels of an image are read in patches larger than one that do not overlap
            kernel, sides = max(weight.shape[2:]), zip(x.shape[2:], output.shape[2:], strict=True)
            self.patches = kernel > 1 and x.shape[1] <= 4 and all(-(-a // kernel) >= b for a, b in sides)
            self.convolutions.append(output)
        elif func in (FUSED, MULTI_HEAD) or (func in SOFTMAX and is_attention(output, args, kwargs or {})):
            self.attentions.append(len(self.convolutions))
        return output

    @property
    def attends(self) -> bool:
        """Whether tokens attend to each other after the last convolution."""
        return bool(self.attentions) and self.attentions[-1] == len(self.convolutions)

    def grid(self, output: Any, images: int = 2) -> TokenGrid | None:
        """How an output for so many images holds feature maps, if it does."""
        if not isinstance(output, Tensor) or len(output) != images or output.dim() not in (3, 4):
            return None
        if output.dim() == 4:
            patches = set(_square_patches(self.image))
            first, last = ((a, b) in patches and a > 1 for a, b in (output.shape[2:], output.shape[1:3]))
            if last and not first:
                return TokenGrid(output.shape[1], output.shape[2], "channels last")
            return TokenGrid(output.shape[2], output.shape[3])
        sizes = [(features.shape[2], features.shape[3]) for features in self.convolutions]
        size = token_rows_and_columns(output.shape[1], self.image, sizes)
        return None if size is None else TokenGrid(*size, "tokens")

    def watch(self, name: str, module: nn.Module, stack: ExitStack) -> None:
        """Note the calls of a module."""
        begun = 0

        def begin(*_: Any) -> None:
            nonlocal begun
            begun = len(self.attentions)

        def end(_module: nn.Module, _inputs: Any, output: Any) -> None:
            call = ModuleCall(output, len(self.convolutions), len(self.attentions), begun)
            self.calls[name] = [*self.calls.pop(name, []), call]

        stack.callback(module.register_forward_pre_hook(begin).remove)
        stack.callback(module.register_forward_hook(end).remove)


def recorded(model: nn.Module, x: Images, *modes: TorchFunctionMode) -> ForwardRecord:
    """A forward pass with what was met in it, with the graph of the scores."""
    record = ForwardRecord(x)
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name:
                record.watch(name, module, stack)
        # a view that fails would make `forward` call the model again, and every module would be met twice
        stack.enter_context(torch.enable_grad())
        for mode in (record, CopiedViews(), *modes):
            stack.enter_context(mode)
        record.total = forward(model, tracked(x))[:, 0].sum()
    return record


# tokens as places of the image: which of them stand for patches, and in how many rows and columns
# The grid is that of a convolution's output (the patch embedding, or halvings of it where patches are merged);
# without one, that of square patches of a whole number of pixels. The tokens before it are class token and registers.

Size = tuple[int, int]

MOST_EXTRA = 32
"""Class token, registers and the like, at most."""


@dataclass(frozen=True)
class TokenGrid:
    """How an output becomes feature maps: tokens (n, t, k), channels last (n, rows, columns, k), or as it is."""

    rows: int
    columns: int
    layout: str = "channels first"

    def maps(self, output: Tensor) -> Tensor:
        """The output as feature maps (n, k, rows, columns)."""
        if self.layout == "channels last":
            return output.permute(0, 3, 1, 2)
        if self.layout == "tokens":
            patches = output[:, -self.rows * self.columns :]
            return patches.transpose(1, 2).unflatten(2, (self.rows, self.columns))
        return output

    def put(self, output: Tensor, maps: Tensor) -> Tensor:
        """The output with its feature maps replaced; class token and registers stay."""
        if self.layout == "channels last":
            return maps.permute(0, 2, 3, 1)
        if self.layout == "tokens":
            return torch.cat([output[:, : -self.rows * self.columns], maps.flatten(2).transpose(1, 2)], 1)
        return maps


def token_rows_and_columns(tokens: int, image: Size, convolutions: Iterable[Size] = ()) -> Size | None:
    """Rows and columns of the patches among so many tokens.

    >>> token_rows_and_columns(197, (224, 224)), token_rows_and_columns(21, (12, 20), [(4, 5)])
    ((14, 14), (4, 5))
    >>> token_rows_and_columns(49, (224, 224), [(56, 56)])  # patches merged three times
    (7, 7)
    """
    seen = list(convolutions)
    merged = [(-(-r // side), -(-c // side)) for r, c in seen for side in (2**i for i in range(max(r, c).bit_length()))]
    for candidates, most in ((seen, MOST_EXTRA), (merged, 1), (list(_square_patches(image)), MOST_EXTRA)):
        fitting = [(tokens - r * c, (r, c)) for r, c in candidates if 1 < r * c <= tokens]
        extra, size = min(fitting, default=(tokens, (0, 0)))
        if extra <= min(most, size[0] * size[1]):
            return size
    return None


def _square_patches(image: Size) -> Iterator[Size]:
    for side in range(1, max(image) + 1):
        yield -(-image[0] // side), -(-image[1] // side)
        yield image[0] // side, image[1] // side


# Feature maps inside a network: which there are, one chosen by a rule, and what passes through it changed.
#
# Modules are known by their place in `model.named_modules()`, which is the same whenever the model is built.


@dataclass(frozen=True)
class FeatureMap:
    """The output of a module that is called once per forward pass: (n, channels, rows, columns)."""

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    convolutions: int
    """How many convolutions were done when it was ready."""


def feature_maps(model: nn.Module, x: Images, with_places: bool = False) -> list[FeatureMap]:
    """All feature maps made after a convolution, in the order in which they are ready: the last is the deepest.

    `with_places`: those larger than one pixel, refused where there is none; a transformer's patches do not count.
    """
    record, modules = recorded(model, x), dict(model.named_modules())
    maps = [
        FeatureMap(name, modules[name], tuple(call.output.shape[1:]), call.convolutions)
        for name, (call, *more) in record.calls.items()
        if call.convolutions and not more and isinstance(call.output, Tensor) and call.output.dim() == 4
    ]
    if not with_places:
        return maps
    if record.attends:
        raise NotApplicable(
            "feature maps of convolutions are needed, and those of this transformer only cut the image into patches; "
            "name a layer to take them"
        )
    if not maps:
        raise NotApplicable("a convolution is needed, and none was met in this model")
    spatial = [each for each in maps if min(each.shape[1:]) > 1]
    if not spatial:
        raise NotApplicable("all feature maps of this model are a single pixel")
    return spatial


def named_feature_map(model: nn.Module, x: Images, name: str) -> FeatureMap:
    """The feature map of the module with this name."""
    module_named(model, name)
    for feature_map in feature_maps(model, x):
        if feature_map.name == name:
            return feature_map
    raise NotApplicable(
        f"the layer {name!r} does not make one feature map (n, c, h, w) per forward pass after a convolution"
    )


def middle_feature_map(model: nn.Module, x: Images) -> FeatureMap:
    """The deepest feature map that is still fine enough, with a convolution after it.

    Fine enough: an eighth of the image's sides and 8 pixels, or a quarter of the sides of an image under 32 pixels;
    where none is, the finest is taken. Only places that everything must pass are considered: not those inside a
    residual branch, where the shortcut goes around.
    """
    maps = feature_maps(model, x, with_places=True)
    last = max(each.convolutions for each in maps)
    before = [each for each in maps if each.convolutions < last] or maps
    least = [max(side / 8, min(8, side / 4)) for side in x.shape[2:]]
    fine = [each for each in before if each.shape[1] >= least[0] and each.shape[2] >= least[1]]
    by_size = sorted(before, key=lambda each: each.shape[1] * each.shape[2])
    deepest = _deepest_cut(model, x, fine) or _deepest_cut(model, x, by_size)
    if deepest is None:
        raise NotApplicable("no feature map holds all information on the image; name a layer")
    return deepest


def bottleneck_layers(model: nn.Module, x: Images) -> list[str]:
    """The one layer that information bottlenecks are put behind where none is named."""
    return [middle_feature_map(model, x).name]


def pyramid_layers(model: nn.Module, x: Images) -> list[str]:
    """The layers that a branch learns from where none are named."""
    return [each.name for each in pyramid(model, x, 3)]


def pyramid(model: nn.Module, x: Images, levels: int) -> list[FeatureMap]:
    """The deepest feature map of each resolution, finest first: the coarsest `levels`.

    Feature maps inside a residual branch are passed over, as in `middle_feature_map`, and so are those that only pool
    after the last convolution.
    """
    maps = feature_maps(model, x, with_places=True)
    last = next(i for i, each in enumerate(maps) if each.convolutions == maps[-1].convolutions)
    ordered = sorted({each.shape[1:] for each in maps[: last + 1]}, key=lambda size: size[0] * size[1])
    chosen: list[FeatureMap] = []
    while ordered and len(chosen) < levels:
        size = ordered.pop(0)
        deepest = _deepest_cut(model, x, [each for each in maps if each.shape[1:] == size])
        chosen = [deepest, *chosen] if deepest else chosen
    if not chosen:
        raise NotApplicable("no feature map holds all information on the image; name the layers")
    return chosen


def _deepest_cut(model: nn.Module, x: Images, maps: list[FeatureMap]) -> FeatureMap | None:
    """The last of the feature maps that all information on the image passes through: scores depend on nothing else."""
    for each in reversed(maps):
        with torch.enable_grad(), output_replaced(each.module, torch.Tensor.detach):
            images = x.detach().clone().requires_grad_()
            out = forward(model, images)
            if not out.requires_grad or torch.autograd.grad(out.sum(), images, allow_unused=True)[0] is None:
                return each
    return None


@contextmanager
def output_replaced(module: nn.Module, function: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside, the rest of the network sees `function(output)` instead of the module's output."""
    with forward_hooks([(module, lambda _module, _inputs, output: function(output))]):
        yield


def features_at(model: nn.Module, module: nn.Module, x: Images) -> Tensor:
    """The module's output for these images; what comes after it is not computed."""

    def stop(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        raise _Reached(output)

    try:
        with forward_hooks([(module, stop)]):
            forward(model, channels_last(x))
    except _Reached as reached:
        output: Tensor = reached.args[0]
        return output
    raise NotApplicable("the layer was not reached in the forward pass")


def channels_last(x: Tensor) -> Tensor:
    """The same numbers in the memory layout whose convolutions do not depend on the number of images."""
    return x.contiguous(memory_format=torch.channels_last)


class _Reached(Exception):
    """Ends a forward pass where nothing more is needed."""


# Which layers of a network a method can look at, and which one each family of methods takes by itself.


@dataclass(frozen=True)
class Candidate:
    """A layer by name: its module's class, its output's shape for one image, its grid, and whose default it is."""

    name: str
    module: str
    shape: tuple[int, ...]
    channels: int
    grid: tuple[int, int]
    default_of: tuple[str, ...] = ()


FAMILIES: dict[str, Callable[[nn.Module, Images], Sequence[str]]] = {
    "CAM": cam_layers,
    "iba": bottleneck_layers,
    "tame": pyramid_layers,
}
"""By family of methods: the layers it takes where none is named."""


def layer_candidates(model: nn.Module, x: Images) -> tuple[list[Candidate], dict[str, str]]:
    """The layers whose output has places of the image, in the order made, and why a family has no default."""
    defaults: dict[str, Sequence[str]] = {}
    refusals: dict[str, str] = {}
    with borrowed(model):
        for family, choose in FAMILIES.items():
            try:
                defaults[family] = choose(model, x[:2])
            except NotApplicable as reason:
                refusals[family] = str(reason)
        record = recorded(model, x[[0, 0]])
    modules, candidates = dict(model.named_modules()), []
    for name, calls in record.calls.items():
        output = first_tensor(calls[-1].output)
        grid = record.grid(output)
        if grid is not None and grid.rows * grid.columns > 1:
            owners = tuple(family for family, names in defaults.items() if name in names)
            channels, shape, kind = grid.maps(output).shape[1], tuple(output.shape[1:]), type(modules[name]).__name__
            candidates.append(Candidate(name, kind, shape, channels, (grid.rows, grid.columns), owners))
    return candidates, refusals


def chosen_layers(model: nn.Module, x: Images, chains: Sequence[Chain]) -> dict[str, tuple[str, ...]]:
    """By chain: the layers that its estimators look at, named in it or found by their rule; only chains that do."""

    @functools.cache
    def found_by(rule: Callable[[nn.Module, Images], Sequence[str]]) -> tuple[str, ...]:
        try:
            with borrowed(model):
                return tuple(rule(model, x[:2]))
        except NotApplicable:
            return ()

    layers: dict[str, tuple[str, ...]] = {}
    for chain in chains:
        rule, options = chain.facts.get("default_layers"), dict[str, Any](chain.leaf.options)
        if rule is None:
            continue
        named = options.get("layer") or options.get("layers") or found_by(rule)
        if named:
            layers[chain.name] = tuple(named) if isinstance(named, tuple) else (str(named),)
    return layers
