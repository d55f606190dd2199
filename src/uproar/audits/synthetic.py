"""Worlds made of random numbers alone, in which the right answer is known: what trials are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from uproar.audits import linear


@dataclass(frozen=True)
class World:
    """`trial(number)` gives its values; raise `version` where they change."""

    trial: Callable[[int], Mapping[str, float]]
    version: int = 1

    def trials(self, first: int, count: int) -> dict[str, np.ndarray]:
        """The values of some trials, (count,) each; a trial's depend on its number alone."""
        each = [self.trial(number) for number in range(first, first + count)]
        return {name: np.array([values[name] for values in each]) for name in each[0]}


WORLDS = {linear.NAME: World(linear.trial)}
