"""Claims of Zheng et al., "F-Fidelity: a robust framework for faithfulness evaluation of explainable AI".

The paper degrades explanations of real networks by noise. Here the truth of a task is degraded, whose order is known
beyond doubt: `oracle` and `degraded(kind=noise, level=...)`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import claims_of, every
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.results.claim_outcome import Decision
from uproar.statistics.correlation import spearman

declare = claims_of("zheng2025", __file__)

FFID, PLAIN, ROAR = ("ffid_plus", "ffid_minus"), "deletion", "roar"
STRONG = 0.5
"""Mean rank correlation of single images from which an order counts as recovered."""


def _degraded(evidence: ClaimEvidence, names: pd.Series) -> list[str]:
    """The truth and its degraded versions that have values, best first."""
    there = [str(name) for name in names.unique()]
    levels = {name: _level(name) for name in there if parse(name).name in ("oracle", "degraded")}
    if len(levels) < 3:
        raise NotApplicable("the study has fewer than three levels of one degraded explanation")
    return sorted(levels, key=lambda name: levels[name])


def _level(name: str) -> float:
    call = parse(name)
    level = dict(call.options).get("level", 0.5)
    return float(level) if call.name == "degraded" and isinstance(level, int | float) else 0.0


def _recovered(evidence: ClaimEvidence, metric: str) -> pd.DataFrame:
    """Rank correlation of a metric with the known order, by replicate and image; 0 where all values are equal."""
    names = _degraded(evidence, evidence.values["estimator"])
    values = np.stack([evidence.per_replicate(metric, name).to_numpy(dtype=float) for name in names], -1)
    known = -np.arange(len(names), dtype=float)
    each = np.nan_to_num(np.apply_along_axis(lambda row: spearman(row, known), -1, values))
    return pd.DataFrame(each)


@declare("recovers")
def recovers(evidence: ClaimEvidence) -> Decision:
    """Both sides of F-Fidelity, image by image."""
    each = {name: _recovered(evidence, evidence.metric(name)) for name in FFID}
    return every(
        *(
            evidence.over_images(f"{name}: rank correlation with the known order", values, above=STRONG)
            for name, values in each.items()
        )
    )


@declare("fidelity")
def fidelity(evidence: ClaimEvidence) -> Decision:
    """FFid+ against deletion by the explained network, image by image."""
    gap = _recovered(evidence, evidence.metric(FFID[0])) - _recovered(evidence, evidence.metric(PLAIN))
    what = f"rank correlation with the known order: {FFID[0]} minus {PLAIN}"
    return every(evidence.over_images(what, gap, above=0.0))


@declare("roar")
def roar(evidence: ClaimEvidence) -> Decision:
    """FFid+ against ROAR: the order of the means over images, replicate by replicate."""
    names = _degraded(evidence, evidence.cells["estimator"])
    metric = evidence.metric(FFID[0])
    known = -np.arange(len(names), dtype=float)
    means = pd.DataFrame({name: evidence.per_replicate(metric, name).mean(axis=1) for name in names})
    accuracy = pd.DataFrame({name: _last(evidence, name) for name in names})
    ours, theirs = (table.apply(lambda row: spearman(row.to_numpy(), known), axis=1) for table in (means, -accuracy))
    gap = (ours - theirs).dropna()
    return every(
        evidence.over_replicates(f"rank correlation with the known order: {FFID[0]} minus roar", gap, above=0.0)
    )


def _last(evidence: ClaimEvidence, name: str) -> pd.Series:
    """Accuracy under ROAR by replicate at the largest fraction."""
    table = evidence.view.accuracy(ROAR, name)
    return table[max(table.columns)]
