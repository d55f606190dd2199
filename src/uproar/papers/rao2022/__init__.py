"""Rao et al. 2022: mosaics and disconnected networks (GridPG, DiFull)."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Rao et al. 2022")
def rao2022() -> list[Path]:
    """Mosaics and disconnected networks (GridPG, DiFull)."""
    return study_files(__file__)
