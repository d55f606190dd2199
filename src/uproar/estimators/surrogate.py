"""Linear models of the score as a function of which pieces of the image are there: LIME and Kernel SHAP."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadOption, NotApplicable
from uproar.estimators.class_scores import Score, scores_of_versions, target_scores
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.registry import Context, estimator
from uproar.seeds import generator
from uproar.types import Images, Labels, RawMaps

Segments = Literal["patches", "slic"]
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
    segments: Segments = "patches",
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
    side = _side(x, patches, samples)
    source = generator(context.draws.seed, "lime coalitions")
    present = (torch.rand(samples, side * side, generator=source) < 0.5).double()
    present[0] = 1
    effects = ridge_effects(present, closeness(present, width), ridge)
    pieces = segment(x, segments, side)
    blank = baseline_image(x, fill, context)
    scores = scores_of_presence(model, x, target, blank, pieces, present, score)
    return spread_over_pieces(pieces, combine_effects(scores, effects)).to(x)


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
    segments: Segments = "patches",
    samples: Samples = 500,
    fill: Baseline = "mean",
    score: Score = "logit",
) -> RawMaps:
    """Shapley values of the pieces of the image, as players that bring the target's score about.

    Over the pieces they sum to `score(x) - score(blank)`. They are exact where `samples` is enough for all sets of
    pieces (14 for `patches=2`); otherwise sets are drawn, each with its complement, the same for all images.
    """
    side = _side(x, patches, samples)
    present, weights = coalitions(side * side, samples, context.draws.seed)
    effects, rest = shapley_effects(present, weights)
    pieces = segment(x, segments, side)
    blank = baseline_image(x, fill, context).contiguous()
    empty = target_scores(model, blank, target, score)[:, None]
    whole = target_scores(model, x, target, score)[:, None]
    scores = scores_of_presence(model, x, target, blank, pieces, present, score)
    return spread_over_pieces(pieces, combine_effects(scores - empty, effects) + (whole - empty) * rest.to(whole)).to(x)


def _side(x: Images, patches: int | None, samples: int) -> int:
    if patches is not None:
        return patches
    return max(2, min(7, min(x.shape[2:]) // 2, math.isqrt(samples // 4)))


def scores_of_presence(
    model: nn.Module,
    x: Images,
    target: Labels,
    blank: Images,
    pieces: Int[Tensor, "n h w"],
    present: Present,
    score: Score,
) -> Float[Tensor, "n s"]:
    """Target scores of every image with only the pieces that are there."""

    def versions(first: int, last: int) -> Tensor:
        there = present[first:last].bool().to(x.device)[:, pieces].movedim(1, 0)
        return torch.where(there[:, :, None], x[:, None], blank[:, None])

    return scores_of_versions(model, x, target, score, len(present), versions)


def combine_effects(scores: Float[Tensor, "n s"], effects: Float[Tensor, "s k"]) -> Float[Tensor, "n k"]:
    """The versions' effects times their scores, added in a fixed order: a product of matrices may vary with n."""
    total = scores.new_zeros(len(scores), effects.shape[1])
    for column, effect in zip(scores.unbind(1), effects.to(scores), strict=True):
        total += column[:, None] * effect
    return total


def spread_over_pieces(pieces: Int[Tensor, "n h w"], values: Float[Tensor, "n k"]) -> Float[Tensor, "n 1 h w"]:
    """Each pixel with the value of its piece."""
    return values.gather(1, pieces.flatten(1)).view_as(pieces)[:, None]


def closeness(present: Present, width: float) -> Float[Tensor, " s"]:
    """exp(−d² / width²), d the cosine distance to the whole image; an empty image is at distance 1."""
    distance = 1 - present.mean(1).sqrt()
    return torch.exp(-(distance / width).square())


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


def segment(x: Images, kind: Segments, side: int) -> Int[Tensor, "n h w"]:
    """The number of each pixel's piece, 0 .. side² − 1, for every image on its own."""
    h, w = x.shape[2:]
    if side > min(h, w):
        raise NotApplicable(f"images of {h}×{w} pixels cannot be cut into {side}×{side} pieces")
    squares = patches(h, w, side).to(x.device)
    if kind == "patches":
        return squares.expand(len(x), h, w)
    return torch.stack([superpixels(image, squares) for image in x])


def patches(h: int, w: int, side: int) -> Int[Tensor, "{h} {w}"]:
    """`side` × `side` rectangles, as equal as the size allows, numbered row by row."""
    rows, columns = torch.arange(h) * side // h, torch.arange(w) * side // w
    return rows[:, None] * side + columns


def superpixels(
    image: Float[Tensor, "c h w"], start: Int[Tensor, "h w"], compactness: float = 0.1, rounds: int = 10
) -> Int[Tensor, "h w"]:
    """Pieces of similar colour and place: k-means on both, as in SLIC, from the pieces given.

    A distance of one piece counts as much as a difference of `compactness` in colour, on the scale [0, 1]. Pieces need
    not be connected, and a number may be left without pixels.
    """
    c, h, w = image.shape
    many = int(start.max()) + 1
    cell = (h * w / many) ** 0.5
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    places = torch.stack([rows, columns]).to(image) * (compactness / cell)
    points = torch.cat([image, places]).flatten(1).double()
    label = start.flatten()
    centres = points.new_zeros(c + 2, many)
    for _ in range(rounds):
        count = torch.bincount(label, minlength=many)
        sums = torch.zeros_like(centres).index_add_(1, label, points)
        centres = torch.where(count > 0, sums / count.clamp_min(1), centres)
        distance = points.new_zeros(h * w, many)
        for values, centre in zip(points, centres, strict=True):
            distance += (values[:, None] - centre).square()
        label = distance.argmin(1)
    return label.view(h, w)
