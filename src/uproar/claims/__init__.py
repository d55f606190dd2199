"""What papers claim, as tests of what a study found."""

from uproar.claims.base import PAPERS, Claim, claim, claims, claims_named, every, judge, most
from uproar.claims.evidence import ClaimEvidence
from uproar.papers.hooker2019 import claims as hooker2019
from uproar.papers.li2024 import claims as li2024
from uproar.papers.song2023 import claims as song2023
from uproar.papers.vandersmissen2023 import claims as vandersmissen2023

__all__ = [
    "PAPERS",
    "Claim",
    "ClaimEvidence",
    "claim",
    "claims",
    "claims_named",
    "every",
    "hooker2019",
    "judge",
    "li2024",
    "most",
    "song2023",
    "vandersmissen2023",
]
