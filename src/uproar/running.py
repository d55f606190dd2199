"""The Python face for studies: run, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uproar.report import write_report
from uproar.results import Results
from uproar.store import Store
from uproar.study.collect import collect
from uproar.study.run import Listener, run_study
from uproar.study.spec import Study, study_of


class Run(Results):
    """The results of a run: `.table`, `.verdicts`, `.report(path)`."""

    def report(self, folder: str | Path) -> Path:
        """Write the page, the figures and the tables into a folder; the page's path."""
        return write_report(self, folder)


def run(
    study: Study | Mapping[str, Any] | str | Path = Study(),
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
) -> Run:
    """Run a study, or what is missing of it, and collect its results.

    `store` is where results are kept, `runs/<name>/store` by default; the same call again only reads them.
    """
    study = study_of(study)
    place = Path(store) if store is not None else Path("runs") / study.name / "store"
    progress = run_study(study, place, jobs, listen)
    found = collect(study, Store(place), progress.outcomes, tuple(progress.notices))
    return Run(**vars(found))
