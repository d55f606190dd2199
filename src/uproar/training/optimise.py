"""One step of an optimiser, given gradients as values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from uproar.training.recipe import Recipe


@torch.no_grad()
def step(
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    velocity: list[Tensor | None],
    rate: float,
    recipe: Recipe,
) -> None:
    """One step of SGD with momentum, in place; weights that the loss does not depend on stay."""
    used = [i for i, gradient in enumerate(gradients) if gradient is not None]
    moving = [velocity[i] for i in used]
    sgd(
        [weights[i] for i in used],
        [g for g in gradients if g is not None],
        moving,
        fused=True,
        weight_decay=recipe.weight_decay,
        momentum=recipe.momentum,
        lr=rate,
        dampening=0.0,
        nesterov=recipe.nesterov and recipe.momentum > 0,
        maximize=False,
    )
    for i, speed in zip(used, moving, strict=True):
        velocity[i] = speed


class Optimiser:
    """SGD with momentum, or Adam (Kingma & Ba 2015) with its usual constants, for some weights."""

    def __init__(self, weights: Sequence[Tensor], recipe: Recipe) -> None:
        self.weights, self.recipe = weights, recipe
        self.velocity: list[Tensor | None] = [None] * len(weights)
        if recipe.optimizer == "adam":
            self.first = [torch.zeros_like(weight) for weight in weights]
            self.second = [torch.zeros_like(weight) for weight in weights]
            self.taken = [torch.zeros((), device=weight.device) for weight in weights]

    def step(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        """Move the weights in place."""
        if self.recipe.optimizer == "sgd":
            step(self.weights, gradients, self.velocity, rate, self.recipe)
        else:
            self._adam(gradients, rate)

    @torch.no_grad()
    def _adam(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        used = [i for i, gradient in enumerate(gradients) if gradient is not None]
        adam(
            [self.weights[i] for i in used],
            [g for g in gradients if g is not None],
            [self.first[i] for i in used],
            [self.second[i] for i in used],
            [],
            [self.taken[i] for i in used],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=self.recipe.weight_decay,
            eps=1e-8,
            maximize=False,
        )
