"""How good a network is and what it predicts, by its outputs of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uproar.results.quality import NetworkQuality, Prediction, network_quality, predictions

if TYPE_CHECKING:
    from uproar.models.output_kind import OutputKind


def quality_of(outputs: np.ndarray, target: np.ndarray, labelled: bool, kind: OutputKind) -> NetworkQuality:
    """How good the network is by its logits or values (n, k) and the columns that are followed, (n,)."""
    words = kind.words if kind.kind != "softmax" else f"softmax over {outputs.shape[1]} classes"
    if kind.single:
        return network_quality(_of_two_classes(outputs), target, labelled, outputs=words)
    return network_quality(outputs, target, labelled, kind.kind, words)


def predictions_of(
    outputs: np.ndarray, target: np.ndarray, kind: OutputKind, names: Sequence[str] = ()
) -> tuple[Prediction, ...]:
    """What the network says of every image: its class, its likeliest label, or the value that is followed."""
    if kind.single:
        return predictions(_of_two_classes(outputs), names)
    return predictions(outputs, names, kind.kind, target)


def _of_two_classes(outputs: np.ndarray) -> np.ndarray:
    """The scores −z and z of one logit as those of two classes, whose softmax is the sigmoid of z."""
    return np.asarray(outputs / 2)
