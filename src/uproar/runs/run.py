"""A finished or half-finished run with everything a person wants of it: tables, verdicts, the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from uproar.claims import judge
from uproar.report import write_report
from uproar.results.study import Results
from uproar.storage.store import Store
from uproar.study.adaptive import looks
from uproar.study.audit import asked, findings
from uproar.study.collect import collect
from uproar.study.plan import units_of
from uproar.study.progress import Progress
from uproar.study.spec import Study


@dataclass(frozen=True)
class Run(Results):
    """The results of a run: `.table`, `.verdicts`, `.findings`, `.claims`, `.report(path)`."""

    place: str = ""
    """The store behind it."""
    lost: int = 0
    """Results that were damaged, or gone although they had been made, when this was collected."""

    def with_facts(self, facts: Mapping[str, Any]) -> Run:
        """The same results with more said of how they came about."""
        return replace(self, provenance={**self.provenance, **facts})

    def report(self, folder: str | Path) -> Path:
        """Write the page, the figures and the tables into a folder; the page's path."""
        return write_report(self, folder)


def collected(
    study: Study, store: str | Path, progress: Progress | None = None, facts: Mapping[str, Any] | None = None
) -> Run:
    """What the store has of a study; `progress` tells which cells were skipped or failed, and why."""
    place, state = Store(store), progress or Progress()
    place.faults.forget_lost()
    asked_for = {unit for units in state.promised.values() for unit in units}
    if study.until_decided and not asked_for:
        asked_for = {unit for _, look in looks(study, store) for unit in units_of(look)}
    found = collect(study, place, state.outcomes, tuple(state.notices), facts, asked=asked_for)
    audited = tuple(findings(asked(study), store, state.outcomes))
    lost = place.faults.damaged | state.unkept(place.faults.absent)
    lost |= {name for name in place.faults.absent if name[0] == "shard"}  # levels said it was there
    taken = place.faults.take_notices()
    state.notices += taken
    notices = (*found.notices, *(notice for notice in taken if notice not in found.notices))
    parts = {"findings": audited, "place": str(store), "lost": len(lost), "notices": notices}
    run = Run(**{**{f.name: getattr(found, f.name) for f in fields(found)}, **parts})
    return replace(run, claims=tuple(judge(run, study.claims)))
