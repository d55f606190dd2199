"""The sentence for a folder that is not that of a run: what it has instead, and what to do.

Nothing here imports torch: the command line refuses such a folder before it loads anything.
"""

from __future__ import annotations

from pathlib import Path

from uproar.errors import BadInput
from uproar.paths import user_path

RECORD = "run.json"
"""The file that the folder of a run has."""


def no_run(folder: Path) -> BadInput:
    """The error for a folder without the record of a run."""
    place = user_path(folder)
    if (place / "results.csv").is_file():
        return BadInput(
            f"{folder} holds the page of a study (results.report), not its run, which has a {RECORD}: open "
            f"{folder}/report.html to read it, or give the folder of the run (in Python, "
            "uproar.open(study, store=...) takes the study and the store that has its results)."
        )
    if (place / "scores.csv").is_file():
        return BadInput(
            f"{folder} holds scores of maps (uproar score), not a run: run a study of the same estimators and "
            "metrics (uproar run --estimators A,B --metrics C,D --protocols roar:no-retrain) and ask about that."
        )
    return BadInput(f"{folder} is not the folder of a run: it has no readable {RECORD}.")
