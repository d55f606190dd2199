"""Class activation maps: the feature maps of one layer, weighted for the class and enlarged to the image."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.estimators.layers import LayerName, cam_layers, layer_gradient
from uproar.estimators.registry import estimator
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
    weighted = gradient.mean((2, 3), keepdim=True) * features
    if variant == "per-channel":
        return upsample(weighted, x).abs().mean(1, keepdim=True)
    total = weighted.sum(1, keepdim=True)
    return upsample(total.clamp_min(0) if relu else total, x)


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
