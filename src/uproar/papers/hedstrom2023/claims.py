"""Claims of Hedström et al., "The meta-evaluation problem in explainable AI"."""

from __future__ import annotations

import pandas as pd

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.names import gain_limits, options_of, read_limits
from uproar.claims.registry import claims_of, every, part
from uproar.errors import NotApplicable
from uproar.results.claim_outcome import Decision, Measure
from uproar.statistics.correlation import spearman
from uproar.statistics.design import BASELINE

declare = claims_of("hedstrom2023", __file__)

FLIPPING, CORRELATION = "deletion", "infidelity"
"""Pixel flipping, and how well a map predicts the changes of the output: both are about faithfulness."""
AGREE = 0.5
"""Rank correlation over explanations from which two metrics would count as agreeing."""
JUDGING = ("deletion", "insertion", "infidelity", "relevance_rank", "relevance_mass", "road")
TRUTH, PERTURBED = "oracle", "degraded"
"""The truth, and the truth with minor noise, as the study has it."""


@declare("disagree")
def disagree(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation of the two metrics over the methods, image by image."""
    first, second = evidence.metric(FLIPPING), evidence.metric(CORRELATION)
    made = {evidence.estimator(name) for name in evidence.available((TRUTH, PERTURBED))}
    names = [name for name in evidence.scored_by(first, second) if name not in made]
    if len(names) < 4:
        raise NotApplicable(f"{len(names)} methods are too few to rank; use at least 4")
    tables = [pd.concat([evidence.per_replicate(m, n).stack() for n in names], axis=1) for m in (first, second)]
    shared = tables[0].dropna().index.intersection(tables[1].dropna().index)
    each = pd.Series(
        [spearman(tables[0].loc[row].to_numpy(), tables[1].loc[row].to_numpy()) for row in shared], index=shared
    )
    what = f"rank correlation of {first} and {second} over {len(names)} methods"
    return every(evidence.over_images(what, each.unstack(), below=AGREE))


@declare("resilient")
def resilient(evidence: ClaimEvidence) -> Decision:
    """What a random map loses beyond what minor noise changes, by every metric that judges."""
    return every(*(part(_resilience, evidence, name) for name in JUDGING if _has(evidence, name)))


def _resilience(evidence: ClaimEvidence, name: str) -> Measure:
    metric = evidence.metric(name)
    scores = (evidence.per_replicate(metric, evidence.estimator(n)) for n in (TRUTH, PERTURBED, BASELINE))
    truth, perturbed, random = scores
    what = f"{metric}: change by a random map minus change by minor noise"
    by_random, by_noise = ((truth - other).abs() for other in (random, perturbed))
    limits = (0.0, gain_limits(metric)[1])
    return evidence.over_images(what, by_random, minus=by_noise, limits=limits, above=0.0)


@declare("react")
def react(evidence: ClaimEvidence) -> Decision:
    """The truth with minor noise against a random map, by every metric that judges."""
    return every(*(part(_reaction, evidence, name) for name in JUDGING if _has(evidence, name)))


def _has(evidence: ClaimEvidence, metric: str) -> bool:
    return any(options_of(str(name))[0] == metric for name in evidence.view.scores["metric"].unique())


def _reaction(evidence: ClaimEvidence, name: str) -> Measure:
    metric = evidence.metric(name)
    perturbed, random = (evidence.per_replicate(metric, evidence.estimator(n)) for n in (PERTURBED, BASELINE))
    what = f"{metric}: minor noise against random, higher is better"
    return evidence.over_images(what, perturbed, minus=random, limits=read_limits(metric), above=0.0)
