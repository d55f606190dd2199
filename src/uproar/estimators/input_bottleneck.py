"""Information bottleneck at the input: as fine as the image, guided by a bottleneck inside the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.batches import in_batches
from uproar.estimators.bottleneck import (
    START,
    Count,
    Fit,
    Noise,
    Positive,
    Samples,
    Sigma,
    Site,
    Steps,
    cross_entropy,
    descend,
    fit_bottleneck,
    prepare_iba,
    share_of,
    smoothed,
    step_noise,
)
from uproar.estimators.class_scores import rows_for
from uproar.estimators.featuremaps import bottleneck_layers
from uproar.estimators.layers import LayerName
from uproar.estimators.registry import Context, estimator
from uproar.estimators.wasserstein import FeatureMatching, GanSettings, fit_mask
from uproar.types import WITH_PROBABILITIES, Images, Labels, RawMaps

Epochs = Annotated[int, Field(ge=0, le=10_000)]
Size = Annotated[int, Field(ge=2, le=100_000)]
NonNegative = Annotated[float, Field(ge=0)]
Guide = Literal["share", "capacity"]


def prepare_input_iba(
    model: nn.Module, context: Context, *, layer: str | None = None, images: int = 1000, **_: Any
) -> dict[str, Tensor]:
    """What `iba` prepares, and the colour statistics of the training images."""
    train = context.training_images("input_iba")
    rows = torch.linspace(0, len(train) - 1, min(images, len(train))).long()
    std, mean = torch.std_mean(train.read(rows).double(), (0, 2, 3))
    # a channel that never varies is left as it is instead of blown up
    std = torch.where(std > 1e-6, std, 1.0)
    colour = {"colour_mean": mean.float(), "colour_std": std.float()}
    return {**prepare_iba(model, context, layer=layer, images=images), **colour}


def _passes(
    *,
    steps: int = 60,
    samples: int = 10,
    feature_steps: int = 10,
    epochs: int = 4,
    pool: int = 200,
    critic_steps: int = 5,
    **_: Any,
) -> float:
    # the critic looks at the first layers' forward pass alone; its own cost is small beside the network's
    return (steps + feature_steps) * samples + epochs * pool * (0.5 + 1 / critic_steps)


@estimator(
    passes=_passes,
    channels=False,
    softmax=True,
    kinds=WITH_PROBABILITIES,
    prepare=prepare_input_iba,
    default_layers=bottleneck_layers,
    needs="convolutions; training images",
    paper="Zhang et al. 2021",
    formula="λ of λx + (1 − λ)ε minimising CE + β · mean KL to a generated prior",
    fails="slow: one adversarial game per image; the prior depends on a short, noisy training",
)
def input_iba(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    state: Mapping[str, Tensor],
    *,
    layer: LayerName | None = None,
    beta: Positive = 1.0,
    steps: Steps = 60,
    lr: Positive = 1.0,
    samples: Samples = 10,
    sigma: Sigma = 1.0,
    feature_beta: Positive = 20.0,
    feature_steps: Steps = 10,
    guide: Guide = "share",
    epochs: Epochs = 4,
    pool: Size = 200,
    batch: Size = 32,
    groups: Count = 10,
    noise_mean: NonNegative = 2.0,
    noise_std: NonNegative = 5.0,
    critic_steps: Steps = 5,
    critic_lr: Positive = 5e-5,
    clip: Positive = 0.01,
    width: Steps = 16,
    mean_lr: Positive = 0.1,
    spread_lr: Positive = 0.05,
    mask_lr: Positive = 0.003,
    images: Count = 1000,
) -> RawMaps:
    """Share of each pixel that a bottleneck on the image lets through for the class, in [0, 1].

    In three steps: a bottleneck at `layer` (see `iba`) finds the features that are needed; a generator learns a mask
    on the image that leads to those features; a bottleneck on the image pays only for what it lets through beyond that
    mask.

    Three defaults are not the authors'. They take `epochs=20` for the second step: shorter here because one critic is
    trained per image. They take `beta=20` for the third, on 224×224 images: it weighs the mean over all values, so
    that on small images nothing at all would be worth its price. And the features to be imitated keep the share λ of
    the first step here; `guide="capacity"` multiplies with the information in nats, as the released code does.
    """
    site = Site.of(model, state)
    settings = GanSettings(
        epochs,
        pool,
        batch,
        groups,
        noise_mean,
        noise_std,
        critic_steps,
        critic_lr,
        clip,
        width,
        mean_lr,
        spread_lr,
        mask_lr,
    )
    colour = tuple(state[name].to(x).view(-1, 1, 1) for name in ("colour_mean", "colour_std"))

    def rows(x: Images, target: Labels, context: Context) -> Tensor:
        features = site.features(x, target)
        noise = step_noise(context, "input_iba feature noise", samples, features.shape[1:])
        layer_fit = Fit(feature_beta, feature_steps, lr)
        capacity, alpha = fit_bottleneck(site, x, target, features, noise, layer_fit)
        through = capacity if guide == "capacity" else share_of(alpha)
        start = first_mask(capacity, (x.shape[2], x.shape[3])).expand_as(x)
        prior = _prior(site, x, context, colour, features, through, start, settings)
        noise = step_noise(context, "input_iba noise", samples, x.shape[1:])
        alpha = fit_input_bottleneck(model, x, target, prior, colour, noise, Fit(beta, steps, lr, sigma))
        return share_of(alpha).mean(1, keepdim=True)

    return in_batches(rows, x, target, context, size=max(2, rows_for(x) // samples))


def _prior(
    site: Site,
    x: Images,
    context: Context,
    colour: tuple[Tensor, ...],
    features: Tensor,
    through: Tensor,
    start: Tensor,
    settings: GanSettings,
) -> Tensor:
    """The generator's mask of each image, (n, c, h, w), image after image: each training has its own random streams."""
    mean, std = colour
    masks = []
    for i in range(len(x)):
        image, draws = (x[i] - mean) / std, context.draws[i : i + 1]
        task = FeatureMatching(site.model, site.module, image, (mean, std), features[i], through[i], draws)
        masks.append(fit_mask(task, start[i], settings))
    return torch.stack(masks)


