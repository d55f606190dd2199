"""Questions about the benchmark itself: whether its own scores mislead here."""

from uproar.audits import (
    consistency,
    geometry,
    information,
    leakage,
    reliability,
    semi_natural,
    sparsity,
    values,
)
from uproar.audits.base import OWN, Evidence, Part, audit, audits, merged, read_audit, studies_of

__all__ = [
    "OWN",
    "Evidence",
    "Part",
    "audit",
    "audits",
    "consistency",
    "geometry",
    "information",
    "leakage",
    "merged",
    "read_audit",
    "reliability",
    "semi_natural",
    "sparsity",
    "studies_of",
    "values",
]
