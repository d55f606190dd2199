"""Predictions of the retrained networks by replicate and test image: classes, hits, and the loss in bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from uproar.audits.registry import StudyEvidence
from uproar.errors import NotApplicable
from uproar.training.evaluate import nll_bits

Arrays = list[np.ndarray]
Reader = Callable[[str, str, float], np.ndarray | None]


class Predictions:
    """The finished cells of a part as arrays (replicates, images); None where any replicate is missing."""

    def __init__(self, part: StudyEvidence) -> None:
        self.part = part
        self.labels = part.task.test.labels
        self.seeds = tuple(part.study.seeds)
        self.fractions = part.study.fractions

    @property
    def chance(self) -> float:
        """The accuracy of always predicting the most frequent class."""
        return float(torch.bincount(self.labels).max()) / len(self.labels)

    @property
    def entropy(self) -> float:
        """The entropy of the labels in bits."""
        shares = torch.bincount(self.labels).double() / len(self.labels)
        shares = shares[shares > 0]
        return float(-(shares * shares.log()).sum()) / math.log(2)

    def of_base_models(self) -> np.ndarray:
        """The classes that the base models predict for the unchanged test images, (replicates, images)."""
        return np.stack([self.part.base_answers(seed).argmax(1) for seed in self.seeds])

    def classes(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """The predicted classes."""
        answers = self.answers(protocol, estimator, fraction)
        return None if answers is None else np.stack([a.argmax(1) for a in answers])

    def correct(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """1 where the prediction is the label."""
        classes = self.classes(protocol, estimator, fraction)
        return None if classes is None else (classes == self.labels.numpy()).astype(float)

    def nll_bits(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """Negative log likelihood of the label in bits, calibrated on other images."""
        answers = self.answers(protocol, estimator, fraction)
        if answers is None:
            return None
        return np.stack([nll_bits(torch.from_numpy(a), self.labels).numpy() for a in answers])

    def answers(self, protocol: str, estimator: str, fraction: float) -> Arrays | None:
        """The scores of every replicate, (images, classes)."""
        try:
            return [self.part.answers(protocol, estimator, fraction, seed) for seed in self.seeds]
        except NotApplicable:
            return None

    def accuracy(self, protocol: str, estimator: str, fraction: float) -> float:
        """Mean accuracy over the replicates that are there; NaN if none is."""
        cells = self.part.cells
        same = (cells["protocol"] == protocol) & (cells["estimator"] == estimator)
        rows = cells[same & np.isclose(cells["fraction"], fraction)]
        return float(rows["accuracy"].mean()) if len(rows) else math.nan

    def finished(self, read: Reader, protocols: Sequence[str]) -> Iterator[tuple[str, float, Arrays]]:
        """Estimator, fraction and one array for each protocol, wherever all of them are finished."""
        for name in self.part.estimators:
            for t in self.fractions:
                arrays = [array for p in protocols if (array := read(p, name, t)) is not None]
                if len(arrays) == len(protocols):
                    yield name, t, arrays

    def over_fractions(
        self, read: Reader, protocol: str, estimator: str, fractions: Sequence[float] | None = None
    ) -> np.ndarray | None:
        """The mean over all fractions, (replicates, images); None if one is missing."""
        wanted = self.fractions if fractions is None else fractions
        arrays = [array for t in wanted if (array := read(protocol, estimator, t)) is not None]
        return np.mean(arrays, axis=0) if arrays and len(arrays) == len(wanted) else None
