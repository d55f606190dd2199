"""Rong, Leemann et al. 2022: ROAD."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Rong, Leemann et al. 2022")
def rong2022() -> list[Path]:
    """ROAD."""
    return study_files(__file__)
