"""Maps that are trained: information bottlenecks for each image, and TAME's attention branch for all.

Information bottleneck: noise is put into a feature map until only what the class needs comes through. A share λ in
[0, 1] of every feature is let through and the rest replaced by noise that looks like the features of training images.
λ is found by gradient descent on cross-entropy + β · information let through, in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.data.task import Split
from uproar.estimators.class_scores import class_scores, rows_for
from uproar.estimators.layers import (
    FeatureMap,
    LayerName,
    bottleneck_layers,
    captured,
    channels_last,
    features_at,
    middle_feature_map,
    named_feature_map,
    output_replaced,
    pyramid,
    pyramid_layers,
)
from uproar.estimators.registry import Context, estimator
from uproar.estimators.transforms import gaussian_filter
from uproar.models.forward import borrowed, device_of, forward
from uproar.models.output_kind import predicted_target, target_loss
from uproar.registry import options_of
from uproar.seeds import Draws, generator, key
from uproar.tensors import in_batches, spans
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

Noise = Callable[[int, tuple[int, ...]], Tensor]
"""`(step, shape)`: standard normal numbers of one step, (n, samples, *shape), every image with a stream of its own."""


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
        with captured(self.module) as features:
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
    index = [name for name, _ in model.named_modules()].index(chosen.name)
    return {"place": torch.tensor([index]), **known}


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
        noise = noise_of("iba noise", context, samples)
        capacity, _ = fit_bottleneck(site, x, target, site.features(x, target), noise, fit)
        return bits_per_pixel(capacity, (x.shape[2], x.shape[3]))

    return in_batches(batch, x, target, context, size=max(2, rows_for(x) // samples))


def noise_of(purpose: str, context: Context, samples: int) -> Noise:
    """The noise of each step for so many noisy copies of every image."""
    return lambda step, shape: context.draws.normal(f"{purpose} {step}", samples, *shape)


def statistics(model: nn.Module, module: nn.Module, train: Split, images: int) -> dict[str, Tensor]:
    """Mean, standard deviation (n − 1) and activity of every feature, over evenly spread training images."""
    rows = spread_rows(train, images)
    total = square = nonzero = torch.zeros(())
    for chunk in spans(len(rows), rows_for(train.read(rows[:1]))):
        features = features_at(model, module, train.read(rows[chunk]).to(device_of(model))).double()
        total, square = total + features.sum(0), square + features.square().sum(0)
        nonzero = nonzero + (features != 0).sum(0)
    count = len(rows)
    mean = total / count
    std = ((square - count * mean.square()).clamp_min(0) / max(1, count - 1)).sqrt()
    return {"mean": mean.float(), "std": std.float(), "active": nonzero / count > ACTIVE}


def spread_rows(train: Split, images: int) -> Tensor:
    """The rows of so many images, evenly spread over the training images."""
    return torch.linspace(0, len(train) - 1, min(images, len(train))).long()


def fit_bottleneck(
    site: Site, x: Images, target: Labels, features: Tensor, noise: Noise, fit: Fit
) -> tuple[Tensor, Tensor]:
    """Information let through per feature in nats at the last step, and α after it, (n, c, h, w) each."""
    mean, std = site.mean.to(features), site.std.to(features).clamp_min(LEAST_STD)
    active = site.active.to(features)

    def step_of(number: int, alpha: Tensor) -> tuple[Tensor, Tensor]:
        share = smoothed(alpha.sigmoid(), fit.sigma)
        capacity = information(features, share, mean, std) * active
        drawn = mean + std * noise(number, features.shape[1:]).to(features)
        mixed = (share * features)[:, None] + (1 - share)[:, None] * drawn
        copies = mixed.shape[1]
        with output_replaced(site.module, lambda _: channels_last((mixed * active).flatten(0, 1))):
            loss = cross_entropy(site.model, x.repeat_interleave(copies, 0), target, copies)
        return loss + fit.beta * capacity.flatten(1).mean(1), capacity

    return descend(step_of, torch.full_like(features, START), fit)


def descend(step_of: Callable[[int, Tensor], tuple[Tensor, Tensor]], start: Tensor, fit: Fit) -> tuple[Tensor, Tensor]:
    """Adam on a loss per image; gives what the last step returned beside its loss, and α after it.

    Losses are added, so that an image's α follows its own loss alone.
    """
    alpha, seen = start.clone().requires_grad_(), start
    optimiser = torch.optim.Adam([alpha], fit.lr)
    for step in range(fit.steps):
        with torch.enable_grad():
            loss, seen = step_of(step, alpha)
            loss.sum().backward(inputs=[alpha])
        optimiser.step()
        optimiser.zero_grad()
    return seen.detach(), alpha.detach()


def cross_entropy(model: nn.Module, x: Tensor, target: Labels, copies: int) -> Tensor:
    """Mean cross-entropy over the copies of each image, (n,); x holds them image by image, (n · copies, ...)."""
    loss = target_loss(forward(model, channels_last(x)), target.repeat_interleave(copies))
    return loss.view(-1, copies).mean(1)


def information(x: Tensor, share: Tensor, mean: Tensor, std: Tensor, prior: Tensor | float = 0.0) -> Tensor:
    """KL divergence of λx + (1 − λ)ε from the noise ε ~ N(mean, std²), per value in nats.

    With a `prior` g, the divergence from what g lets through of it, g·λ·x + (1 − g·λ)ε: nothing is paid where g = 1.
    """
    least = torch.finfo(x.dtype).eps  # a value let through entirely costs much, not infinitely much
    wide = (1 - prior * share).clamp_min(least)
    apart = share * (1 - prior) * (x - mean) / (wide * std)
    ratio = ((1 - share).clamp_min(least) / wide).square()
    return -0.5 * (1 + ratio.log() - apart.square() - ratio)


def smoothed(share: Tensor, sigma: float | None) -> Tensor:
    """Each channel of (n, c, h, w) filtered with a Gaussian cut off at 2σ; the border is mirrored."""
    return gaussian_filter(share, sigma, round(2 * sigma), "mirror") if sigma and round(2 * sigma) else share


def bits_per_pixel(capacity: Tensor, size: tuple[int, int]) -> Tensor:
    """Nats per feature as bits per pixel of the image, (n, 1, h, w)."""
    h, w = capacity.shape[2:]
    scale = h * w / (size[0] * size[1]) / math.log(2)
    bits = capacity.sum(1, keepdim=True) * scale
    return F.interpolate(bits, size=size, mode="bilinear", align_corners=False)


# information bottleneck at the input: as fine as the image, guided by a bottleneck inside the network

Epochs = Annotated[int, Field(ge=0, le=10_000)]
Size = Annotated[int, Field(ge=2, le=100_000)]
NonNegative = Annotated[float, Field(ge=0)]
Guide = Literal["share", "capacity"]


def prepare_input_iba(
    model: nn.Module, context: Context, *, layer: str | None = None, images: int = 1000, **_: Any
) -> dict[str, Tensor]:
    """What `iba` prepares, and the colour statistics of the training images."""
    train = context.training_images("input_iba")
    std, mean = torch.std_mean(train.read(spread_rows(train, images)).double(), (0, 2, 3))
    # a channel that never varies is left as it is instead of blown up
    std = torch.where(std > 1e-6, std, 1.0)
    colour = {"colour_mean": mean.float(), "colour_std": std.float()}
    return {**prepare_iba(model, context, layer=layer, images=images), **colour}


def fit_input_bottleneck(
    model: nn.Module, x: Images, target: Labels, prior: Tensor, colour: tuple[Tensor, ...], noise: Noise, fit: Fit
) -> Tensor:
    """α of every channel value after the last step; the image is normalised, so that N(0, 1) fits it."""
    mean, std = colour
    normal = (x - mean) / std

    def step_of(number: int, alpha: Tensor) -> tuple[Tensor, Tensor]:
        share = smoothed(alpha.sigmoid(), fit.sigma)
        cost = information(normal, share, torch.zeros_like(mean), torch.ones_like(std), prior)
        drawn = noise(number, x.shape[1:]).to(x)
        mixed = share[:, None] * normal[:, None] + (1 - share)[:, None] * drawn
        loss = cross_entropy(model, (mean + std * mixed).flatten(0, 1), target, drawn.shape[1])
        return loss + fit.beta * cost.flatten(1).mean(1), cost

    return descend(step_of, torch.full_like(x, START), fit)[1]


# A mask on the image whose noisy versions look, at a layer inside the network, like given noisy features
# Both are noise mixed in by a mask: the generator mixes noise into the image and sends it through the first layers; a
# critic learns to tell the result from the features; the mask, and the noise's mean and spread, are moved until it
# cannot. One small network is trained per image, with weights and noise from that image's own random streams.


@dataclass(frozen=True)
class FeatureMatching:
    """One image, a module of the network, and the features that noisy versions of the image are to match there."""

    model: nn.Module
    module: nn.Module
    image: Tensor
    """Normalised to zero mean and unit variance of the training images, (c, h, w)."""
    colour: tuple[Tensor, Tensor]
    """Mean and standard deviation that make pixels of it again, (c, 1, 1) each."""
    features: Tensor
    let_through: Tensor
    """The share of each feature that is kept; noise replaces the rest."""
    draws: Draws
    """Random streams of this image."""

    def normal(self, purpose: str, *shape: int) -> Tensor:
        """Standard normal numbers of this image."""
        return self.draws.normal(f"input_iba {purpose}", *shape)[0].to(self.image)

    def uniform(self, purpose: str, *shape: int) -> Tensor:
        """Uniform numbers of this image."""
        return self.draws.uniform(f"input_iba {purpose}", *shape)[0].to(self.image)

    def generated(self, mean: Tensor, spread: Tensor, mask: Tensor, draw: Tensor) -> Tensor:
        """The features of noisy versions of the image."""
        mixed = mask * self.image + (1 - mask) * (mean + spread * draw)
        colour, contrast = self.colour
        return features_at(self.model, self.module, colour + contrast * mixed)


def fit_mask(
    task: FeatureMatching,
    start: Tensor,
    *,
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
) -> Tensor:
    """The generator's mask after training, (c, h, w) in [0, 1], from the mask it starts with: a Wasserstein GAN.

    A pool of noisy features is to be matched. Their noise comes in groups, each with a mean (uniform in ± `noise_mean`)
    and a spread (between 0 and `noise_std`) of its own; each batch meets all groups. The critic makes `critic_steps`
    steps per step of the generator.
    """
    # a fresh critic from the image's own stream, inside the clip from the start
    c, h, w = task.features.shape
    critic: list[Tensor] = []
    for number, shape in enumerate([(width, c, 3, 3), (width, width, 3, 3), (1, width * -(-h // 4) * -(-w // 4))]):
        drawn = (2 * task.uniform(f"critic {number}", *shape) - 1) * clip
        critic += [drawn.requires_grad_(), drawn.new_zeros(shape[0]).requires_grad_()]
    mean, spread, mask = torch.zeros_like(task.image), torch.ones_like(task.image), start.clone()
    rates = ((mean, mean_lr), (spread, spread_lr), (mask, mask_lr))
    parameters = [{"params": [values.requires_grad_()], "lr": rate} for values, rate in rates]
    critic_optimiser = torch.optim.RMSprop(critic, critic_lr, maximize=True)
    generator_optimiser = torch.optim.RMSprop(parameters, maximize=True)
    level = task.uniform("groups", groups, 2)
    means, spreads = (2 * level[:, 0] - 1) * noise_mean, level[:, 1] * noise_std
    batches = list(spans(pool, batch))
    for step in range(1, epochs * len(batches) + 1):
        number = (step - 1) % len(batches)  # the noise of a batch is the same in every epoch
        group = torch.arange(batches[number].start, batches[number].stop) % groups
        noise = task.normal(f"features {number}", len(group), *task.features.shape)
        noise = means[group].view(-1, 1, 1, 1) + spreads[group].view(-1, 1, 1, 1) * noise
        real = task.let_through * task.features + (1 - task.let_through) * noise
        draw = task.normal(f"generator {step}", len(real), *task.image.shape)
        with torch.no_grad():
            fake = task.generated(mean, spread, mask, draw)
        with torch.enable_grad():
            gain = criticised(critic, real) - criticised(critic, fake)
            gain.backward(inputs=critic)
        critic_optimiser.step()
        critic_optimiser.zero_grad()
        for weight in critic:
            weight.data.clamp_(-clip, clip)
        if step % critic_steps == 0:
            with torch.enable_grad():
                gain = criticised(critic, task.generated(mean, spread, mask, draw))
                gain.backward(inputs=[mean, spread, mask])
            generator_optimiser.step()
            generator_optimiser.zero_grad()
            mask.data.clamp_(0, 1)
    return mask.detach()


def criticised(weights: list[Tensor], features: Tensor) -> Tensor:
    """Two strided 3×3 convolutions and a weighted sum: the mean over feature maps of one number each."""
    first, b1, second, b2, last, b3 = weights
    a = F.leaky_relu(F.conv2d(features, first, b1, stride=2, padding=1), 0.2)
    a = F.leaky_relu(F.conv2d(a, second, b2, stride=2, padding=1), 0.2)
    return F.linear(a.flatten(1), last, b3).mean()


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
@options_of(fit_mask)
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
    images: Count = 1000,
    **game: Any,
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
    colour = state["colour_mean"].to(x).view(-1, 1, 1), state["colour_std"].to(x).view(-1, 1, 1)

    def rows(x: Images, target: Labels, context: Context) -> Tensor:
        features = site.features(x, target)
        noise = noise_of("input_iba feature noise", context, samples)
        capacity, alpha = fit_bottleneck(site, x, target, features, noise, Fit(feature_beta, feature_steps, lr))
        through = capacity if guide == "capacity" else alpha.sigmoid()
        # the generator starts with the information map of the layer, its largest value 1
        total = capacity.sum(1, keepdim=True).clamp_min(0)
        scaled = total / total.amax((1, 2, 3), keepdim=True).clamp_min(torch.finfo(total.dtype).tiny)
        start = F.interpolate(scaled, x.shape[2:], mode="bilinear", align_corners=False).clamp(0, 1).expand_as(x)
        masks = []
        for i in range(len(x)):  # image after image: each training has its own random streams
            image, draws = (x[i] - colour[0]) / colour[1], context.draws[i : i + 1]
            task = FeatureMatching(model, site.module, image, colour, features[i], through[i], draws)
            masks.append(fit_mask(task, start[i], **game))
        prior, noise = torch.stack(masks), noise_of("input_iba noise", context, samples)
        alpha = fit_input_bottleneck(model, x, target, prior, colour, noise, Fit(beta, steps, lr, sigma))
        return alpha.sigmoid().mean(1, keepdim=True)

    return in_batches(rows, x, target, context, size=max(2, rows_for(x) // samples))


# TAME: an attention branch trained on the features of a frozen network

LARGEST = 56
"""Side of the largest attention map; finer feature maps are brought down to it."""


class Branch(nn.Module):
    """Attention maps before the sigmoid, one per class, from feature maps of one to three layers."""

    def __init__(self, channels: list[int], classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c, c, 1) for c in channels)
        self.bns = nn.ModuleList(nn.BatchNorm2d(c) for c in channels)
        self.fuser = nn.Conv2d(sum(channels), classes, 1)

    def forward(self, maps: list[Tensor]) -> Tensor:
        size = [min(side, LARGEST) for side in maps[0].shape[2:]]
        layers = zip(maps, self.convs, self.bns, strict=True)
        seen = [F.relu(norm(conv(a)) + a) for a, conv, norm in layers]
        seen = [F.interpolate(a, size=size, mode="bilinear", align_corners=False) for a in seen]
        fused: Tensor = self.fuser(torch.cat(seen, 1))
        return fused


def select_class(maps: Tensor, target: Labels) -> Tensor:
    """Each image's map of its own class, (n, 1, h, w)."""
    return maps[torch.arange(len(maps)), target][:, None]


