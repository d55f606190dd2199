"""Audits of a study: which studies and trials they need, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uproar.audits import OWN, Trials, audits, read_audit, studies_of, trials_of
from uproar.audits.registry import check_kind, kind_of_task
from uproar.errors import CODE_ERRORS, NotApplicable, StoreError, one_line
from uproar.expression import Call
from uproar.models import ModelSpec
from uproar.plugins import describe_error, line_in_file
from uproar.results.finding import Finding
from uproar.storage.store import Store
from uproar.study.cell import Cell, Outcome, ScoreCell, Unit
from uproar.study.evidence import Evidence
from uproar.study.grid import cells_of, scores_of
from uproar.study.settings import Setting
from uproar.study.spec import Study


@dataclass(frozen=True)
class AuditRequest:
    """An audit of one task and model of a study: the studies it needs, or why it does not apply."""

    call: Call
    task: str
    model: str
    studies: Mapping[str, Study]
    refused: str = ""
    trials: Trials | None = None


def audit_requests(study: Study, names: Sequence[str] | None = None) -> list[AuditRequest]:
    """The audits of a study, by default those it names, with what they need."""
    calls = [read_audit(name) for name in (study.audits if names is None else names)]
    requests = []
    for setting in Setting.all_of(study):
        one = study.with_changes(
            tasks=(setting.task,), models=(setting.model,), audits=(), claims=(), checks=(), baselines=()
        )
        model = ModelSpec.of(setting.model).name
        for call in calls:
            try:
                check_kind(call, "sigmoid" if setting.output == "sigmoid" else kind_of_task(setting.task))
                studies, trials = _with_baselines(one, studies_of(call, one)), trials_of(call)
                requests.append(AuditRequest(call, setting.task, model, studies, trials=trials))
            except NotApplicable as error:
                refused = one_line(error)
                requests.append(AuditRequest(call, setting.task, model, {OWN: one}, refused))
    return requests


def _with_baselines(study: Study, parts: Mapping[str, Study]) -> dict[str, Study]:
    """The studies of an audit with the study's random rankings where their trainings are made anyway, else with one.

    So an audit speaks of the same baseline as the study wherever that costs little; a study of metrics alone has them
    where it asks nothing new of them.
    """
    count = len(study.baseline_chains)
    own = {*_of_baseline(cells_of, study), *_of_baseline(scores_of, study)}

    def costs_little(part: Study) -> bool:
        return (_of_baseline(cells_of, part) or _of_baseline(scores_of, part)) <= own

    full = {name: part.with_changes(random_rankings=count) for name, part in parts.items()}
    return {name: part if costs_little(part) else part.with_changes(random_rankings=1) for name, part in full.items()}


def _of_baseline(
    units: Callable[[Study, Setting], Sequence[Cell | ScoreCell]], study: Study
) -> set[tuple[Setting, Cell | ScoreCell]]:
    """The cells or metrics of the further random rankings."""
    names = {chain.name for chain in study.baseline_chains[1:]}
    settings = Setting.all_of(study)
    return {(setting, unit) for setting in settings for unit in units(study, setting) if unit.estimator in names}


def needed_studies(requests: Sequence[AuditRequest]) -> dict[str, Study]:
    """The studies that audits need beside the one they judge, by a name to show; equal ones once."""
    studies: dict[str, Study] = {}
    for one in requests:
        for part, study in one.studies.items():
            if part != OWN and study not in studies.values():
                where = f" on {one.task}, {one.model}" if len({a.task + a.model for a in requests}) > 1 else ""
                studies[f"{one.call}: {part}{where}"] = study
    return studies


def needed_trials(requests: Sequence[AuditRequest]) -> dict[str, tuple[Trials, Setting]]:
    """The trials that audits need, by a name to show, each with a setting where they run; equal ones once."""
    needed: dict[str, tuple[Trials, Setting]] = {}
    for one in requests:
        if one.trials is not None and one.trials not in [trials for trials, _ in needed.values()]:
            setting = next(iter(Setting.all_of(one.studies[OWN])))
            needed[f"{one.call}: {one.trials.simulation}"] = one.trials, setting
    return needed


def findings(
    requests: Sequence[AuditRequest], store: str | Path, outcomes: Mapping[Unit, Outcome] | None = None
) -> list[Finding]:
    """The findings of some audits from what the store has; one that cannot be answered says why."""
    place = Store(store)
    return [_finding(one, place, outcomes) for one in requests]


def _finding(one: AuditRequest, store: Store, outcomes: Mapping[Unit, Outcome] | None) -> Finding:
    entry = audits[one.call.name]
    try:
        if one.refused:
            raise NotApplicable(one.refused)
        evidence = Evidence(one.studies, store, outcomes, one.trials)
        options = entry.bind(**dict(one.call.options))
        finding = entry.function(evidence, **options)
    except StoreError:
        raise
    except CODE_ERRORS as error:
        if not isinstance(error, NotApplicable) and not line_in_file(error):
            raise
        reason = f"{describe_error(error)}.".replace("..", ".")
        finding = Finding("skipped", f"Not answered: {reason}", reason=reason)
    return replace(
        finding,
        audit=str(one.call),
        title=entry.facts["title"],
        question=entry.facts["question"],
        task=one.task,
        model=one.model,
    )
