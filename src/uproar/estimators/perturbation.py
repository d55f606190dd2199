"""Scores of images of which parts are hidden: RISE, occlusion, SISE, LIME and Kernel SHAP."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadOption, NotApplicable
from uproar.estimators.class_scores import (
    Score,
    class_scores,
    rows_for,
    scores_of,
    scores_of_versions,
    sum_over_points,
    target_scores,
    tracked,
)
from uproar.estimators.control import rescale_to_unit
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.layers import FeatureMap, captured, pyramid
from uproar.estimators.registry import Context, estimator
from uproar.seeds import generator
from uproar.tensors import spans
from uproar.training.finetune import grid_cells
from uproar.types import WITH_PROBABILITIES, Images, Labels, RawMaps

# RISE: scores of randomly masked images, each credited to the pixels its mask kept

Boundary = Literal["clamp", "mirror"]


@estimator(
    passes=lambda masks=1000, **_: masks / 2,
    channels=False,
    softmax=True,
    formula="Σ p_c(mask · x) · mask / (masks · p)",
    paper="Petsiuk et al. 2018",
    fails="noise of the drawn masks where the score hardly varies; falls with 1/√masks",
)
def rise(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    masks: Annotated[int, Field(ge=1, le=100_000)] = 1000,
    grid: Annotated[int, Field(ge=1)] | None = None,
    p: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    boundary: Boundary = "clamp",
    fill: Baseline = "mean",
) -> RawMaps:
    """Mean of the target's probability over random masks, weighted by how far each mask keeps the pixel.

    A mask is a grid of coin flips, 7×7 or with cells of 2 pixels on small images, enlarged bilinearly and
    shifted at random. All images get the same masks. The authors take 4000 to 8000 masks for 224-pixel images.
    """
    h, w = x.shape[2:]
    side = min(7, max(2, min(h, w) // 2)) if grid is None else grid
    bits, shifts = draw_masks(context.draws.seed, masks, side, p, h, w)
    blank = baseline_image(x, fill, context)

    def weighted(first: int, last: int) -> Tensor:
        kept = upsample_masks(bits[first:last], shifts[first:last], h, w, boundary).to(x)
        return weight_masks(model, x, target, blank, kept)

    return (sum_over_points(weighted, masks, x) / (masks * p)).to(x)


def draw_masks(
    seed: int, masks: int, side: int, p: float, h: int, w: int
) -> tuple[Float[Tensor, "m g g"], Int[Tensor, "m 2"]]:
    """Coin flips and shifts of all masks: small, so they are drawn at once, for all images the same."""
    source = generator(seed, "rise masks")
    bits = (torch.rand(masks, side, side, generator=source) < p).float()
    cells = torch.tensor([-(-h // side), -(-w // side)])
    shifts = (torch.rand(masks, 2, generator=source) * cells).long()
    return bits, shifts


def upsample_masks(
    bits: Float[Tensor, "m g g"], shifts: Int[Tensor, "m 2"], h: int, w: int, boundary: Boundary
) -> Float[Tensor, "m {h} {w}"]:
    """Masks in [0, 1]: the grids enlarged bilinearly to one cell more than the image, cut out at the shift.

    Beyond the outermost cell centres, `clamp` repeats the edge cell and `mirror` (the authors' choice) goes back to
    its neighbour.
    """
    places = []
    for axis, length in enumerate((h, w)):
        cells = bits.shape[axis + 1]
        enlarged = (cells + 1) * -(-length // cells)
        pixel = shifts[:, axis, None] + torch.arange(length).double()
        cell = (pixel + 0.5) * (cells / enlarged) - 0.5
        places.append(2 * cell / max(1, cells - 1) - 1)  # from -1 to 1 between the outermost centres
    rows, columns = places[0][:, :, None].expand(-1, h, w), places[1][:, None].expand(-1, h, w)
    padding = "border" if boundary == "clamp" else "reflection"
    where = torch.stack([columns, rows], -1)
    return F.grid_sample(bits[:, None].double(), where, padding_mode=padding, align_corners=True)[:, 0].float()


def weight_masks(
    model: nn.Module, x: Images, target: Labels, blank: Images, kept: Float[Tensor, "m h w"]
) -> Float[Tensor, "n m 1 h w"]:
    """Each mask times the target's probability for the image seen through it."""
    seen = torch.lerp(blank[:, None], x[:, None], kept[None, :, None])
    return scores_of(model, seen, target, "probability")[:, :, None, None, None] * kept[None, :, None]


# occlusion: how far the score falls when a window of the image is covered

Pixels = Annotated[int, Field(ge=1)]
Overlap = Literal["mean", "last"]


def _passes(window: int | None = None, stride: int | None = None, **_) -> float:
    # the image's size is not known here: a window is taken for an eighth of its side
    per_window = 2.0 if window is None or stride is None else window / stride
    return 0.5 * (1 + (8 * per_window + per_window - 1) ** 2)


@estimator(
    passes=_passes,
    channels=False,
    formula="mean over windows w on the pixel of f(x) − f(x without w)",
    paper="Zeiler and Fergus 2014",
    fails="sees nothing that is larger than the window or held in two places",
)
def occlusion(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    window: Pixels | None = None,
    stride: Pixels | None = None,
    fill: Baseline = "mean",
    score: Score = "probability",
    overlap: Overlap = "mean",
) -> RawMaps:
    """Fall of the target's probability when the window is covered, mean over the windows on the pixel.

    By default a window is an eighth of the shorter side, at least 2 pixels, and moves by half of itself. The
    first windows hang over the border, so that every pixel is in equally many of them (where `stride` divides
    `window`). `overlap="last"` keeps the last window's value instead, as released code does: then the value of a pixel
    speaks of the window to its lower right.
    """
    side = min(x.shape[2:])
    window = max(2, round(side / 8)) if window is None else window
    stride = max(1, window // 2) if stride is None else stride
    if stride > window:
        raise BadOption(
            f"occlusion: a stride of {stride} leaves gaps between windows of {window} pixels; "
            f"the stride must be at most the window."
        )
    if window > side:
        raise NotApplicable(f"a window of {window} pixels does not fit images of {side} pixels")
    blank = baseline_image(x, fill, context)
    places = windows(x.shape[2], x.shape[3], window, stride)

    def covered(first: int, last: int) -> Tensor:
        inside = torch.zeros(last - first, 1, *x.shape[2:], dtype=torch.bool)
        for row, window in enumerate(places[first:last]):
            inside[(row, 0, *window)] = True
        return torch.where(inside.to(x.device), blank[:, None], x[:, None])

    whole = target_scores(model, x, target, score)[:, None]
    falls = whole - scores_of_versions(model, x, target, score, len(places), covered)
    total = torch.zeros_like(x[:, 0], dtype=falls.dtype)
    times = torch.zeros_like(total[0])
    for fall, (rows, columns) in zip(falls.unbind(1), places, strict=True):
        if overlap == "last":
            total[:, rows, columns] = 0
            times[rows, columns] = 0
        total[:, rows, columns] += fall[:, None, None]
        times[rows, columns] += 1
    return (total / times)[:, None].to(x)


def windows(h: int, w: int, window: int, stride: int) -> list[tuple[slice, slice]]:
    """All windows that touch the image, row by row; those at the border are cut off."""
    first = stride - window
    return [
        (slice(max(y, 0), min(y + window, h)), slice(max(z, 0), min(z + window, w)))
        for y in range(first, h, stride)
        for z in range(first, w, stride)
    ]


# SISE: the model's own feature maps as masks, scored like RISE, and fused from fine to coarse layers

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
    with torch.enable_grad(), captured(*[layer.module for layer in layers]) as kept:
        total = class_scores(model, tracked(x), target).sum()
    outputs = kept()
    slopes = torch.autograd.grad(total, outputs, materialize_grads=True)
    return [(f.detach().contiguous(), g.double().mean((2, 3))) for f, g in zip(outputs, slopes, strict=True)]


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
    samples, channels = chosen.nonzero(as_tuple=True)
    for rows in spans(len(samples), rows_for(x)):
        sample = samples[rows]
        kept = feature_masks(features[sample, channels[rows]], (x.shape[2], x.shape[3]))
        seen = torch.lerp(blank[sample], x[sample], kept[:, None].to(x))
        weights = target_scores(model, seen, target[sample], "probability") / kept.sum((1, 2)).clamp_min(1e-6)
        total.index_add_(0, sample, weights[:, None, None] * kept)
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
        threshold = otsu(each.flatten(1))[:, None, None]
        inside = (each > threshold).to(each)
        if fusion == "soft":  # 1.5 times as high where fewer than a tenth of the pixels are above that
            above = (each > 1.5 * threshold).double().mean((1, 2), keepdim=True)
            inside = torch.sigmoid(100 * (each.double() - torch.where(above < 0.1, 1.5 * threshold, threshold)))
        silent = (each == 0).all(2).all(1)[:, None, None]
        total = torch.where(silent, total, (total + each) * inside)
    return total


def otsu(values: Float[Tensor, "n v"], among: Bool[Tensor, "n v"] | None = None) -> Float[Tensor, " n"]:
    """The threshold that best splits each row (or the chosen ones of its values) into low and high.

    Best: the largest variance between the two groups, over the edges of 256 bins from the lowest to the highest value.
    """
    among = torch.ones_like(values, dtype=torch.bool) if among is None else among
    values = values.double()
    low = torch.where(among, values, torch.inf).amin(1, keepdim=True)
    span = torch.where(among, values, -torch.inf).amax(1, keepdim=True) - low
    low, span = (torch.where(bound.isfinite(), bound, 0) for bound in (low, span))  # none chosen
    position = (values - low) / torch.where(span > 0, span, 1) * BINS
    counts = torch.zeros(len(values), BINS, dtype=torch.float64, device=values.device)
    counts.scatter_add_(1, position.long().clamp(0, BINS - 1), among.double())
    below = counts.cumsum(1)
    mass = (counts * (torch.arange(BINS, device=values.device) + 0.5)).cumsum(1)
    above = below[:, -1:] - below
    difference = mass / below.clamp_min(1) - (mass[:, -1:] - mass) / above.clamp_min(1)
    edge = (below * above * difference.square()).argmax(1, keepdim=True) + 1
    return (low + span * edge / BINS)[:, 0]


# linear models of the score as a function of which pieces of the image are there: LIME and Kernel SHAP

Side = Annotated[int, Field(ge=2)]
Samples = Annotated[int, Field(ge=1, le=100_000)]
Present = Float[Tensor, "s k"]
"""Which of k pieces are there in each of s versions: 1 or 0, in double precision."""


@estimator(
    passes=lambda samples=500, **_: samples / 2,
    channels=False,
    formula="argmin_φ Σ_z π(z) (f(z) − φ₀ − φ·z)² + ridge·|φ|²",
    paper="Ribeiro et al. 2016",
    fails="same value for a whole piece; depends on the pieces and the fill",
)
def lime(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    patches: Side | None = None,
    samples: Samples = 500,
    width: Annotated[float, Field(gt=0)] = 0.25,
    ridge: Annotated[float, Field(ge=0)] = 1.0,
    fill: Baseline = "mean",
    score: Score = "probability",
) -> RawMaps:
    """Weights of a ridge regression of the target's probability on the pieces that are there.

    `patches` pieces per side, by default 7, or fewer where they would be less than 2 pixels wide or have less than 4
    samples each. A piece is there with probability ½; versions that are closer to the whole image, by cosine distance,
    count more. All images get the same versions; the first is the whole image.
    """
    side = patches or max(2, min(7, min(x.shape[2:]) // 2, math.isqrt(samples // 4)))
    source = generator(context.draws.seed, "lime coalitions")
    present = (torch.rand(samples, side * side, generator=source) < 0.5).double()
    present[0] = 1
    distance = 1 - present.mean(1).sqrt()  # the cosine distance to the whole image
    effects = ridge_effects(present, torch.exp(-(distance / width).square()), ridge)
    pieces = grid_cells(x.shape[2], x.shape[3], side).to(x.device)
    blank = baseline_image(x, fill, context)
    scores = scores_of_presence(model, x, target, blank, pieces, present, score)
    return (scores @ effects.to(scores))[:, None, pieces].to(x)


def _shap_passes(samples: int = 500, patches: int | None = None, **_) -> float:
    pieces = 49 if patches is None else patches**2  # where the image and the samples allow it
    return min(samples, 2**pieces - 2) / 2 + 1


@estimator(
    passes=_shap_passes,
    channels=False,
    formula="argmin_φ Σ_z (k−1)/(C(k,|z|)·|z|·(k−|z|)) (f(z) − f(∅) − φ·z)², Σφ = f(x) − f(∅)",
    paper="Lundberg and Lee 2017",
    fails="same value for a whole piece; noisy where samples are few for the pieces",
)
def kernel_shap(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    patches: Side | None = None,
    samples: Samples = 500,
    fill: Baseline = "mean",
    score: Score = "logit",
) -> RawMaps:
    """Shapley values of the pieces of the image, as players that bring the target's score about.

    Over the pieces they sum to `score(x) - score(blank)`. They are exact where `samples` is enough for all sets of
    pieces (14 for `patches=2`); otherwise sets are drawn, each with its complement, the same for all images.
    """
    side = patches or max(2, min(7, min(x.shape[2:]) // 2, math.isqrt(samples // 4)))
    present, weights = coalitions(side * side, samples, context.draws.seed)
    effects, rest = shapley_effects(present, weights)
    pieces = grid_cells(x.shape[2], x.shape[3], side).to(x.device)
    blank = baseline_image(x, fill, context).contiguous()
    empty = target_scores(model, blank, target, score)[:, None]
    whole = target_scores(model, x, target, score)[:, None]
    scores = scores_of_presence(model, x, target, blank, pieces, present, score)
    values = (scores - empty) @ effects.to(scores) + (whole - empty) * rest.to(whole)
    return values[:, None, pieces].to(x)


def scores_of_presence(
    model: nn.Module,
    x: Images,
    target: Labels,
    blank: Images,
    pieces: Int[Tensor, "h w"],
    present: Present,
    score: Score,
) -> Float[Tensor, "n s"]:
    """Target scores of every image with only the pieces that are there."""

    def versions(first: int, last: int) -> Tensor:
        shown = present[first:last].bool().to(x.device)[:, pieces]
        return torch.where(shown[None, :, None], x[:, None], blank[:, None])

    return scores_of_versions(model, x, target, score, len(present), versions)


def ridge_effects(present: Present, weights: Float[Tensor, " s"], ridge: float) -> Float[Tensor, "s k"]:
    """How much each version's score moves each coefficient of a weighted ridge regression with an intercept."""
    centred = present - (weights[:, None] * present).sum(0) / weights.sum()
    weighted = weights[:, None] * centred
    normal = centred.T @ weighted + ridge * torch.eye(present.shape[1], dtype=present.dtype)
    return weighted @ _inverse(normal, present)


def coalitions(pieces: int, samples: int, seed: int) -> tuple[Present, Float[Tensor, " s"]]:
    """Sets of pieces, neither none nor all, with their weights: all of them if there are few, or drawn.

    Drawn sets come with Shapley's weight as probability, so that all count the same, and each with its complement.
    """
    if 2**pieces - 2 <= samples:
        present = torch.tensor(list(itertools.product((0.0, 1.0), repeat=pieces)))[1:-1].double()
        size = present.sum(1)
        log = torch.lgamma(size + 1) + torch.lgamma(pieces - size + 1)
        return present, torch.exp(log - log.max()) / (size * (pieces - size))
    source = generator(seed, "kernel_shap coalitions")
    size = torch.arange(1, pieces)
    chance = 1 / (size * (pieces - size)).double()
    drawn = 1 + torch.multinomial(chance, -(-samples // 2), replacement=True, generator=source)
    order = torch.rand(len(drawn), pieces, generator=source).argsort(1).argsort(1)
    present = (order < drawn[:, None]).double()
    present = torch.stack([present, 1 - present], 1).flatten(0, 1)[:samples]
    return present, torch.ones(len(present), dtype=torch.float64)


def shapley_effects(present: Present, weights: Float[Tensor, " s"]) -> tuple[Float[Tensor, "s k"], Float[Tensor, " k"]]:
    """How much each set's score, and the whole image's, moves each value of the constrained least squares."""
    weighted = weights[:, None] * present
    inverse = _inverse(present.T @ weighted, present)
    rest = inverse.sum(1) / inverse.sum()
    return weighted @ (inverse - rest[:, None] * inverse.sum(0)), rest


def _inverse(normal: Float[Tensor, "k k"], present: Present) -> Float[Tensor, "k k"]:
    try:
        factor = torch.linalg.cholesky(normal / normal.diagonal().max())
    except torch.linalg.LinAlgError:
        factor = torch.zeros(1, 1)
    if float(factor.diagonal().min()) < 1e-6:
        s, k = present.shape
        raise BadOption(f"{s} samples do not determine {k} pieces; give more samples or fewer patches.")
    return torch.cholesky_inverse(factor) / normal.diagonal().max()
