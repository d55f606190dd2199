"""Metrics of attribution maps without retraining, and the engine that asks the model about changed images."""

from uproar.metrics import (
    confidence,
    fine_tuned,
    insertion_deletion,
    localisation,
    randomisation,
    road,
    shape,
    soundness,
    stability,
)
from uproar.metrics.registry import Axis, Batch, Change, Outputs, Responses, metric, metrics

__all__ = [
    "Axis",
    "Batch",
    "Change",
    "Outputs",
    "Responses",
    "confidence",
    "fine_tuned",
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
