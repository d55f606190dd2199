"""Metrics of maps without retraining: the evaluation and the tables that `uproar.score` and studies share."""

from uproar.scoring.score import Curve, checked_maps, curve, score, score_all

__all__ = ["Curve", "checked_maps", "curve", "score", "score_all"]
