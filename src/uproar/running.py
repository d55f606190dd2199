"""The Python face for studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.errors import BadInput
from uproar.study.progress import Listener
from uproar.study.run import run_study
from uproar.study.spec import Study, study_of

if TYPE_CHECKING:
    from uproar.finding import Finding
    from uproar.runs import Run


def run(
    study: Study | Mapping[str, Any] | str | Path = Study(),
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    device: str | None = None,
    ray: str | None = None,
    budget: float | None = None,
    listen: Listener = lambda _: None,
) -> Run:
    """Run a study and its audits, or what is missing of them, and collect what they found.

    `store` is where results are kept, a folder or an fsspec URL (`s3://bucket/study`), `runs/<name>/store` by default;
    the same call again only reads them. `jobs` is the number of processes, `device` where networks run; `ray` ("auto"
    or "HOST:PORT") runs the jobs on a cluster instead. After `budget` seconds nothing new is begun.
    """
    study = study_of(study).with_changes(device=device)
    place = str(store if store is not None else Path("runs") / study.name / "store")
    progress = run_study(study, place, jobs, listen, ray, budget)
    # tables and plots load as long as a small study runs: not before its workers have started
    from uproar.runs import collected

    return collected(study, place, progress)


def audit(
    run: Run,
    *names: str,
    jobs: int | None = None,
    device: str | None = None,
    ray: str | None = None,
    listen: Listener = lambda _: None,
) -> list[Finding]:
    """Ask whether a run's own scores mislead: one finding per audit, task and model.

    `names` are audits such as `"blur"` or `"leakage"`; without any, all are asked. Only what the store does not have
    yet is run.
    """
    from uproar.audits import audits
    from uproar.study.audit import asked, findings

    if not hasattr(run, "place"):
        raise BadInput(
            f"audit takes what uproar.run returned, and names of audits; not {type(run).__name__}."
        )
    study = study_of(run.study).with_changes(audits=names or tuple(audits), device=device)
    run_study(study, run.place, jobs, listen, ray)
    return findings(asked(study), run.place)
