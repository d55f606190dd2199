"""Song et al. 2023: pitfalls of ROAR."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Song et al. 2023")
def song2023() -> list[Path]:
    """Pitfalls of ROAR."""
    return study_files(__file__)
