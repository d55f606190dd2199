"""Claims of papers, as tests of the results of a study."""

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.measures import measure, part
from uproar.claims.registry import (
    Claim,
    claim,
    claims,
    claims_named,
    every,
    judge,
    most,
    papers_with_claims,
    read_claims,
)

__all__ = [
    "Claim",
    "ClaimEvidence",
    "claim",
    "claims",
    "claims_named",
    "every",
    "judge",
    "measure",
    "most",
    "papers_with_claims",
    "part",
    "read_claims",
]
