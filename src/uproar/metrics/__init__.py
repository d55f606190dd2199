"""Numbers about maps and curves: metrics by name, areas under curves, and verdicts from replicates."""

from uproar.metrics import localisation, randomisation, shape, stability
from uproar.metrics.base import Batch, Change, Responses, Seen, metric, metrics

__all__ = [
    "Batch",
    "Change",
    "Responses",
    "Seen",
    "localisation",
    "metric",
    "metrics",
    "randomisation",
    "shape",
    "stability",
]
