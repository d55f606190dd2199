"""Hesse et al. 2024: the in-domain single-deletion score (IDSDS)."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Hesse et al. 2024")
def hesse2024() -> list[Path]:
    """The in-domain single-deletion score (IDSDS)."""
    return study_files(__file__)
