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
class Game:
    """The constants of the game between generator and critic."""

    epochs: int = 20
    pool: int = 200
    """Noisy features to be imitated."""
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
class Imitation:
    """One image, the place in the network, and the features to be imitated there."""

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

    def pool(self, game: Game) -> Iterator[Tensor]:
        """The noisy features, batch by batch, the same in every epoch; each batch meets all groups."""
        level = self.draws.uniform("input_iba groups", game.groups, 2)[0].to(self.image)
        mean = (2 * level[:, 0] - 1) * game.noise_mean
        std = level[:, 1] * game.noise_std
        for number, rows in enumerate(spans(game.pool, game.batch)):
            group = torch.arange(rows.start, rows.stop) % game.groups
            noise = self.normal(f"features {number}", len(group), *self.features.shape)
            noise = mean[group].view(-1, 1, 1, 1) + std[group].view(-1, 1, 1, 1) * noise
            yield self.let_through * self.features + (1 - self.let_through) * noise

    def generated(self, mean: Tensor, spread: Tensor, mask: Tensor, draw: Tensor) -> Tensor:
        """The features of noisy versions of the image."""
        mixed = mask * self.image + (1 - mask) * (mean + spread * draw)
        colour, contrast = self.colour
        return features_at(self.model, self.module, colour + contrast * mixed)


def fitted_mask(task: Imitation, start: Tensor, game: Game) -> Tensor:
    """The generator's mask after the game, (c, h, w) in [0, 1], from the mask it starts with."""
    critic = Critic.drawn(task, game)
    judge = _Player(critic.weights, [game.critic_lr] * len(critic.weights))
    mean, spread, mask = torch.zeros_like(task.image), torch.ones_like(task.image), start.clone()
    maker = _Player([mean, spread, mask], [game.mean_lr, game.spread_lr, game.mask_lr])
    step = 0
    for _ in range(game.epochs):
        for real in task.pool(game):
            step += 1
            draw = task.normal(f"generator {step}", len(real), *task.image.shape)
            fake = task.generated(mean, spread, mask, draw)
            with judge.moving():
                judge.gain = critic(real).mean() - critic(fake).mean()
            for weight in critic.weights:
                weight.clamp_(-game.clip, game.clip)
            if step % game.critic_steps == 0:
                with maker.moving():
                    maker.gain = critic(task.generated(mean, spread, mask, draw)).mean()
                mask.clamp_(0, 1)
    return mask


class _Player:
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
    def drawn(cls, task: Imitation, game: Game) -> Critic:
        """A fresh critic with weights from the image's own stream, inside the clip from the start."""
        c, h, w = task.features.shape
        ends = game.width * -(-h // 4) * -(-w // 4)
        shapes = [(game.width, c, 3, 3), (game.width, game.width, 3, 3), (1, ends)]
        weights: list[Tensor] = []
        for number, shape in enumerate(shapes):
            drawn = task.draws.uniform(f"input_iba critic {number}", *shape)[0].to(task.image)
            weights += [(2 * drawn - 1) * game.clip, drawn.new_zeros(shape[0])]
        return cls(weights)

    def __call__(self, features: Tensor) -> Tensor:
        first, b1, second, b2, last, b3 = self.weights
        a = F.leaky_relu(F.conv2d(features, first, b1, stride=2, padding=1), 0.2)
        a = F.leaky_relu(F.conv2d(a, second, b2, stride=2, padding=1), 0.2)
        return F.linear(a.flatten(1), last, b3)[:, 0]
