"""Questions about the benchmark itself: whether its own scores mislead here."""

from uproar.audits.registry import OWN, Evidence, StudyEvidence, audit, audits, read_audit, studies_of

__all__ = ["OWN", "Evidence", "StudyEvidence", "audit", "audits", "read_audit", "studies_of"]
