"""The parts of a study by what they ask: evaluators, networks trained anew, networks as they are, metrics.

Each is a study of its own, counted as if it ran alone: explained networks and maps that two of them share count in
both, so that their sum is more than the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from uproar.errors import UproarError
from uproar.study.outline import Outline, outline
from uproar.study.spec import Study

EVALUATOR, RETRAINING, NOT_RETRAINED, METRICS, AUDITS = "evaluator", "retraining", "not retrained", "metrics", "audits"
BESIDE = "evaluator (not in it)"
"""What a study that trains networks anew does not have, for comparison."""


def cost_parts(study: Study) -> dict[str, Study]:
    """The parts of a study without its audits, by name; a study that retrains has an evaluator beside it."""
    protocols = study.protocol_list
    names = {
        EVALUATOR: [p.name for p in protocols if p.evaluator],
        RETRAINING: [p.name for p in protocols if p.retrains and not p.evaluator],
        NOT_RETRAINED: [p.name for p in protocols if not p.retrains and not p.evaluator],
    }
    if names[RETRAINING] and not names[EVALUATOR]:
        names = {BESIDE: [EVALUATOR], **names}
    changes = {name: {"protocols": own, "metrics": (), "audits": ()} for name, own in names.items() if own}
    if study.metrics:
        changes[METRICS] = {"protocols": (), "metrics": study.metrics, "audits": ()}
    parts = {}
    for name, change in changes.items():
        try:
            parts[name] = study.with_changes(**change)
        except UproarError:
            continue  # what cannot be a study by itself has no row of its own
    return parts


def outlines_by_part(study: Study, whole: Outline) -> dict[str, Outline]:
    """What each part amounts to; audits are what the whole has beside the study."""
    sizes = {name: outline(part) for name, part in cost_parts(study).items()}
    if study.audits:
        sizes[AUDITS] = _beside(whole, outline(study.with_changes(audits=())))
    return sizes


def _beside(whole: Outline, part: Outline) -> Outline:
    """The whole without a part of it."""
    counts = ("cells", "trainings", "trained", "explained", "shown", "operations", "bytes")
    return replace(whole, **{name: getattr(whole, name) - getattr(part, name) for name in counts})


def ratio_to_evaluator(parts: Mapping[str, Outline]) -> float | None:
    """How many times the operations of the evaluator retraining takes; None where a study has not both."""
    asked, retrained = parts.get(EVALUATOR) or parts.get(BESIDE), parts.get(RETRAINING)
    if asked is None or retrained is None or not asked.operations:
        return None
    return retrained.operations / asked.operations
