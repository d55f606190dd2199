"""Li et al. 2024: soundness and completeness."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Li et al. 2024")
def li2024() -> list[Path]:
    """Soundness and completeness."""
    return study_files(__file__)
