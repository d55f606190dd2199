"""What papers claim, as tests of what a study found."""

from uproar.claims import hooker2019, li2024, song2023, vandersmissen2023
from uproar.claims.base import PAPERS, Claim, claim, claims, claims_named, every, judge, most
from uproar.claims.found import Found

__all__ = [
    "PAPERS",
    "Claim",
    "Found",
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
