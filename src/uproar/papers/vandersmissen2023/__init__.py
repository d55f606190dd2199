"""Vandersmissen and Oramas 2023: coherency of metrics."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Vandersmissen and Oramas 2023")
def vandersmissen2023() -> list[Path]:
    """Coherency of metrics."""
    return study_files(__file__)
