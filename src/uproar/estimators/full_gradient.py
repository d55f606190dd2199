"""FullGrad: the gradient of the pixels and of every bias, each where it acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput
from uproar.estimators.cam import upsample
from uproar.estimators.class_scores import class_scores
from uproar.estimators.layers import ForwardRecord, forward_hooks, two_versions
from uproar.estimators.registry import estimator
from uproar.estimators.token_grid import grid_of
from uproar.models.forward import forward
from uproar.types import Images, Labels, RawMaps


@estimator(
    passes=1,
    needs="layers with biases and places: convolutions, norms, or a transformer's linear layers",
    channels=False,
    formula="|x · ∂f_c / ∂x| + Σ over layers and channels of up(|b · ∂f_c / ∂z|), z = the layer's output, b = its bias",
    paper="Srinivas and Fleuret 2019",
    fails="all signs are lost; biases of layers without places (the classifier) are left out",
)
def fullgrad(
    model: nn.Module, x: Images, target: Labels, *, scale: Literal["layer", "channel", "none"] = "layer"
) -> RawMaps:
    """FullGrad: gradient times input, and gradient times bias of every layer, enlarged to the image and added.

    In a network of convolutions, norms, ReLUs and pooling, gradient · x and all gradient · bias, those of the
    classifier too, sum to the score. `scale="layer"` stretches each layer's part of an image to [0, 1] before parts are
    added, `channel` that of each channel, as the paper's formula and pytorch-grad-cam have it; `none` adds the sizes as
    they are.
    """
    pixels, parts = bias_gradients(model, x, target)
    total = _part(pixels.abs(), x, scale)
    sizes = _conv_sizes(model, x)
    for part in parts:
        grid = grid_of(part, len(x), (x.shape[2], x.shape[3]), *sizes)
        if grid is not None and grid.rows * grid.columns > 1:
            total = total + _part(grid.maps(part).abs(), x, scale)
    return total


def _part(maps: Tensor, x: Images, scale: str) -> Tensor:
    """What the pixels or one layer add to the map, (n, 1, h, w)."""
    maps = _unit(maps, (2, 3)) if scale == "channel" else maps
    added = upsample(maps, x).sum(1, keepdim=True)
    return _unit(added, (1, 2, 3)) if scale == "layer" else added


def bias_gradients(model: nn.Module, x: Images, target: Labels) -> tuple[Tensor, list[Tensor]]:
    """Gradient times pixel, (n, c, h, w), and for every layer with a bias gradient times bias at its output."""
    with torch.enable_grad(), BiasRecord() as record:
        images = x.detach().clone(memory_format=torch.channels_last).requires_grad_()
        total = class_scores(model, images, target).sum()
    if not total.requires_grad:
        raise BadInput("The model's scores do not depend on the image in a differentiable way.")
    gradients = torch.autograd.grad(total, [images, *record.outputs], allow_unused=True)
    if gradients[0] is None:
        raise BadInput("The model's scores do not depend on the image in a differentiable way.")
    parts = [g * b for g, b in zip(gradients[1:], record.biases, strict=True) if g is not None]
    return gradients[0].contiguous() * x, parts


class BiasRecord(TorchFunctionMode):
    """Inside, the outputs of layers with a bias are kept, with the bias as it is added to them."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []
        self.biases: list[Tensor] = []

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        find = _BIAS.get(getattr(func, "__name__", ""))
        bias = find(args, kwargs) if find is not None and isinstance(made, Tensor) else None
        if bias is None or not made.requires_grad:
            return made
        self.outputs.append(made)
        across = made.dim() - 2 if func.__name__ in ("conv2d", "batch_norm") else 0
        self.biases.append(bias.detach().view(-1, *[1] * across))
        # what follows may work in place
        return made.clone()


def _third(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    return kwargs.get("bias", args[2] if len(args) > 2 else None)


def _of_layer_norm(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    bias = kwargs.get("bias", args[3] if len(args) > 3 else None)
    return bias if bias is None or bias.dim() == 1 else None


def _of_batch_norm(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    """The shift of a batch norm: its bias less the mean as it is scaled."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = dict(zip(names, args, strict=False)) | kwargs
    mean, var = given.get("running_mean"), given.get("running_var")
    if mean is None or var is None:
        return None
    scale = torch.rsqrt(var + given.get("eps", 1e-5))
    scale = scale if given.get("weight") is None else scale * given["weight"]
    return -mean * scale if given.get("bias") is None else given["bias"] - mean * scale


_BIAS: dict[str, Callable[[tuple, dict[str, Any]], Tensor | None]] = {
    "conv2d": _third,
    "linear": _third,
    "layer_norm": _of_layer_norm,
    "batch_norm": _of_batch_norm,
}


def _conv_sizes(model: nn.Module, x: Images) -> tuple[Any, Any]:
    """Sizes of convolutions' outputs, and which tokens stand for no patch."""
    record = ForwardRecord("conv2d")
    with forward_hooks(record.hooks(model)), record:
        forward(model, two_versions(x))
    tokens = [made.shape[1] for made in record.before_attention if made.dim() == 3]
    return record.sizes, record.extra_tokens(tokens[-1]) if tokens else None


def _unit(maps: Tensor, over: tuple[int, ...]) -> Tensor:
    low, high = maps.amin(over, keepdim=True), maps.amax(over, keepdim=True)
    return (maps - low) / torch.where(high > low, high - low, 1)
