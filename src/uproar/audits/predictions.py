"""What networks answered, per replicate and test image: right or wrong, and how surprised they were by the class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from uproar.audits.base import Part
from uproar.errors import NotApplicable
from uproar.training.calibrate import surprise


class Answered:
    """The finished cells of a part as arrays (replicates, images); None where any replicate is missing."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.labels = part.task.test.labels
        self.seeds = tuple(part.study.seeds)

    @property
    def chance(self) -> float:
        """The accuracy of always saying the most frequent class."""
        return float(torch.bincount(self.labels).max()) / len(self.labels)

    @property
    def bits(self) -> float:
        """The entropy of the labels: what there is to know."""
        shares = torch.bincount(self.labels).double() / len(self.labels)
        shares = shares[shares > 0]
        return float(-(shares * shares.log()).sum()) / math.log(2)

    def explained(self) -> np.ndarray:
        """What the base networks answer to the unchanged test images, classes (replicates, images)."""
        return np.stack([self.part.base_answers(seed).argmax(1) for seed in self.seeds])

    def classes(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """The classes that were answered."""
        answers = self._answers(protocol, estimator, fraction)
        return None if answers is None else np.stack([a.argmax(1) for a in answers])

    def right(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """1 where the answer is the label."""
        said = self.classes(protocol, estimator, fraction)
        return None if said is None else (said == self.labels.numpy()).astype(float)

    def surprise(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """Bits of surprise at the label, calibrated on other images."""
        answers = self._answers(protocol, estimator, fraction)
        if answers is None:
            return None
        return np.stack([surprise(torch.from_numpy(a), self.labels).numpy() for a in answers])

    def _answers(self, protocol: str, estimator: str, fraction: float) -> list[np.ndarray] | None:
        try:
            return [self.part.answers(protocol, estimator, fraction, seed) for seed in self.seeds]
        except NotApplicable:
            return None

    def accuracy(self, protocol: str, estimator: str, fraction: float) -> float:
        """Mean accuracy over the replicates that are there; NaN if none is."""
        cells = self.part.cells
        rows = cells[
            (cells["protocol"] == protocol)
            & (cells["estimator"] == estimator)
            & np.isclose(cells["fraction"], fraction)
        ]
        return float(rows["accuracy"].mean()) if len(rows) else float("nan")


def stacked(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The mean of several arrays of one shape; None if one is missing."""
    held = [part for part in parts if part is not None]
    return np.mean(held, axis=0) if held and len(held) == len(parts) else None
