"""The coordinates of one number, and the three ways it can end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, order=True)
class Cell:
    """One point of the grid."""

    task: str
    model: str
    estimator: str
    protocol: str
    fraction: float
    seed: int

    def __str__(self) -> str:
        return f"{self.protocol} {self.estimator} t={self.fraction:g} seed {self.seed}"


@dataclass(frozen=True, order=True)
class ScoreCell:
    """One metric of one estimator's maps, for one replicate."""

    task: str
    model: str
    estimator: str
    metric: str
    seed: int
    images: int | None = None
    """Test images that are asked about at most, drawn at random; None: all."""

    def __str__(self) -> str:
        return f"{self.metric} of {self.estimator} seed {self.seed}"


def by_estimator(units: Iterable[ScoreCell]) -> dict[str, list[ScoreCell]]:
    """The metrics of each estimator's maps."""
    groups: dict[str, list[ScoreCell]] = {}
    for unit in units:
        groups.setdefault(unit.estimator, []).append(unit)
    return groups


@dataclass(frozen=True, order=True)
class TrialBatch:
    """Some trials on synthetic data, without a task or network."""

    simulation: str
    first: int
    count: int

    def __str__(self) -> str:
        return f"trials {self.first} to {self.first + self.count - 1} of {self.simulation}"


Unit = Cell | ScoreCell | TrialBatch
"""What a study or an audit asks for: an accuracy, a metric, or trials."""


@dataclass(frozen=True)
class Done:
    """The result is in the store."""

    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """It does not exist here, for this reason; not an error."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """It went wrong; never kept, tried again next time."""

    reason: str
    traceback: str = ""


Outcome = Done | Skipped | Failed

NO_BASE = "the base model could not be trained"
"""How the reason begins where a cell failed with its replicate's base network."""
