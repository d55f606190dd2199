"""Zheng et al. 2025: F-Fidelity, and known orders of degraded explanations."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Zheng et al. 2025")
def zheng2025() -> list[Path]:
    """F-Fidelity, and known orders of degraded explanations."""
    return study_files(__file__)