def first_mask(capacity: Tensor, size: tuple[int, int]) -> Tensor:
    """The information map of the layer, largest value 1, at the image's size: where the generator starts."""
    total = capacity.sum(1, keepdim=True).clamp_min(0)
    highest = total.flatten(1).amax(1).view(-1, 1, 1, 1)
    scaled = total / highest.clamp_min(torch.finfo(total.dtype).tiny)
    return F.interpolate(scaled, size=size, mode="bilinear", align_corners=False).clamp(0, 1)


def fit_input_bottleneck(
    model: nn.Module, x: Images, target: Labels, prior: Tensor, colour: tuple[Tensor, ...], noise: Noise, fit: Fit
) -> Tensor:
    """α of every channel value after the last step; the image is normalised, so that N(0, 1) fits it."""
    mean, std = colour
    normal = (x - mean) / std

    def step_of(number: int, alpha: Tensor) -> tuple[Tensor, Tensor]:
        share = smoothed(share_of(alpha), fit.sigma)
        cost = information_beyond(normal, share, prior)
        drawn = noise(number).to(x)
        mixed = share[:, None] * normal[:, None] + (1 - share)[:, None] * drawn
        loss = cross_entropy(model, (mean + std * mixed).flatten(0, 1), target, drawn.shape[1])
        return loss + fit.beta * cost.flatten(1).mean(1), cost

    return descend(step_of, torch.full_like(x, START), fit)[1]


def information_beyond(x: Tensor, share: Tensor, prior: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """KL divergence of λx + (1 − λ)ε from what the generator's mask g lets through of it, per value in nats.

    The prior of the second is g·λ·x + (1 − g·λ)ε with ε ~ N(mean, std²): nothing is paid where g = 1.
    """
    least = torch.finfo(x.dtype).eps
    wide = (1 - prior * share).clamp_min(least)
    apart = share * (1 - prior) * (x - mean) / (wide * std)
    ratio = ((1 - share).clamp_min(least) / wide).square()
    return -0.5 * (1 + ratio.log() - apart.square() - ratio)
