"""Maps that do not depend on the class asked for: what they remove cannot spell the class that was predicted."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from uproar.estimators.base import over_classes
from uproar.seeds import Draws
from uproar.types import RawMaps

Of = Callable[[Tensor], Tensor]
"""The maps of the images for given classes, (n,)."""


@over_classes(times=lambda classes: classes, formula="Σ_k a_k²")
def class_sum(of: Of, classes: int, draws: Draws) -> RawMaps:
    """The sum over all classes of the squared maps: what matters to any class."""
    total = of(torch.zeros(len(draws), dtype=torch.long)).square()
    for k in range(1, classes):
        total += of(torch.full((len(draws),), k)).square()
    return total


@over_classes(formula="a_k, k drawn at random for each image")
def random_class(of: Of, classes: int, draws: Draws) -> RawMaps:
    """The map of a class drawn at random for each image."""
    return of((draws.uniform("random class").double() * classes).long())
