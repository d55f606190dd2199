"""Metrics of attribution maps without retraining, and the engine that asks the model about changed images."""

from uproar.metrics import confidence, curves, evaluator, fine_tuned, localisation, retraining, sanity, shape, soundness
from uproar.metrics.changes import Batch, Change, Outputs
from uproar.metrics.registry import Axis, Responses, metric, metrics

__all__ = [
    "Axis",
    "Batch",
    "Change",
    "Outputs",
    "Responses",
    "confidence",
    "curves",
    "evaluator",
    "fine_tuned",
    "localisation",
    "metric",
    "metrics",
    "retraining",
    "sanity",
    "shape",
    "soundness",
]
