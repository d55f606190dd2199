"""The papers that are reproduced: what they are called, and a folder for each with study files, claims and figures.

Registries import the parts by pattern (`uproar.papers.*.figures`), so that no other part of the package names a paper.
A plug-in declares another paper with the same decorators: `paper`, `claim`, `figure` and `recipe` of `uproar.extend`.
"""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Hooker et al. 2019")
def hooker2019() -> list[Path]:
    """ROAR and KAR."""
    return study_files(__file__, "hooker2019")


@paper(title="Li et al. 2024")
def li2024() -> list[Path]:
    """Soundness and completeness."""
    return study_files(__file__, "li2024")


@paper(title="Rong, Leemann et al. 2022")
def rong2022() -> list[Path]:
    """ROAD; its recipe alone."""
    return []


@paper(title="Song et al. 2023")
def song2023() -> list[Path]:
    """Pitfalls of ROAR."""
    return study_files(__file__, "song2023")


@paper(title="Vandersmissen and Oramas 2023")
def vandersmissen2023() -> list[Path]:
    """Coherency of metrics."""
    return study_files(__file__, "vandersmissen2023")
