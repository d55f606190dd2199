"""Class activation maps: the feature maps of one layer, weighted for the class and enlarged to the image."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.estimators.layers import LayerName, cam_layers, layer_gradient
from uproar.estimators.registry import estimator
from uproar.types import Images, Labels, RawMaps

_NEEDS = "a convolution, or a transformer's tokens"


@estimator(
    passes=1,
    needs=_NEEDS,
    default_layers=cam_layers,
    channels=False,
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
    weighted = gradient.mean((2, 3), keepdim=True) * features
    if variant == "per-channel":
        return upsample(weighted, x).abs().mean(1, keepdim=True)
    total = weighted.sum(1, keepdim=True)
    return upsample(total.clamp_min(0) if relu else total, x)


@estimator(
    passes=1,
    needs=_NEEDS,
    default_layers=cam_layers,
    channels=False,
    formula="up(max(Σ_k w_k A_k, 0)), w_k = Σ α max(g, 0), α = g² / (2g² + g³ Σ A_k), g = ∂f_c / ∂A_k",
    paper="Chattopadhyay et al. 2018",
    fails="as coarse as the layer",
)
def grad_cam_pp(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """Grad-CAM++: as Grad-CAM, with each place's positive gradient weighted for several objects in one image.

    The score is taken as the exponential of the logit, which makes the higher derivatives powers of the first; its own
    factor exp(f_c) is left out, as it only scales a map.
    """
    features, gradient = layer_gradient(model, x, target, layer)
    positive = gradient.clamp_min(0)
    # g² is cancelled, so that small gradients do not vanish; feature maps without a ReLU may sum to −2 / g
    below = 2 + positive * features.sum((2, 3), keepdim=True)
    share = torch.where(below == 0, 0, 1 / torch.where(below == 0, 1, below))
    weights = (share * positive).sum((2, 3), keepdim=True)
    return weighted_map(weights, features, x, relu)


@estimator(
    passes=1,
    needs=_NEEDS,
    default_layers=cam_layers,
    channels=False,
    formula="up(max(Σ_k w_k A_k, 0)), w_k = Σ g A_k / Σ A_k, g = ∂f_c / ∂A_k",
    paper="Fu et al. 2020",
    fails="as coarse as the layer; unstable where a feature map of signed values sums to about zero",
)
def xgrad_cam(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """XGrad-CAM: as Grad-CAM, with gradients averaged in proportion to the feature map instead of evenly.

    The weights keep the sum of gradient times feature, so that the map adds up to it.
    """
    features, gradient = layer_gradient(model, x, target, layer)
    total = features.sum((2, 3), keepdim=True)
    weights = (gradient * features).sum((2, 3), keepdim=True) / torch.where(total == 0, 1, total)
    return weighted_map(weights, features, x, relu)


@estimator(
    passes=1,
    needs=_NEEDS,
    default_layers=cam_layers,
    channels=False,
    formula="up(max(Σ_k g ⊙ A_k, 0)), g = ∂f_c / ∂A_k",
    paper="Draelos and Carin 2020",
    fails="as coarse as the layer; noisy in layers before the last",
)
def hires_cam(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """HiRes-CAM: gradient times feature, place by place, so that only places that raise the score count."""
    features, gradient = layer_gradient(model, x, target, layer)
    return weighted_map(gradient, features, x, relu)


@estimator(
    passes=1,
    needs=_NEEDS,
    default_layers=cam_layers,
    channels=False,
    formula="up(max(Σ_k max(g, 0) ⊙ A_k, 0)), g = ∂f_c / ∂A_k",
    paper="Jiang et al. 2021",
    fails="as coarse as the layer, but also of use in finer, earlier ones",
)
def layer_cam(
    model: nn.Module, x: Images, target: Labels, *, layer: LayerName | None = None, relu: bool = True
) -> RawMaps:
    """Layer-CAM: positive gradient times feature, place by place."""
    features, gradient = layer_gradient(model, x, target, layer)
    return weighted_map(gradient.clamp_min(0), features, x, relu)


def weighted_map(weights: Tensor, features: Tensor, x: Images, relu: bool) -> RawMaps:
    """Feature maps times weights, (n, k, 1, 1) or one for each place, added and enlarged to the image."""
    total = (weights * features).sum(1, keepdim=True)
    return upsample(total.clamp_min(0) if relu else total, x)


def upsample(maps: Tensor, x: Images) -> Tensor:
    """Maps of a layer at the size of the image: bilinear, pixel centres kept in place."""
    return F.interpolate(maps, x.shape[2:], mode="bilinear", align_corners=False)
