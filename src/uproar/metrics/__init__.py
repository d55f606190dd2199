"""Numbers about maps and curves: metrics by name, areas under curves, and verdicts from replicates."""

from uproar.metrics import confidence, insertion, localisation, randomisation, road, shape, stability
from uproar.metrics import soundness as sound
from uproar.metrics.axis import Axis
from uproar.metrics.base import Batch, Change, Outputs, Responses, metric, metrics

__all__ = [
    "Axis",
    "Batch",
    "Change",
    "Outputs",
    "Responses",
    "confidence",
    "insertion",
    "localisation",
    "metric",
    "metrics",
    "randomisation",
    "road",
    "shape",
    "sound",
    "stability",
]
