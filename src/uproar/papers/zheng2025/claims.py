"""Claims of Zheng et al., "F-Fidelity: a robust framework for faithfulness evaluation of explainable AI".

The paper permutes a share of the values of explanations of real networks. Here the truth of a task is degraded, whose
order is known beyond doubt: `oracle` and `degraded(kind=noise, level=...)`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import claims_of, every
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.results.claim_outcome import Decision
from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.student_t import Numbers

declare = claims_of("zheng2025", __file__)

FFID, PLAIN, ROAR = ("ffid_plus", "ffid_minus"), "deletion", "roar"
STRONG = 0.5
"""Rank correlation of the means over images from which an order counts as recovered."""


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


def _recovered(evidence: ClaimEvidence, metric: str) -> pd.Series:
    """By replicate, Spearman's correlation of a metric's means over images with the known order.

    The mean over resamples of the images, the same for all: levels that the images can hardly tell apart count little.
    """
    names = _degraded(evidence, evidence.values["estimator"])
    tables = [evidence.per_replicate(metric, name) for name in names]
    rows = resampled_images(tables[0].shape[1]).numpy()

    def of_replicate(seed: int) -> float:
        values = np.stack([table.loc[seed].to_numpy(dtype=float) for table in tables])
        return float(_agreement(np.nanmean(values[:, rows], axis=2).T).mean())

    return pd.Series({seed: of_replicate(seed) for seed in tables[0].index})


def _agreement(values: Numbers) -> Numbers:
    """By row, Spearman's correlation of values with the order of the columns, best first; 0 where all are equal."""
    ranks = rankdata(values, axis=1) - (values.shape[1] + 1) / 2
    known = -np.arange(values.shape[1], dtype=float)
    known -= known.mean()
    scale = np.sqrt((ranks**2).sum(1) * (known**2).sum())
    return np.asarray(np.divide(ranks @ known, scale, out=np.zeros(len(values)), where=scale > 0))


@declare("recovers")
def recovers(evidence: ClaimEvidence) -> Decision:
    """Both sides of F-Fidelity, by the means over images, replicate by replicate."""
    each = {name: _recovered(evidence, evidence.metric(name)) for name in FFID}
    return every(
        *(
            evidence.over_replicates(f"{name}: rank correlation with the known order", values, above=STRONG)
            for name, values in each.items()
        )
    )


@declare("fidelity")
def fidelity(evidence: ClaimEvidence) -> Decision:
    """FFid+ against deletion by the explained network, by the means over images, replicate by replicate."""
    gap = _recovered(evidence, evidence.metric(FFID[0])) - _recovered(evidence, evidence.metric(PLAIN))
    what = f"rank correlation with the known order: {FFID[0]} minus {PLAIN}"
    return every(evidence.over_replicates(what, gap.dropna(), above=0.0))


@declare("roar")
def roar(evidence: ClaimEvidence) -> Decision:
    """FFid+ against ROAR: the order of the means over images, replicate by replicate."""
    names = _degraded(evidence, evidence.cells["estimator"])
    metric = evidence.metric(FFID[0])
    means = pd.DataFrame({name: evidence.per_replicate(metric, name).mean(axis=1) for name in names})
    accuracy = pd.DataFrame({name: _last(evidence, name) for name in names})
    ours, theirs = (
        pd.Series(_agreement(table.to_numpy(dtype=float)), table.index)
        for table in (means.dropna(), -accuracy.dropna())
    )
    gap = (ours - theirs).dropna()
    return every(
        evidence.over_replicates(f"rank correlation with the known order: {FFID[0]} minus roar", gap, above=0.0)
    )


def _last(evidence: ClaimEvidence, name: str) -> pd.Series:
    """Accuracy under ROAR by replicate at the largest fraction."""
    table = evidence.view.accuracy(ROAR, name)
    return table[max(table.columns)]
