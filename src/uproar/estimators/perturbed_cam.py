"""Class activation maps without gradients: feature maps weighted by what they do to the score, or by themselves."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.batches import spans
from uproar.estimators.cam import cam, upsample, weighted_map
from uproar.estimators.class_scores import rows_for, target_scores
from uproar.estimators.gradient import guided_backprop
from uproar.estimators.layers import (
    LayerName,
    cam_layers,
    captured,
    default_layer,
    first_tensor,
    forward_hooks,
    layer_gradient,
    layer_grid,
    module_named,
    with_first_tensor,
)
from uproar.estimators.registry import estimator
from uproar.estimators.token_grid import TokenGrid
from uproar.types import Images, Labels, RawMaps

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
    features, _, _ = features_at_layer(model, x, layer)

    def shown(row: Tensor, channel: Tensor) -> Tensor:
        return x[row] * stretched(upsample(features[row, channel][:, None], x))

    scores = _scores_of_channels(model, x, target, features.shape[1], shown)
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
    features, name, grid = features_at_layer(model, x, layer)
    module = module_named(model, name)
    whole = target_scores(model, x, target, "logit")
    without = torch.empty(features.shape[:2], dtype=whole.dtype, device=whole.device)
    for row, channel in _pairs(features, rows_for(x)):
        with _channels_off(module, grid, channel):
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
    features, _, _ = features_at_layer(model, x, layer)
    total = torch.stack([_first_component(each) for each in features.double()])[:, None].to(x)
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


def features_at_layer(model: nn.Module, x: Images, layer: str | None) -> tuple[Tensor, str, TokenGrid]:
    """The feature maps of a layer (n, k, rows, columns), its name, and how its output holds them."""
    name = default_layer(model, x) if layer is None else layer
    plain = x.detach().clone(memory_format=torch.channels_last)
    with captured(module_named(model, name)) as kept:
        target_scores(model, plain, torch.zeros(len(x), dtype=torch.long, device=x.device), "logit")
    grid = layer_grid(model, x, name, kept.output)
    return grid.maps(kept.output.detach()).contiguous(), name, grid


def stretched(maps: Tensor) -> Tensor:
    """Each map from its lowest value to its highest as 0 to 1; a flat one is 0."""
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    return (maps - low) / torch.where(high > low, high - low, 1)


def _scores_of_channels(
    model: nn.Module, x: Images, target: Labels, channels: int, shown: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Scores (n, channels) of the images that `shown` makes of some rows and channels."""
    scores = torch.empty(len(x), channels, dtype=torch.float64, device=x.device)
    for row, channel in _pairs(scores, rows_for(x)):
        scores[row, channel] = target_scores(model, shown(row, channel), target[row], "logit")
    return scores


def _pairs(table: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """All rows and columns of a table, some at a time."""
    numbers = torch.arange(table.shape[0] * table.shape[1], device=table.device)
    parts = [numbers[part] for part in spans(len(numbers), size)]
    return [(part // table.shape[1], part % table.shape[1]) for part in parts]


def _channels_off(module: nn.Module, grid: TokenGrid, channel: Tensor):
    """Inside, the module's output has one feature map at zero, another one in every row."""

    def off(_module: nn.Module, _inputs: object, output: object) -> object:
        made = first_tensor(output)
        maps = grid.maps(made)
        keep = 1 - F.one_hot(channel, maps.shape[1]).to(maps)
        return with_first_tensor(output, grid.put(made, maps * keep[:, :, None, None]))

    return forward_hooks([(module, off)])


def _first_component(features: Tensor) -> Tensor:
    """The feature maps (k, rows, columns) along their first principal component, (rows, columns)."""
    places = features.flatten(1).T
    centred = places - places.mean(0)
    component = torch.linalg.svd(centred, full_matrices=False).Vh[0]
    values = centred @ component
    return (values * torch.sign((values * centred.sum(1)).sum())).view(features.shape[1:])
