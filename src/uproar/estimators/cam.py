"""Class activation maps: the feature maps of one layer, weighted for the class and enlarged to the image."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.estimators.class_scores import class_scores, gradients, rows_for, scale_and_shift, target_scores, tracked
from uproar.estimators.gradient import guided_backprop
from uproar.estimators.layers import (
    LayerName,
    TokenGrid,
    cam_layers,
    first_tensor,
    forward_hooks,
    layer_gradient,
    layer_output,
    module_named,
    recorded,
    with_first_tensor,
)
from uproar.estimators.registry import estimator
from uproar.tensors import spans
from uproar.types import Images, Labels, RawMaps

cam = functools.partial(
    estimator, needs="a convolution, or a transformer's tokens", default_layers=cam_layers, channels=False
)
"""Declares an estimator whose maps are those of one layer."""


def gradient_cam(**facts: Any) -> Callable[[Callable[[Tensor, Tensor], Tensor]], Callable[..., RawMaps]]:
    """Declare a CAM by its weights: `(features, gradient) -> weights`, (n, k, 1, 1) or one for each place."""

    def declare(weights: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., RawMaps]:
        def estimate(
            model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
        ) -> RawMaps:
            features, gradient = layer_gradient(model, x, target, layer)
            return weighted_map(weights(features, gradient), features, x, relu)

        estimate.__name__, estimate.__qualname__, estimate.__doc__ = weights.__name__, weights.__name__, weights.__doc__
        return cam(passes=1, **facts)(estimate)

    return declare


@cam(
    passes=1,
    formula="up(max(Σ_k w_k A_k, 0)), w_k = mean over places of ∂f_c / ∂A_k",
    paper="Selvaraju et al. 2017",
    fails="as coarse as the layer; weak where gradients change sign inside a feature map",
)
def grad_cam(
    model: nn.Module,
    x: Images,
    target: Labels,
    *,
    layer: LayerName | None = None,
    relu: bool = True,
    variant: Literal["sum", "per-channel"] = "sum",
) -> RawMaps:
    """Grad-CAM: feature maps of the last convolutional block, weighted by their mean gradient and added.

    `layer` names another module; one that is called several times counts with its last call. `relu=False` keeps what
    speaks against the class. `variant="per-channel"` is the mean over k of |up(w_k A_k)|, as the code released with the
    ROAR study of Song et al. has it: contributions of opposite sign do not cancel there, and `relu` does not apply.
    """
    features, gradient = layer_gradient(model, x, target, layer)
    weights = gradient.mean((2, 3), keepdim=True)
    if variant == "per-channel":
        return upsample(weights * features, x).abs().mean(1, keepdim=True)
    return weighted_map(weights, features, x, relu)


@gradient_cam(
    formula="up(max(Σ_k w_k A_k, 0)), w_k = Σ α max(g, 0), α = g² / (2g² + g³ Σ A_k), g = ∂f_c / ∂A_k",
    paper="Chattopadhyay et al. 2018",
    fails="as coarse as the layer",
)
def grad_cam_pp(features: Tensor, gradient: Tensor) -> Tensor:
    """Grad-CAM++: as Grad-CAM, with each place's positive gradient weighted for several objects in one image.

    The score is taken as the exponential of the logit, which makes the higher derivatives powers of the first; its own
    factor exp(f_c) is left out, as it only scales a map.
    """
    positive = gradient.clamp_min(0)
    # g² is cancelled, so that small gradients do not vanish; feature maps without a ReLU may sum to −2 / g
    below = 2 + positive * features.sum((2, 3), keepdim=True)
    share = torch.where(below == 0, 0, 1 / torch.where(below == 0, 1, below))
    return (share * positive).sum((2, 3), keepdim=True)


@gradient_cam(
    formula="up(max(Σ_k w_k A_k, 0)), w_k = Σ g A_k / Σ A_k, g = ∂f_c / ∂A_k",
    paper="Fu et al. 2020",
    fails="as coarse as the layer; unstable where a feature map of signed values sums to about zero",
)
def xgrad_cam(features: Tensor, gradient: Tensor) -> Tensor:
    """XGrad-CAM: as Grad-CAM, with gradients averaged in proportion to the feature map instead of evenly.

    The weights keep the sum of gradient times feature, so that the map adds up to it.
    """
    total = features.sum((2, 3), keepdim=True)
    return (gradient * features).sum((2, 3), keepdim=True) / torch.where(total == 0, 1, total)


@gradient_cam(
    formula="up(max(Σ_k g ⊙ A_k, 0)), g = ∂f_c / ∂A_k",
    paper="Draelos and Carin 2020",
    fails="as coarse as the layer; noisy in layers before the last",
)
def hires_cam(features: Tensor, gradient: Tensor) -> Tensor:
    """HiRes-CAM: gradient times feature, place by place, so that only places that raise the score count."""
    return gradient


@gradient_cam(
    formula="up(max(Σ_k max(g, 0) ⊙ A_k, 0)), g = ∂f_c / ∂A_k",
    paper="Jiang et al. 2021",
    fails="as coarse as the layer, but also of use in finer, earlier ones",
)
def layer_cam(features: Tensor, gradient: Tensor) -> Tensor:
    """Layer-CAM: positive gradient times feature, place by place."""
    return gradient.clamp_min(0)


def weighted_map(weights: Tensor, features: Tensor, x: Images, relu: bool) -> RawMaps:
    """Feature maps times weights, (n, k, 1, 1) or one for each place, added and enlarged to the image."""
    total = (weights * features).sum(1, keepdim=True)
    return upsample(total.clamp_min(0) if relu else total, x)


def upsample(maps: Tensor, x: Images) -> Tensor:
    """Maps of a layer at the size of the image: bilinear, pixel centres kept in place."""
    return F.interpolate(maps, x.shape[2:], mode="bilinear", align_corners=False)


# class activation maps without gradients: feature maps weighted by what they do to the score, or by themselves

_CHANNELS = 64
"""Feature maps that a cost is counted with; a layer may have more."""


@cam(
    passes=_CHANNELS / 2,
    formula="up(max(Σ_k w_k A_k, 0)), w = softmax over k of f_c(x ⊙ up(A_k) stretched to [0, 1])",
    paper="Wang et al. 2020",
    fails="as coarse as the layer; the masked images are none that the network knows; the cost counts 64 feature maps",
)
def score_cam(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """Score-CAM: each feature map, as a mask on the image, is weighted by the score of what it lets through."""
    features, _, _ = features_at_layer(model, x, target, layer)
    scores = torch.empty(features.shape[:2], dtype=torch.float64, device=x.device)
    for row, channel in _pairs(features, rows_for(x)):
        shown = x[row] * stretched(upsample(features[row, channel][:, None], x))
        scores[row, channel] = target_scores(model, shown, target[row], "logit")
    return weighted_map(scores.softmax(1).to(x)[:, :, None, None], features, x, relu)


@cam(
    passes=_CHANNELS / 2,
    formula="up(max(Σ_k w_k A_k, 0)), w_k = (f_c(x) − f_c without A_k) / f_c(x)",
    paper="Desai and Ramaswamy 2020",
    fails="as coarse as the layer; the cost counts 64 feature maps; a score near zero makes all weights large",
)
def ablation_cam(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """Ablation-CAM: each feature map is weighted by the share of the score that is lost when it is set to zero."""
    features, name, grid = features_at_layer(model, x, target, layer)
    module = module_named(model, name)
    whole = target_scores(model, x, target, "logit")
    without = torch.empty(features.shape[:2], dtype=whole.dtype, device=whole.device)
    for row, channel in _pairs(features, rows_for(x)):

        def off(_module: nn.Module, _inputs: object, output: object, channel: Tensor = channel) -> object:
            """The output with one feature map at zero, another one in every row."""
            features = first_tensor(output)
            maps = grid.maps(features)
            keep = 1 - F.one_hot(channel, maps.shape[1]).to(maps)
            return with_first_tensor(output, grid.put(features, maps * keep[:, :, None, None]))

        with forward_hooks([(module, off)]):
            without[row, channel] = target_scores(model, x[row], target[row], "logit")
    weights = (whole[:, None] - without) / torch.where(whole == 0, 1, whole)[:, None]
    return weighted_map(weights.to(x)[:, :, None, None], features, x, relu)


@cam(
    passes=0.5,
    by_class=False,
    formula="up(max((A − mean A) · v, 0)), v = first right singular vector of A as places × feature maps",
    paper="Muhammad and Yeasin 2020",
    fails="the same map for every class; one object hides the others",
)
def eigen_cam(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """Eigen-CAM: the places along the first principal component of the feature maps; no class is asked for.

    The component's sign is the one in which its values go up with the sum of all feature maps.
    """
    features, _, _ = features_at_layer(model, x, target, layer)
    components = []
    for each in features.double():
        places = each.flatten(1).T
        centred = places - places.mean(0)
        values = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[0]
        components.append((values * torch.sign((values * centred.sum(1)).sum())).view(each.shape[1:]))
    total = torch.stack(components)[:, None].to(x)
    return upsample(total.clamp_min(0) if relu else total, x)


@estimator(
    passes=2,
    needs="ReLUs; a convolution",
    default_layers=cam_layers,
    formula="guided_backprop ⊙ grad_cam",
    paper="Selvaraju et al. 2017",
    fails="its fine structure is that of guided_backprop, which is close to an edge detector",
)
def guided_grad_cam(model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None) -> RawMaps:
    """Guided Grad-CAM: guided backprop where Grad-CAM is positive."""
    features, gradient = layer_gradient(model, x, target, layer)
    coarse = weighted_map(gradient.mean((2, 3), keepdim=True), features, x, relu=True)
    return guided_backprop(model, x, target) * coarse


def features_at_layer(model: nn.Module, x: Images, target: Labels, layer: str | None) -> tuple[Tensor, str, TokenGrid]:
    """The feature maps of a layer (n, k, rows, columns), its name, and how its output holds them."""
    name, grid, output, _ = layer_output(model, x, target, layer)
    return grid.maps(output.detach()).contiguous(), name, grid


def stretched(maps: Tensor) -> Tensor:
    """Each map from its lowest value to its highest as 0 to 1; a flat one is 0."""
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    return (maps - low) / torch.where(high > low, high - low, 1)


def _pairs(table: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """All rows and columns of a table, some at a time."""
    numbers = torch.arange(table.shape[0] * table.shape[1], device=table.device)
    chunks = [numbers[chunk] for chunk in spans(len(numbers), size)]
    return [(chunk // table.shape[1], chunk % table.shape[1]) for chunk in chunks]


# fullGrad: the gradient of the pixels and of every bias, each where it acts


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
    pixels, terms = bias_gradients(model, x, target)
    record = recorded(model, x[[0, 0]])
    grids = [(record.grid(term, len(x)), term) for term in terms]
    total = torch.zeros_like(x[:, :1])
    for maps in [pixels, *(grid.maps(term) for grid, term in grids if grid and grid.rows * grid.columns > 1)]:
        shown = stretched(maps.abs()) if scale == "channel" else maps.abs()
        added = upsample(shown, x).sum(1, keepdim=True)
        total += stretched(added) if scale == "layer" else added
    return total


def bias_gradients(model: nn.Module, x: Images, target: Labels) -> tuple[Tensor, list[Tensor]]:
    """Gradient times pixel, (n, c, h, w), and for every layer with a bias gradient times bias at its output."""
    with torch.enable_grad(), BiasRecord() as record:
        images = tracked(x)
        total = class_scores(model, images, target).sum()
    slope, *slopes = gradients(total, [images, *record.outputs])
    return slope.contiguous() * x, [g * b for g, b in zip(slopes, record.biases, strict=True) if g is not None]


class BiasRecord(TorchFunctionMode):
    """Inside, the outputs of layers with a bias are kept, with the bias as it is added to them."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []
        self.biases: list[Tensor] = []

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs, name, bias = kwargs or {}, getattr(func, "__name__", ""), None
        result = func(*args, **kwargs)
        index = {"conv2d": 2, "linear": 2, "layer_norm": 3}.get(name)
        if name == "batch_norm":
            bias = (scale_and_shift(args, kwargs) or (None, None))[1]
        elif index is not None:
            bias = kwargs.get("bias", args[index] if len(args) > index else None)
        if bias is None or bias.dim() != 1 or not result.requires_grad:
            return result
        self.outputs.append(result)
        across = result.dim() - 2 if name in ("conv2d", "batch_norm") else 0
        self.biases.append(bias.detach().view(-1, *[1] * across))
        # what follows may work in place
        return result.clone()
