"""Claims of Hesse, Schaub-Meyer and Roth, "Benchmarking the attribution quality of vision models".

What the paper says of intrinsically explainable networks and of parts of architectures cannot be asked: a study judges
the methods of one network. The gradient without the input is not among the methods that it compares.
"""

from __future__ import annotations

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import claims_of, every, most, part
from uproar.results.claim_outcome import Decision

declare = claims_of("hesse2024", __file__)

IDSDS = "idsds"
SIGNED = ("grad_input", "ig")


@declare("signed")
def signed(evidence: ClaimEvidence) -> Decision:
    """Each signed method against its absolute values."""
    metric = evidence.metric(IDSDS)
    absent = evidence.absent([*SIGNED, *(f"abs({name})" for name in SIGNED)])
    there = [name for name in SIGNED if len(evidence.available([name, f"abs({name})"])) == 2]
    return most(*(part(evidence.gap, metric, name, f"abs({name})", above=0.0) for name in there), *absent)


@declare("above-random")
def above_random(evidence: ClaimEvidence) -> Decision:
    """Each signed method against random."""
    metric = evidence.metric(IDSDS)
    there = evidence.available(SIGNED)
    gaps = (part(evidence.gap, metric, name, "random", above=0.0) for name in there)
    return every(*gaps, *evidence.absent(SIGNED))
