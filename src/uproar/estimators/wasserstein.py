"""A mask on the image whose noisy versions look, at a layer inside the network, like given noisy features.

Both are noise mixed in by a mask: the generator mixes noise into the image and sends it through the first layers; a
critic learns to tell the result from the features; the mask, and the noise's mean and spread, are moved until it
cannot. One small network is trained per image, with weights and noise from that image's own random streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.batches import spans
from uproar.estimators.featuremaps import features_at
from uproar.seeds import Draws


@dataclass(frozen=True)
class GanSettings:
    """Settings of the adversarial training (Wasserstein GAN) of mask generator and critic."""

    epochs: int = 20
    pool: int = 200
    """Noisy features to be matched."""
    batch: int = 32
    groups: int = 10
    """The pool's noise comes in groups, each with a mean and a spread of its own."""
    noise_mean: float = 2.0
    """A group's mean is uniform in ± this."""
    noise_std: float = 5.0
    """A group's spread is uniform between 0 and this."""
    critic_steps: int = 5
    """Steps of the critic per step of the generator."""
    critic_lr: float = 5e-5
    clip: float = 0.01
    width: int = 16
    mean_lr: float = 0.1
    spread_lr: float = 0.05
    mask_lr: float = 0.003


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

    def pool(self, settings: GanSettings) -> Iterator[Tensor]:
        """The noisy features, batch by batch, the same in every epoch; each batch meets all groups."""
        level = self.draws.uniform("input_iba groups", settings.groups, 2)[0].to(self.image)
        mean = (2 * level[:, 0] - 1) * settings.noise_mean
        std = level[:, 1] * settings.noise_std
        for number, rows in enumerate(spans(settings.pool, settings.batch)):
            group = torch.arange(rows.start, rows.stop) % settings.groups
            noise = self.normal(f"features {number}", len(group), *self.features.shape)
            noise = mean[group].view(-1, 1, 1, 1) + std[group].view(-1, 1, 1, 1) * noise
            yield self.let_through * self.features + (1 - self.let_through) * noise

    def generated(self, mean: Tensor, spread: Tensor, mask: Tensor, draw: Tensor) -> Tensor:
        """The features of noisy versions of the image."""
        mixed = mask * self.image + (1 - mask) * (mean + spread * draw)
        colour, contrast = self.colour
        return features_at(self.model, self.module, colour + contrast * mixed)


def fit_mask(task: FeatureMatching, start: Tensor, settings: GanSettings) -> Tensor:
    """The generator's mask after training, (c, h, w) in [0, 1], from the mask it starts with."""
    critic = Critic.drawn(task, settings)
    critic_optimiser = _RMSprop(critic.weights, [settings.critic_lr] * len(critic.weights))
    mean, spread, mask = torch.zeros_like(task.image), torch.ones_like(task.image), start.clone()
    generator_optimiser = _RMSprop([mean, spread, mask], [settings.mean_lr, settings.spread_lr, settings.mask_lr])
    step = 0
    for _ in range(settings.epochs):
        for real in task.pool(settings):
            step += 1
            draw = task.normal(f"generator {step}", len(real), *task.image.shape)
            fake = task.generated(mean, spread, mask, draw)
            with critic_optimiser.moving():
                critic_optimiser.gain = critic(real).mean() - critic(fake).mean()
            for weight in critic.weights:
                weight.clamp_(-settings.clip, settings.clip)
            if step % settings.critic_steps == 0:
                with generator_optimiser.moving():
                    generator_optimiser.gain = critic(task.generated(mean, spread, mask, draw)).mean()
                mask.clamp_(0, 1)
    return mask


class _RMSprop:
    """Tensors moved uphill by RMSprop, each with its own rate."""

    def __init__(self, tensors: list[Tensor], rates: list[float]) -> None:
        self.tensors, self.rates = tensors, rates
        self.squares = [torch.zeros_like(tensor) for tensor in tensors]
        self.gain = torch.zeros(())

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Inside, `gain` is to be computed; afterwards one step is taken. No tensor asks for gradients outside."""
        for tensor in self.tensors:
            tensor.requires_grad_()
        with torch.enable_grad():
            yield
            gradients = torch.autograd.grad(self.gain, self.tensors)
        moved = zip(self.tensors, gradients, self.squares, self.rates, strict=True)
        for tensor, gradient, square, rate in moved:
            tensor.requires_grad_(False)
            square.mul_(0.99).addcmul_(gradient, gradient, value=1 - 0.99)
            tensor.addcdiv_(gradient, square.sqrt().add_(1e-8), value=rate)


@dataclass(frozen=True)
class Critic:
    """Two strided 3×3 convolutions and a weighted sum: one number per feature map."""

    weights: list[Tensor]

    @classmethod
    def drawn(cls, task: FeatureMatching, settings: GanSettings) -> Critic:
        """A fresh critic with weights from the image's own stream, inside the clip from the start."""
        c, h, w = task.features.shape
        ends = settings.width * -(-h // 4) * -(-w // 4)
        shapes = [(settings.width, c, 3, 3), (settings.width, settings.width, 3, 3), (1, ends)]
        weights: list[Tensor] = []
        for number, shape in enumerate(shapes):
            drawn = task.draws.uniform(f"input_iba critic {number}", *shape)[0].to(task.image)
            weights += [(2 * drawn - 1) * settings.clip, drawn.new_zeros(shape[0])]
        return cls(weights)

    def __call__(self, features: Tensor) -> Tensor:
        first, b1, second, b2, last, b3 = self.weights
        a = F.leaky_relu(F.conv2d(features, first, b1, stride=2, padding=1), 0.2)
        a = F.leaky_relu(F.conv2d(a, second, b2, stride=2, padding=1), 0.2)
        return F.linear(a.flatten(1), last, b3)[:, 0]
