"""Information bottleneck: noise put into a feature map until only what the class needs comes through.

Per image, a share λ in [0, 1] of every feature is let through and the rest replaced by noise that looks like the
features of training images. λ is found by gradient descent on cross-entropy + β · information let through, in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.batches import in_batches, spans
from uproar.data.task import Split
from uproar.estimators.class_scores import class_scores, rows_for
from uproar.estimators.featuremaps import (
    bottleneck_layers,
    channels_last,
    features_at,
    middle_feature_map,
    named_feature_map,
    output_replaced,
    outputs_kept,
)
from uproar.estimators.layers import LayerName
from uproar.estimators.registry import Context, estimator
from uproar.models.borrow import borrowed, device_of
from uproar.models.forward import forward
from uproar.models.output_kind import target_loss
from uproar.removal.fill import gaussian_kernel, mirrored
from uproar.types import WITH_PROBABILITIES, Images, Labels, RawMaps

Steps = Annotated[int, Field(ge=1, le=10_000)]
Samples = Annotated[int, Field(ge=1, le=1_000)]
Positive = Annotated[float, Field(gt=0)]
Sigma = Annotated[float, Field(ge=0)] | None
Count = Annotated[int, Field(ge=2)]

START = 5.0
"""Where α starts: sigmoid(5) = 0.993, so nearly everything is let through at first."""
LEAST_STD = 0.01
ACTIVE = 0.01
"""A feature counts if it is not zero in more than this share of the training images."""

Noise = Callable[[int], Tensor]
"""Standard normal numbers of one step, (n, samples, *shape)."""


@dataclass(frozen=True)
class Site:
    """Where the bottleneck stands: a module, and statistics of each of its features on training images, (c, h, w)."""

    model: nn.Module
    module: nn.Module
    mean: Tensor
    std: Tensor
    active: Tensor

    @classmethod
    def of(cls, model: nn.Module, state: Mapping[str, Tensor]) -> Site:
        """The module and the statistics that were prepared."""
        module = list(model.modules())[int(state["place"])]
        return cls(model, module, state["mean"], state["std"], state["active"])

    def features(self, x: Images, target: Labels) -> Tensor:
        """The features of these images, once the model and the targets are known to fit."""
        with outputs_kept([self.module]) as features:
            class_scores(self.model, channels_last(x), target)
        return features()[0].contiguous()


@dataclass(frozen=True)
class Fit:
    """How λ is fitted: the weight of information, steps of Adam and their rate, width of the Gaussian over features."""

    beta: float
    steps: int
    lr: float
    sigma: float | None = None


def prepare_iba(
    model: nn.Module, context: Context, *, layer: str | None = None, images: int = 1000, **_: Any
) -> dict[str, Tensor]:
    """The layer's place among the model's modules, and its statistics on training images."""
    train = context.training_images("iba")
    with borrowed(model), torch.no_grad():
        probe = train.read(slice(0, 2)).to(device_of(model))
        chosen = named_feature_map(model, probe, layer) if layer else middle_feature_map(model, probe)
        known = statistics(model, chosen.module, train, images)
    place = [name for name, _ in model.named_modules()].index(chosen.name)
    return {"place": torch.tensor([place]), **known}


@estimator(
    passes=lambda steps=10, samples=10, **_: steps * samples,
    channels=False,
    softmax=True,
    kinds=WITH_PROBABILITIES,
    prepare=prepare_iba,
    default_layers=bottleneck_layers,
    needs="convolutions; training images",
    paper="Schulz et al. 2020",
    formula="Σ_channels KL(λr + (1 − λ)ε ‖ ε) in bits per pixel, λ minimising CE + β · mean KL",
    fails="coarse: the resolution is the layer's; around a shortcut information goes unseen",
)
def iba(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    state: Mapping[str, Tensor],
    *,
    layer: LayerName | None = None,
    beta: Positive = 10.0,
    steps: Steps = 10,
    lr: Positive = 1.0,
    samples: Samples = 10,
    sigma: Sigma = 1.0,
    images: Count = 1000,
) -> RawMaps:
    """Information on the image that a bottleneck at `layer` lets through for the class, in bits per pixel.

    Unless named, the layer is the deepest feature map that is still fine (an eighth of the image's sides and 8 pixels,
    or a quarter of a small image's) with a convolution after it. `samples` noisy copies share one λ, smoothed
    with a Gaussian of `sigma` features (0: not); `images` training images give the noise its mean and spread.
    """
    site, fit = Site.of(model, state), Fit(beta, steps, lr, sigma)

    def batch(x: Images, target: Labels, context: Context) -> Tensor:
        features = site.features(x, target)
        noise = step_noise(context, "iba noise", samples, features.shape[1:])
        capacity, _ = fit_bottleneck(site, x, target, features, noise, fit)
        return bits_per_pixel(capacity, (x.shape[2], x.shape[3]))

    return in_batches(batch, x, target, context, size=max(2, rows_for(x) // samples))


def step_noise(context: Context, purpose: str, samples: int, shape: tuple[int, ...]) -> Noise:
    """Noise of each step, every image with a stream of its own."""
    return lambda step: context.draws.normal(f"{purpose} {step}", samples, *shape)


def statistics(model: nn.Module, module: nn.Module, train: Split, images: int) -> dict[str, Tensor]:
    """Mean, standard deviation (n − 1) and activity of every feature, over evenly spread training images."""
    rows = torch.linspace(0, len(train) - 1, min(images, len(train))).long()
    count = 0
    mean = square = nonzero = torch.zeros(())
    for part in spans(len(rows), rows_for(train.read(rows[:1]))):
        features = features_at(model, module, train.read(rows[part]).to(device_of(model))).double()
        # sums of squares around the mean so far are joined part by part: no large numbers are subtracted
        size, own = len(features), features.mean(0)
        shift = own - mean
        square = square + (features - own).square().sum(0) + shift.square() * (count * size / (count + size))
        count += size
        mean = mean + shift * (size / count)
        nonzero = nonzero + (features != 0).sum(0)
    std = (square / max(1, count - 1)).sqrt()
    return {"mean": mean.float(), "std": std.float(), "active": nonzero / count > ACTIVE}


def fit_bottleneck(
    site: Site, x: Images, target: Labels, features: Tensor, noise: Noise, fit: Fit
) -> tuple[Tensor, Tensor]:
    """Information let through per feature in nats at the last step, and α after it, (n, c, h, w) each."""
    mean, std = site.mean.to(features), site.std.to(features).clamp_min(LEAST_STD)
    active = site.active.to(features)

    def step_of(number: int, alpha: Tensor) -> tuple[Tensor, Tensor]:
        share = smoothed(share_of(alpha), fit.sigma)
        capacity = information(features, share, mean, std) * active
        drawn = mean + std * noise(number).to(features)
        mixed = (share * features)[:, None] + (1 - share)[:, None] * drawn
        copies = mixed.shape[1]
        with output_replaced(site.module, lambda _: channels_last((mixed * active).flatten(0, 1))):
            loss = cross_entropy(site.model, x.repeat_interleave(copies, 0), target, copies)
        return loss + fit.beta * capacity.flatten(1).mean(1), capacity

    return descend(step_of, torch.full_like(features, START), fit)


def descend(step_of: Callable[[int, Tensor], tuple[Tensor, Tensor]], start: Tensor, fit: Fit) -> tuple[Tensor, Tensor]:
    """Adam on a loss per image; gives what the last step returned beside its loss, and α after it.

    Losses are added, so that an image's α follows its own loss alone; Adam, written out, treats every number by itself.
    """
    alpha, seen = start.clone(), start
    first, second = torch.zeros_like(alpha), torch.zeros_like(alpha)
    for step in range(fit.steps):
        with torch.enable_grad():
            loss, seen = step_of(step, alpha.requires_grad_())
            (gradient,) = torch.autograd.grad(loss.sum(), alpha)
        alpha = alpha.detach()
        first.lerp_(gradient, 1 - 0.9)
        second.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
        scale = (second / (1 - 0.999 ** (step + 1))).sqrt_().add_(1e-8)
        alpha.addcdiv_(first, scale, value=-fit.lr / (1 - 0.9 ** (step + 1)))
    return seen.detach(), alpha


def cross_entropy(model: nn.Module, x: Tensor, target: Labels, copies: int) -> Tensor:
    """Mean cross-entropy over the copies of each image, (n,); x holds them image by image, (n · copies, ...)."""
    loss = target_loss(forward(model, channels_last(x)), target.repeat_interleave(copies))
    return loss.view(-1, copies).mean(1)


def share_of(alpha: Tensor) -> Tensor:
    """1 / (1 + exp(−α)): the share of a feature that a bottleneck lets through."""
    return alpha.sigmoid()


def information(features: Tensor, share: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """KL divergence of λr + (1 − λ)ε from the noise ε ~ N(mean, std²), per feature in nats."""
    kept = share * (features - mean) / std
    # a feature let through entirely costs much, not infinitely much
    rest = (1 - share).clamp_min(torch.finfo(share.dtype).eps).square()
    return -0.5 * (1 + rest.log() - kept.square() - rest)


def smoothed(share: Tensor, sigma: float | None) -> Tensor:
    """Each channel of (n, c, h, w) filtered with a Gaussian cut off at 2σ; the border is mirrored.

    Written as sums of shifted maps: the result cannot depend on how a convolution is blocked.
    """
    radius = round(2 * sigma) if sigma else 0
    if not sigma or not radius:
        return share
    weights = gaussian_kernel(torch.arange(-radius, radius + 1), sigma)
    for dim in (2, 3):
        size = share.shape[dim]
        padded = share.index_select(dim, mirrored(size, radius, radius).to(share.device))
        share = torch.zeros_like(share)
        for shift, weight in enumerate(weights.tolist()):
            share = share + weight * padded.narrow(dim, shift, size)
    return share


def bits_per_pixel(capacity: Tensor, size: tuple[int, int]) -> Tensor:
    """Nats per feature as bits per pixel of the image, (n, 1, h, w)."""
    h, w = capacity.shape[2:]
    scale = h * w / (size[0] * size[1]) / math.log(2)
    bits = capacity.sum(1, keepdim=True) * scale
    return F.interpolate(bits, size=size, mode="bilinear", align_corners=False)
