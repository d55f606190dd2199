"""A finished or half-finished run with everything a person wants of it: tables, verdicts, the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uproar.claims import judge
from uproar.report import write_report
from uproar.results import Results
from uproar.store import Store
from uproar.study.audit import asked, findings
from uproar.study.collect import collect
from uproar.study.progress import Progress
from uproar.study.spec import Study


@dataclass(frozen=True)
class Run(Results):
    """The results of a run: `.table`, `.verdicts`, `.findings`, `.claims`, `.report(path)`."""

    place: str = ""
    """The store behind it."""

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
    audited = tuple(findings(asked(study), store, state.outcomes))
    run = Run(**{**vars(found), "findings": audited, "place": str(store)})
    return replace(run, claims=tuple(judge(run, study.claims)))
