"""Fine-tuning: a copy of a network trained on with random parts of its images removed, so that holes are in-domain.

A fine-tuned copy scores maps: what F-Fidelity and IDSDS remove is then no news to it. One copy serves all methods.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uproar.errors import CODE_ERRORS, BadInput, one_line
from uproar.training.fit import Rows, channels_last, fit
from uproar.training.recipe import Recipe
from uproar.types import Images


@dataclass(frozen=True)
class RandomValues:
    """Every channel value is removed with a probability, each by itself, as in the released code of F-Fidelity."""

    share: float = 0.1

    def __call__(self, x: Images, rng: torch.Generator, colour: Tensor) -> Images:
        """The images with what is removed in a colour, (1, c, 1, 1)."""
        removed = torch.rand(x.shape, generator=rng) < self.share
        return torch.where(removed.to(x.device), colour, x)


@dataclass(frozen=True)
class RandomCell:
    """One cell of a grid is removed in a share of the images, as for IDSDS."""

    grid: int = 4
    share: float = 0.5

    def __call__(self, x: Images, rng: torch.Generator, colour: Tensor) -> Images:
        cell = torch.randint(self.grid**2, (len(x), 1, 1), generator=rng)
        chosen = torch.rand(len(x), 1, 1, generator=rng) < self.share
        removed = (grid_cells(x.shape[2], x.shape[3], self.grid) == cell) & chosen
        return torch.where(removed[:, None].to(x.device), colour, x)


def grid_cells(height: int, width: int, grid: int) -> Tensor:
    """The number of the cell that each pixel lies in, row by row, (h, w).

    >>> grid_cells(2, 4, 2).tolist()
    [[0, 0, 1, 1], [2, 2, 3, 3]]
    """
    rows, columns = (torch.arange(size) * grid // size for size in (height, width))
    return rows[:, None] * grid + columns


@dataclass(frozen=True)
class FineTuning:
    """How a network is fine-tuned: what is removed from the images, and how long and fast it learns."""

    removal: RandomValues | RandomCell
    recipe: Recipe

    @property
    def identity(self) -> dict[str, Any]:
        """What two fine-tunings with equal results share."""
        return {"removal": repr(self.removal), "recipe": self.recipe.identity}


def fine_tuned(
    model: nn.Module,
    images: Tensor | Rows,
    labels: Tensor,
    mean: Tensor,
    tuning: FineTuning,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> nn.Module:
    """A copy of the model, fine-tuned; removed pixels have the mean colour of the training images, (c,)."""
    student = _trainable_copy(model)
    weights = list(student.parameters())
    if not weights:
        raise BadInput("The model has no weights, so it cannot be fine-tuned.")
    change = functools.partial(tuning.removal, colour=mean.to(weights[0]).view(1, -1, 1, 1))
    with torch.inference_mode(False), torch.enable_grad():
        fit(student, images, labels, tuning.recipe, seed, progress, change)
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise BadInput(
            f"The fine-tuning diverged: weights are NaN or infinite; give a smaller lr than {tuning.recipe.lr:g}."
        )
    return student


Weights = Mapping[str, Tensor]
Keep = Callable[[FineTuning, Callable[[], Weights]], Weights]
"""Gives the weights of a fine-tuned copy: those that were kept, or what the function makes."""


class KeptInMemory:
    """Keeps the weights of fine-tuned copies of one model as long as it lives."""

    def __init__(self) -> None:
        self._weights: dict[FineTuning, Weights] = {}

    def __call__(self, tuning: FineTuning, make: Callable[[], Weights]) -> Weights:
        """The weights, made when they are first asked for."""
        if tuning not in self._weights:
            self._weights[tuning] = make()
        return self._weights[tuning]


class FineTunedCopies:
    """Fine-tuned copies of one model, each made, or loaded by `keep`, when it is first asked for."""

    def __init__(
        self,
        model: nn.Module,
        images: Tensor | Rows,
        labels: Tensor,
        mean: Tensor,
        seed: int,
        keep: Keep = lambda _, make: make(),
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.model, self.keep, self.progress = model, keep, progress
        self.images, self.labels, self.mean, self.seed = images, labels, mean, seed
        self._made: dict[FineTuning, nn.Module] = {}

    def expected_seconds(self, tuning: FineTuning, clock: Callable[[], float] = time.perf_counter) -> float:
        """How long fine-tuning a copy takes here, by two batches of it; nothing if it was made already."""
        if tuning in self._made:
            return 0.0
        recipe = tuning.recipe.model_copy(update={"epochs": 1})
        rows = slice(0, min(len(self.labels), 2 * recipe.batch))
        some = self.images[rows]
        began = clock()
        fine_tuned(self.model, some, self.labels[rows], self.mean, FineTuning(tuning.removal, recipe), self.seed)
        return (clock() - began) / len(some) * len(self.labels) * tuning.recipe.epochs

    def __call__(self, tuning: FineTuning) -> nn.Module:
        """The copy, in evaluation mode."""
        if tuning not in self._made:
            arguments = (self.model, self.images, self.labels, self.mean, tuning, self.seed, self.progress)
            student = _trainable_copy(self.model)
            student.load_state_dict(self.keep(tuning, lambda: fine_tuned(*arguments).state_dict()))
            self._made[tuning] = channels_last(student).eval()
        return self._made[tuning]


def _trainable_copy(model: nn.Module) -> nn.Module:
    """A copy that may be trained, whatever of the model is frozen."""
    try:
        student = copy.deepcopy(model)
    except CODE_ERRORS as error:
        raise BadInput(f"The model cannot be copied, so it cannot be fine-tuned: {one_line(error)}") from error
    for weight in student.parameters():
        if weight.is_floating_point():
            weight.requires_grad_(True)
    return student
