"""A run, finished or not, with everything a person wants of it: tables, verdicts, findings, claims, the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uproar.errors import BadInput
from uproar.papers import shipped_studies
from uproar.papers.claims import judge
from uproar.report import write_latex, write_report, write_results
from uproar.results.study import Results
from uproar.store import Store
from uproar.study.adaptive import interim_studies
from uproar.study.audit import audit_requests, findings
from uproar.study.collect import collect
from uproar.study.grid import cells_of, settings_of
from uproar.study.progress import Listener, Progress, notebook_listener
from uproar.study.record import FILE
from uproar.study.spec import Study, study_of, summary


@dataclass(frozen=True, repr=False)
class Run(Results):
    """The results of a run: `.table`, `.verdicts`, `.findings`, `.claims`, `.report(folder)`, `.audit(name)`."""

    store: str = ""
    """The store behind it."""
    lost: int = 0
    """Results that were damaged, or gone although they had been made, when this was collected."""
    folder: Path | None = None
    """The folder it was opened from."""

    def with_facts(self, facts: Mapping[str, Any]) -> Run:
        """The same results with more said of how they came about."""
        return replace(self, provenance={**self.provenance, **facts})

    def report(self, folder: str | Path | None = None, form: str = "html") -> Path:
        """Write the page, the figures and the tables into a folder; the page's path.

        Without `folder`, into the one it was opened from. `form="markdown"` writes a page to keep under version
        control, `form="latex"` tables for LaTeX and figures as PDF, for a paper.
        """
        target = self.folder if folder is None else folder
        if target is None:
            raise BadInput("This run was not opened from a folder: say where its report goes, report('runs/x').")
        if form == "html":
            return write_report(self, target)
        if form == "latex":
            return write_latex(self, target)
        if form == "markdown":
            study = study_of(self.study)
            kept = None if self.folder is None else self.folder / FILE
            file = kept if kept is not None and kept.is_file() else shipped_studies().get(study.name)
            content = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
            return write_results(self, target, summary(content), content)
        raise BadInput(f"A report has the form html, markdown or latex, not {form!r}.")

    def audit(
        self,
        *names: str,
        jobs: int | None = None,
        device: str | None = None,
        ray: str | None = None,
        listen: Listener | None = None,
    ) -> Run:
        """The run with the answers of audits among its findings, in addition to those that were asked before.

        `names` are audits such as `"blur"` or `"leakage"`; without any, all are asked. Only what the store does not
        have yet is run. The folder of the run stays as it is until `report` is called.
        """
        from uproar.audits import audits
        from uproar.study.sessions import run_to_end

        study = study_of(self.study)
        every = tuple(dict.fromkeys((*study.audits, *(names or audits))))
        extended = study.with_changes(audits=every, device=device)
        results = run_to_end(extended, self.store, jobs, listen or notebook_listener(), ray).results
        return replace(results.with_facts(self.provenance), folder=self.folder)


def collect_run(
    study: Study, store: str | Path, progress: Progress | None = None, facts: Mapping[str, Any] | None = None
) -> Run:
    """What the store has of a study; `progress` tells which cells were skipped or failed, and why."""
    results_store, state = Store(store), progress or Progress()
    results_store.faults.damaged.clear()
    results_store.faults.absent.clear()
    promised = {key for _, key in state.promised}
    if study.until_decided and not promised:
        looks = [look for _, look in interim_studies(study, store)]
        cells = (cell for look in looks for setting in settings_of(look) for cell in cells_of(look, setting))
        promised = {cell.result.key for cell in cells if cell.result is not None}
    results = collect(study, results_store, state.outcomes, tuple(state.notices), facts, promised=promised)
    audited = tuple(findings(audit_requests(study), store, state.outcomes))
    absent = results_store.faults.absent & state.promised
    lost = results_store.faults.damaged | {(folder, key) for folder, key in absent if key not in state.outcomes}
    new = results_store.faults.take_notices()
    state.notices += new
    notices = (*results.notices, *(notice for notice in new if notice not in results.notices))
    parts = {"findings": audited, "store": str(store), "lost": len(lost), "notices": notices}
    run = Run(**{**vars(results), **parts})
    return replace(run, claims=tuple(judge(run, study.claims)))
