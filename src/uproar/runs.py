"""A finished or half-finished run with everything a person wants of it: tables, verdicts, the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uproar.report import write_report
from uproar.results import Results
from uproar.store import Store
from uproar.study.collect import collect
from uproar.study.run import Progress
from uproar.study.spec import Study


class Run(Results):
    """The results of a run: `.table`, `.verdicts`, `.report(path)`."""

    def report(self, folder: str | Path) -> Path:
        """Write the page, the figures and the tables into a folder; the page's path."""
        return write_report(self, folder)


def collected(
    study: Study,
    store: str | Path,
    progress: Progress | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """What the store has of a study; `progress` tells which cells were skipped or failed, and why."""
    state = progress or Progress()
    found = collect(study, Store(store), state.outcomes, tuple(state.notices), facts)
    return Run(**vars(found))