def train_branch(
    model: nn.Module,
    maps: list[FeatureMap],
    train: Split,
    seed: int,
    *,
    epochs: Annotated[int, Field(ge=1)] = 4,
    lr: Positive = 0.005,
    batch: Count = 32,
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.9,
    weight_decay: NonNegative = 5e-4,
    ce: NonNegative = 1.5,
    area: NonNegative = 2.0,
    variation: NonNegative = 0.01,
    images: Count = 4096,
) -> Branch:
    """A branch trained to keep the frozen model's own predictions, in evaluation mode."""
    modules = [each.module for each in maps]
    with torch.no_grad():
        classes = forward(model, train.read(slice(0, 2)).to(device_of(model))).shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "tame initialisation"))
        branch = Branch([each.shape[0] for each in maps], classes).train().to(device_of(model))
    used = spread_rows(train, images)
    # full batches in a new random order in every epoch; one batch of all where there are fewer images
    n, order = len(used), generator(seed, "tame batches")
    full = list(spans(max(n - n % batch, min(n, batch)), batch))
    batches = [rows[chunk] for rows in (torch.randperm(n, generator=order) for _ in range(epochs)) for chunk in full]
    # Nesterov momentum on one cycle; biases learn twice as fast and do not decay
    named = list(branch.named_parameters())
    groups = [
        {"params": [p for name, p in named if not name.endswith("bias")], "weight_decay": weight_decay},
        {"params": [p for name, p in named if name.endswith("bias")], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=True)
    rates = [lr, 2 * lr]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rates, total_steps=len(batches), cycle_momentum=False)
    for rows in batches:
        x = train.read(used[rows]).to(device_of(model))
        with torch.no_grad(), captured(*modules) as features:
            labels = predicted_target(forward(model, x))
        with torch.enable_grad():
            masks = select_class(branch(features()), labels).sigmoid()
            fine = F.interpolate(masks, size=x.shape[2:], mode="bilinear", align_corners=False)
            parts = losses(forward(model, x * fine), labels, masks)
            loss = ce * parts[0] + area * parts[1] + variation * parts[2]
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
        schedule.step()
    return branch.eval().requires_grad_(False)


