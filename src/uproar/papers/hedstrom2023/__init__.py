"""Hedström et al. 2023: meta-evaluation of metrics (MetaQuantus)."""

from pathlib import Path

from uproar.bibliography import paper, study_files


@paper(title="Hedström et al. 2023")
def hedstrom2023() -> list[Path]:
    """Meta-evaluation of metrics (MetaQuantus)."""
    return study_files(__file__)
