"""Metrics of maps without retraining: the evaluation and the tables that `uproar.score` and studies share."""

from typing import TYPE_CHECKING

from uproar.lazy import lazy_names

if TYPE_CHECKING:
    from uproar.scoring.score import Curve, checked_maps, curve, score_all

__all__ = ["Curve", "checked_maps", "curve", "score_all"]

# tables load slowly, and a worker process evaluates metrics without them
__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "uproar.scoring.score"))