def losses(scores: Tensor, labels: Labels, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of the masked images, size of the masks, and their unevenness (border pixels count as edges)."""
    area = (masks + 0.0005).pow(0.3).mean()
    steps = masks.diff(dim=2).square().sum() + masks.diff(dim=3).square().sum()
    border = masks[:, :, [0, -1]].square().sum() + masks[..., [0, -1]].square().sum()
    return target_loss(scores, labels, "mean"), area, (steps + 0.3 * border) / (2 * len(masks))


def prepare_tame(
    model: nn.Module, context: Context, *, layers: tuple[str, ...] | None = None, **options: Any
) -> dict[str, Tensor]:
    """The places of the layers among the model's modules, and the weights of the trained branch."""
    train = context.training_images("tame")
    with borrowed(model):
        probe = train.read(slice(0, 2)).to(device_of(model))
        maps = [named_feature_map(model, probe, name) for name in layers or ()] or pyramid(model, probe, 3)
        maps.sort(key=lambda each: -each.shape[1] * each.shape[2])  # finest first
        branch = train_branch(model, maps, train, context.draws.seed, **options)
    names = [name for name, _ in model.named_modules()]
    places = torch.tensor([names.index(each.name) for each in maps])
    return {"places": places, **branch.state_dict()}


@estimator(
    passes=0.5,
    channels=False,
    softmax=True,
    kinds=WITH_PROBABILITIES,
    prepare=prepare_tame,
    default_layers=pyramid_layers,
    needs="convolutions; training images",
    paper="Ntrougkas et al. 2022",
    formula="attention map of the class, before the sigmoid",
    fails="shows what a trained branch learned; the class predicted for black needs no pixels",
)
@options_of(train_branch)
def tame(
    model: nn.Module,
    x: Images,
    target: Labels,
    state: Mapping[str, Tensor],
    *,
    layers: tuple[LayerName, ...] | None = None,
    **_: Any,
) -> RawMaps:
    """Attention of a branch that learned, on training images, which pixels keep the network's prediction.

    Up to three layers are used, unless named: the deepest feature map of each of the three coarsest resolutions. The
    branch learns to mask images so that the frozen network still predicts the same (`ce`), with small (`area`) and
    smooth (`variation`) masks. The authors train on 1.3 million images with `epochs=8, lr=5e-5` (VGG-16) or `epochs=4,
    lr=1e-4` (ResNet-50); the default rate is larger because small data sets give few steps. The losses of an image see
    the mask of its own class; the released code mixes in those of all classes in the batch.
    """
    modules, places = list(model.modules()), state["places"].tolist()
    weights = {name: value for name, value in state.items() if name != "places"}
    with torch.device("meta"):
        branch = Branch([len(weights[f"convs.{i}.weight"]) for i in range(len(places))], len(weights["fuser.weight"]))
    branch.load_state_dict(weights, assign=True)
    with captured(*[modules[i] for i in places]) as features:
        class_scores(model, channels_last(x), target)
    attention = select_class(branch.eval().requires_grad_(False).to(x.device)(features()), target)
    return F.interpolate(attention, size=x.shape[2:], mode="bilinear", align_corners=False)
