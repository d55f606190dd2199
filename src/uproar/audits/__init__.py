"""Questions about the benchmark itself: whether its own scores mislead here."""

from uproar.audits import (
    blur,
    consistency,
    geometry,
    information,
    leakage,
    reliability,
    sanity,
    semi_natural,
    sparsity,
    spurious,
    stability,
    values,
    variation,
)
from uproar.audits.base import OWN, Evidence, Part, audit, audits, merged, read_audit, studies_of

__all__ = [
    "OWN",
    "Evidence",
    "Part",
    "audit",
    "audits",
    "blur",
    "consistency",
    "geometry",
    "information",
    "leakage",
    "merged",
    "read_audit",
    "reliability",
    "sanity",
    "semi_natural",
    "sparsity",
    "spurious",
    "stability",
    "studies_of",
    "values",
    "variation",
]
