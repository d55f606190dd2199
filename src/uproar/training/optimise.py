"""One step of an optimiser, given gradients as values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from uproar.training.recipe import Recipe


class Optimiser:
    """SGD with momentum, or Adam (Kingma & Ba 2015) with its usual constants, for some weights."""

    def __init__(self, weights: Sequence[Tensor], recipe: Recipe) -> None:
        self.weights, self.recipe = weights, recipe
        self.velocity: list[Tensor | None] = [None] * len(weights)
        if recipe.optimizer == "adam":
            self.first, self.second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
            self.taken = [torch.zeros((), device=weight.device) for weight in weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        """Move the weights in place; weights that the loss does not depend on stay."""
        used = [i for i, gradient in enumerate(gradients) if gradient is not None]
        weights, defined = [self.weights[i] for i in used], [g for g in gradients if g is not None]
        if self.recipe.optimizer == "sgd":
            self._sgd(used, weights, defined, rate)
        else:
            self._adam(used, weights, defined, rate)

    def _sgd(self, used: list[int], weights: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        recipe, moving = self.recipe, [self.velocity[i] for i in used]
        sgd(
            weights,
            gradients,
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
            self.velocity[i] = speed

    def _adam(self, used: list[int], weights: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        first, second, taken = ([state[i] for i in used] for state in (self.first, self.second, self.taken))
        adam(
            weights,
            gradients,
            first,
            second,
            [],
            taken,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=self.recipe.weight_decay,
            eps=1e-8,
            maximize=False,
        )
