"""Networks whose weights are set by hand, so that it is known exactly which pixels they use.

Each averages the pixels of 4×4 squares, scales the averages so that a missing part is about 0 and a bright one about 1,
and computes its rule from a few of them by a linear layer, ReLUs and another linear layer. All other squares have the
weight 0: whatever stands there changes no output. Nothing is trained: the weights take no gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from uproar.data.planted import GRID, PLACES, RuleName
from uproar.errors import BadInput
from uproar.models.registry import models

Unit = tuple[Sequence[float], float, float]
"""A hidden unit: weights of the parts, bias, and what it adds to the score of class 1."""

GAIN = 6.0
"""The score of class 1 is this times the rule's value − ½: probabilities from about 0.05 to 0.95."""
TEETH, STEEP = 0.02, 8.0
"""Width and slope of the teeth of the shattered rule."""


def _zigzag() -> list[Unit]:
    """Teeth between 0 and 1.2: the slope changes its sign every `TEETH`, the height stays below TEETH·STEEP."""
    turns = [2 * STEEP * (-1) ** i for i in range(1, 60)]
    return [((1.0,), -TEETH * i, step) for i, step in enumerate([STEEP, *turns])]


_STEP: list[Unit] = [((4.0,), -1.0, 1.0), ((4.0,), -2.0, -1.0)]
"""0 up to a quarter, 1 from a half on: flat wherever a part is missing or there."""

UNITS: dict[str, list[Unit]] = {
    "and": [((1, 1), -1, 1)],
    "or": [((1, 1), 0, 1), ((1, 1), -1, -1)],
    "not": [((-1,), 1, 1)],
    "xor": [((1, -1), 0, 1), ((-1, 1), 0, 1)],
    "saturating": _STEP,
    "shattered": [((1.0,), 0, 1), *_zigzag()],
}
LINEAR = (2.0, 1.0, -2.0)


@models.declare("hand-set", size="its rule's units")
def hand_set(
    shape: tuple[int, int, int],
    classes: int,
    *,
    rule: RuleName = "and",
    noise: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> nn.Module:
    """A network of the task `hand-set` that uses the parts of its rule and nothing else; it is not trained."""
    channels, h, w = shape
    if classes != 2 or min(h, w) < 4 * GRID:
        raise BadInput(
            f"hand-set is a network for two classes and images from 16×16 pixels on, such as those of the task "
            f"hand-set; this task has {classes} classes and {h}×{w} pixels."
        )
    averages = _averages(channels, GRID * (min(h, w) // (4 * GRID)), noise)
    layers = [_linear(LINEAR)] if rule == "linear" else _hidden(UNITS[rule])
    return nn.Sequential(averages, nn.Flatten(), *layers).requires_grad_(False)


def _averages(channels: int, side: int, noise: float) -> nn.Conv2d:
    """The mean of each square: 0 for noise alone, 1 for a bright part, on average."""
    dark, bright = noise / 2, 0.6 + 0.4 * noise / 2
    layer = nn.Conv2d(channels, 1, side, side)
    nn.init.constant_(layer.weight, 1 / (channels * side**2 * (bright - dark)))
    nn.init.constant_(layer.bias, -dark / (bright - dark))  # type: ignore[arg-type]
    return layer


def _linear(weights: Sequence[float]) -> nn.Linear:
    layer = nn.Linear(GRID**2, 2)
    layer.weight.data = torch.stack([torch.zeros(GRID**2), GAIN * _spread(weights)])
    layer.bias.data = torch.tensor([0.0, -GAIN / 2])
    return layer


def _hidden(units: Sequence[Unit]) -> list[nn.Module]:
    first, second = nn.Linear(GRID**2, len(units)), nn.Linear(len(units), 2)
    first.weight.data = torch.stack([_spread(weights) for weights, _, _ in units])
    first.bias.data = torch.tensor([float(bias) for _, bias, _ in units])
    out = GAIN * torch.tensor([float(adds) for _, _, adds in units])
    second.weight.data = torch.stack([torch.zeros_like(out), out])
    second.bias.data = torch.tensor([0.0, -GAIN / 2])
    return [first, nn.ReLU(), second]


def _spread(weights: Sequence[float]) -> Tensor:
    """The weights of parts as weights of all squares."""
    row = torch.zeros(GRID**2)
    for place, weight in zip(PLACES, weights, strict=False):
        row[place] = weight
    return row
