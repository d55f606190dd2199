"""Metrics of attribution maps without retraining, and the engine that asks the model about changed images."""

from uproar.metrics import (
    confidence,
    f_fidelity,
    grid_pointing,
    idsds,
    insertion_deletion,
    localisation,
    randomisation,
    road,
    shape,
    soundness,
    stability,
)
from uproar.metrics.axis import Axis
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric, metrics

__all__ = [
    "Axis",
    "Batch",
    "Change",
    "Outputs",
    "Responses",
    "confidence",
    "f_fidelity",
    "grid_pointing",
    "idsds",
    "insertion_deletion",
    "localisation",
    "metric",
    "metrics",
    "randomisation",
    "road",
    "shape",
    "soundness",
    "stability",
]
