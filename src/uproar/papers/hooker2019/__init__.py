"""Hooker et al. 2019: ROAR and KAR."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Hooker et al. 2019")
def hooker2019() -> list[Path]:
    """ROAR and KAR."""
    return study_files(__file__)
