"""SISE: the model's own feature maps as masks, scored like RISE, and fused from fine to coarse layers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from uproar.batches import in_batches, spans
from uproar.estimators.class_scores import blend, class_scores, rows_for, target_scores
from uproar.estimators.control import rescale_to_unit
from uproar.estimators.featuremaps import FeatureMap, pyramid
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.layers import captured
from uproar.estimators.registry import Context, estimator
from uproar.types import WITH_PROBABILITIES, Images, Labels, Maps, RawMaps

Fusion = Literal["otsu", "soft"]

BINS = 256
_NEEDS = "convolutional feature maps of more than one pixel"
_FAILS = "feature maps of an untrained or shallow model are edges of the image"


@estimator(
    passes=50,
    needs=_NEEDS,
    channels=False,
    softmax=True,
    kinds=WITH_PROBABILITIES,
    paper="Sattarzadeh et al. 2021",
    fails=_FAILS,
    formula="e ← (e + V_l) · [V_l > Otsu(V_l)], V_l = Σ_k p_c(mask_k · x) · mask_k / Σ mask_k",
)
def sise(
    model: nn.Module, x: Images, target: Labels, context: Context, *, fusion: Fusion = "otsu", fill: Baseline = "mean"
) -> RawMaps:
    """Masks from the feature maps with a positive mean gradient, weighted by the target's probability, layers fused.

    The layers are the last one of each resolution. `fusion="soft"` has a steep sigmoid in place of Otsu's hard
    threshold, as public code does; the hard one, the authors', leaves exact zeros outside: ties in the ranking.
    """
    return _fused_layers(model, x, target, baseline_image(x, fill, context), fusion, adaptive=False)


@estimator(
    passes=25,
    needs=_NEEDS,
    channels=False,
    softmax=True,
    kinds=WITH_PROBABILITIES,
    paper="Sudhakar et al. 2021",
    fails=_FAILS,
    formula="SISE with the feature maps whose mean gradient is above Otsu's threshold",
)
def ada_sise(
    model: nn.Module, x: Images, target: Labels, context: Context, *, fusion: Fusion = "otsu", fill: Baseline = "mean"
) -> RawMaps:
    """SISE with fewer masks: of the feature maps with a positive mean gradient only those with a large one.

    Large is above Otsu's threshold of the layer's positive mean gradients, for each image on its own.
    """
    return _fused_layers(model, x, target, baseline_image(x, fill, context), fusion, adaptive=True)


def _fused_layers(
    model: nn.Module, x: Images, target: Labels, blank: Images, fusion: Fusion, adaptive: bool
) -> RawMaps:
    # two images are enough to find the layers, which are the same for all
    layers = pyramid(model, x[:2], levels=len(list(model.modules())))
    maps = []
    for features, significance in features_and_significance(model, x, target, layers):
        chosen = significance > 0
        if adaptive:
            threshold = otsu(significance, chosen)
            largest = significance.amax(1, keepdim=True)
            chosen &= (significance > threshold[:, None]) | (significance == largest)
        maps.append(rescale_to_unit(layer_map(model, x, target, blank, features, chosen)))
    return fuse_layers(maps, fusion)[:, None].to(x)


def features_and_significance(
    model: nn.Module, x: Images, target: Labels, layers: list[FeatureMap]
) -> list[tuple[Float[Tensor, "n k a b"], Float[Tensor, "n k"]]]:
    """Each layer's feature maps, and the mean over places of the target score's gradient for each."""
    x = x.detach().clone(memory_format=torch.channels_last)
    with torch.enable_grad(), ExitStack() as stack:
        kept = [stack.enter_context(captured(layer.module)) for layer in layers]
        total = class_scores(model, x, target).sum()
        seen = [each.output for each in kept]
        gradients = torch.autograd.grad(total, seen, materialize_grads=True)
    means = [gradient.double().flatten(2).contiguous().mean(2) for gradient in gradients]
    return [(f.detach().contiguous(), mean) for f, mean in zip(seen, means, strict=True)]


def layer_map(
    model: nn.Module,
    x: Images,
    target: Labels,
    blank: Images,
    features: Float[Tensor, "n k a b"],
    chosen: Bool[Tensor, "n k"],
) -> Float[Tensor, "n h w"]:
    """The chosen feature maps as masks, added up: each times the target's probability behind it, over its area."""
    total = torch.zeros_like(x[:, 0], dtype=torch.float64)
    sample, channel = chosen.nonzero(as_tuple=True)
    if len(sample) == 0:
        return total
    size = (x.shape[2], x.shape[3])

    def probabilities(sample: Int[Tensor, " m"], channel: Int[Tensor, " m"]) -> Tensor:
        kept = feature_masks(features[sample, channel], size)[:, None].to(x)
        seen = blend(x[sample], blank[sample], kept)
        return target_scores(model, seen, target[sample], "probability")

    weights = in_batches(probabilities, sample, channel, size=rows_for(x))
    for rows in spans(len(sample), rows_for(x)):
        kept = feature_masks(features[sample[rows], channel[rows]], size)
        area = kept.sum((1, 2)).clamp_min(1e-6)
        # one after the other, so that the sum does not depend on how rows fall into chunks
        total.index_add_(0, sample[rows], (weights[rows] / area)[:, None, None] * kept)
    return total


