"""Feature maps inside a network: which there are, one chosen by a rule, and what passes through it changed.

Modules are known by their place in `model.named_modules()`, which is the same whenever the model is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators.layers import ForwardRecord, forward_hooks, module_named
from uproar.models.forward import CopiedViews, forward, in_model_dtype
from uproar.types import Images


@dataclass(frozen=True)
class FeatureMap:
    """The output of a module that is called once per forward pass: (n, channels, rows, columns)."""

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    convolutions: int
    """How many convolutions were done when it was ready."""


def feature_maps(model: nn.Module, x: Images) -> list[FeatureMap]:
    """All feature maps made after a convolution, in the order in which they are ready: the last is the deepest."""
    return _feature_maps(model, _recorded(model, x))


def _recorded(model: nn.Module, x: Images) -> ForwardRecord:
    record = ForwardRecord("conv2d")
    # no second call here, in which every module would be met twice
    with forward_hooks(record.hooks(model)), torch.no_grad(), record, CopiedViews():
        model(in_model_dtype(model, x))
    return record


def _feature_maps(model: nn.Module, record: ForwardRecord) -> list[FeatureMap]:
    modules = dict(model.named_modules())
    return [
        FeatureMap(name, modules[name], tuple(made.shape[1:]), count)
        for name, ((made, count), *more) in record.calls.items()
        if count and not more and isinstance(made, Tensor) and made.dim() == 4
    ]


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
    maps = _with_places(model, x)
    last = max(each.convolutions for each in maps)
    before = [each for each in maps if each.convolutions < last] or maps
    fine = [each for each in before if _fine(each.shape, x.shape)]
    deepest = _deepest_cut(model, x, fine) or _deepest_cut(
        model, x, sorted(before, key=lambda each: each.shape[1] * each.shape[2])
    )
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
    maps = _with_places(model, x)
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


def _with_places(model: nn.Module, x: Images) -> list[FeatureMap]:
    """The feature maps larger than one pixel; a transformer's patches are no feature maps."""
    record = _recorded(model, x)
    record.refuse_transformer()
    maps = _feature_maps(model, record)
    if not maps:
        raise NotApplicable("a convolution is needed, and none was met in this model")
    spatial = [each for each in maps if min(each.shape[1:]) > 1]
    if not spatial:
        raise NotApplicable("all feature maps of this model are a single pixel")
    return spatial


def _deepest_cut(model: nn.Module, x: Images, maps: list[FeatureMap]) -> FeatureMap | None:
    """The last of the feature maps that all information on the image passes through."""
    return next((each for each in reversed(maps) if is_cut(model, x, each.module)), None)


def is_cut(model: nn.Module, x: Images, module: nn.Module) -> bool:
    """Whether the scores depend on the image through this module's output alone."""
    with torch.enable_grad(), output_replaced(module, torch.Tensor.detach):
        x = x.detach().clone().requires_grad_()
        out = forward(model, x)
        return not out.requires_grad or torch.autograd.grad(out.sum(), x, allow_unused=True)[0] is None


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
        return reached.output
    raise NotApplicable("the layer was not reached in the forward pass")


def channels_last(x: Tensor) -> Tensor:
    """The same numbers in the memory layout whose convolutions do not depend on the number of images."""
    return x.contiguous(memory_format=torch.channels_last)


@contextmanager
def outputs_kept(modules: list[nn.Module]) -> Iterator[Callable[[], list[Tensor]]]:
    """Inside, what the modules compute is kept; the function yielded gives their latest outputs."""
    seen: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        # a copy: the next layer may work in place
        seen[module] = output.clone()

    with forward_hooks([(module, keep) for module in modules]):
        yield lambda: [seen[module] for module in modules]


class _Reached(Exception):
    """Ends a forward pass where nothing more is needed."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


def _fine(shape: tuple[int, ...], image: tuple[int, ...]) -> bool:
    sides = zip(shape[1:], image[2:], strict=True)
    return all(side >= max(full / 8, min(8, full / 4)) for side, full in sides)