def feature_masks(features: Float[Tensor, "m a b"], size: tuple[int, int]) -> Float[Tensor, "m h w"]:
    """Feature maps enlarged bilinearly to the image's size and stretched to [0, 1]; a flat one is 0."""
    features = features[:, None].double()
    large = F.interpolate(features, size, mode="bilinear", align_corners=False)[:, 0]
    low, high = large.amin((1, 2), keepdim=True), large.amax((1, 2), keepdim=True)
    # enlarging rounds, so that a flat map is not quite flat any more
    varies = high - low > 1e-9 * high.abs()
    return torch.where(varies, (large - low) / (high - low + 1e-6), 0)


def fuse_layers(maps: list[Float[Tensor, "n h w"]], fusion: Fusion) -> Float[Tensor, "n h w"]:
    """Maps in [0, 1] from fine to coarse: each is added, then its own salient region cut out of the sum.

    A map that is 0 everywhere, from a layer without a positive feature map, changes nothing.
    """
    total = maps[0]
    for each in maps[1:]:
        inside = _soft(each) if fusion == "soft" else _hard(each)
        silent = (each == 0).all(2).all(1)[:, None, None]
        total = torch.where(silent, total, (total + each) * inside)
    return total


def _hard(maps: Maps) -> Tensor:
    return (maps > otsu(maps.flatten(1))[:, None, None]).to(maps)


def _soft(maps: Maps) -> Tensor:
    """A sigmoid around the threshold, which is raised by half where little of the map is above that."""
    threshold = soft_threshold(maps)
    return torch.sigmoid(100 * (maps.double() - threshold[:, None, None]))


def soft_threshold(maps: Float[Tensor, "n h w"]) -> Float[Tensor, " n"]:
    """Otsu's threshold, times 1.5 where fewer than a tenth of the pixels are above 1.5 times it."""
    threshold = otsu(maps.flatten(1))
    above = (maps > 1.5 * threshold[:, None, None]).double().mean((1, 2))
    return torch.where(above < 0.1, 1.5 * threshold, threshold)


def otsu(values: Float[Tensor, "n v"], among: Bool[Tensor, "n v"] | None = None) -> Float[Tensor, " n"]:
    """The threshold that best splits each row (or the chosen ones of its values) into low and high.

    Best: the largest variance between the two groups, over the edges of 256 bins from the lowest to the highest value.
    """
    among = torch.ones_like(values, dtype=torch.bool) if among is None else among
    values = values.double()
    low = torch.where(among, values, torch.inf).amin(1, keepdim=True)
    span = torch.where(among, values, -torch.inf).amax(1, keepdim=True) - low
    low, span = (torch.where(part.isfinite(), part, 0) for part in (low, span))  # none chosen
    place = (values - low) / torch.where(span > 0, span, 1) * BINS
    counts = torch.zeros(len(values), BINS, dtype=torch.float64, device=values.device)
    counts.scatter_add_(1, place.long().clamp(0, BINS - 1), among.double())
    below = counts.cumsum(1)
    mass = (counts * (torch.arange(BINS, device=values.device) + 0.5)).cumsum(1)
    above = below[:, -1:] - below
    difference = mass / below.clamp_min(1) - (mass[:, -1:] - mass) / above.clamp_min(1)
    edge = (below * above * difference.square()).argmax(1, keepdim=True) + 1
    return (low + span * edge / BINS)[:, 0]
