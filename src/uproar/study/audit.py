"""Audits of a study: the studies they need, what they read of the results, and what they find."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uproar.audits import OWN, Evidence, StudyEvidence, audits, read_audit, studies_of
from uproar.data import load
from uproar.errors import CODE_ERRORS, NotApplicable, StoreError, one_line
from uproar.expression import Call
from uproar.models.output_kind import require_kind
from uproar.plugins import describe_error, line_in_file
from uproar.results.finding import Finding
from uproar.results.study import StudyView
from uproar.store import Store
from uproar.study.collect import Reading, collect
from uproar.study.graph import Outcome, Result, reachable
from uproar.study.grid import Cell, Setting, accuracies_of, cells_of, scores_of, settings_of, shown_of
from uproar.study.spec import Study
from uproar.types import Kind


def evidence_of(study: Study, store: Store, outcomes: Mapping[str, Outcome] | None = None) -> StudyEvidence:
    """The results of one study for one task and model, read when they are asked for."""
    (setting,) = settings_of(study)

    def view() -> StudyView:
        return collect(study, store, outcomes or {}, with_pictures=False).view(*setting.names)

    return StudyEvidence(study, Reading(study, setting, store), view)


# what audits need, and what they find


ONE_CLASS = "it reads predicted classes, of which one is right"


@dataclass(frozen=True)
class AuditRequest:
    """An audit of one task and model of a study: the studies it needs, or why it does not apply."""

    call: Call
    task: str
    model: str
    studies: Mapping[str, Study]
    refused: str = ""


@functools.lru_cache(maxsize=2)
def _kind_of(task: str) -> Kind:
    return load(task).kind


def audit_requests(study: Study, names: Sequence[str] | None = None) -> list[AuditRequest]:
    """The audits of a study, by default those it names, with what they need."""
    calls = [read_audit(name) for name in (study.audits if names is None else names)]
    requests = []
    for setting in settings_of(study):
        single = study.with_changes(
            tasks=(setting.task_name,), models=(setting.model_name,), audits=(), claims=(), baselines=()
        )
        model = setting.network.spec.name
        for call in calls:
            try:
                kind = "sigmoid" if study.output == "sigmoid" else _kind_of(setting.task_name)
                require_kind(call.name, audits[call.name].facts.get("kinds", ("softmax",)), kind, ONE_CLASS)
                studies = _with_baselines(single, studies_of(call, single))
                requests.append(AuditRequest(call, setting.task_name, model, studies))
            except NotApplicable as error:
                refused = one_line(error)
                requests.append(AuditRequest(call, setting.task_name, model, {OWN: single}, refused))
    return requests


def _with_baselines(study: Study, parts: Mapping[str, Study]) -> dict[str, Study]:
    """The studies of an audit with the study's random rankings where their trainings are made anyway, else with one.

    So an audit speaks of the same baseline as the study wherever that costs little; a study of metrics alone has them
    where it asks nothing new of them.
    """
    names = {chain.name for chain in study.baseline_chains[1:]}

    def of_baseline(some: Study, cells: Callable[[Study, Setting], Sequence[Cell]]) -> set[Result | None]:
        """The results of the further random rankings."""
        listed = (cell for setting in settings_of(some) for cell in cells(some, setting))
        return {cell.result for cell in listed if cell.estimator in names}

    known, chosen = of_baseline(study, accuracies_of) | of_baseline(study, scores_of), {}
    for name, extra in parts.items():
        full = extra.with_changes(random_rankings=len(study.baseline_chains))
        new = (of_baseline(full, accuracies_of) or of_baseline(full, scores_of)) - known
        chosen[name] = extra.with_changes(random_rankings=1) if new else full
    return chosen


def needed_studies(requests: Sequence[AuditRequest]) -> dict[str, Study]:
    """The studies that audits need beside the one they are about, by a name to show; equal ones once."""
    studies: dict[str, Study] = {}
    for request in requests:
        for name, study in request.studies.items():
            if name != OWN and study not in studies.values():
                where = f" on {request.task}, {request.model}" if len({a.task + a.model for a in requests}) > 1 else ""
                studies[f"{request.call}: {name}{where}"] = study
    return studies


def findings(
    requests: Sequence[AuditRequest], store: str | Path, outcomes: Mapping[str, Outcome] | None = None
) -> list[Finding]:
    """The findings of some audits from what the store has; one that cannot be answered says why."""
    results_store, answered = Store(store), []
    for request in requests:
        entry = audits[request.call.name]
        try:
            if request.refused:
                raise NotApplicable(request.refused)
            parts = {name: evidence_of(study, results_store, outcomes) for name, study in request.studies.items()}
            evidence = Evidence(parts[OWN].study, parts)
            finding = entry.function(evidence, **entry.bind(**dict(request.call.options)))
        except StoreError:
            raise
        except CODE_ERRORS as error:
            if not isinstance(error, NotApplicable) and not line_in_file(error):
                raise
            reason = f"{describe_error(error)}.".replace("..", ".")
            finding = Finding("skipped", f"Not answered: {reason}", reason=reason)
        about = {"title": entry.facts["title"], "question": entry.facts["question"]}
        answered.append(replace(finding, audit=str(request.call), task=request.task, model=request.model, **about))
    return answered


# what the store must keep


def required_results(study: Study) -> set[tuple[str, str]]:
    """Everything, by folder and key, that a study, its audits and its claims are made from, or would be once more."""
    requests = audit_requests(study)
    results: list[Result] = []
    for each in (study, *needed_studies(requests).values()):
        for setting in settings_of(each):
            results += [cell.result for cell in cells_of(each, setting) if cell.result is not None]
            results += shown_of(each, setting)
    return {(result.folder, result.key) for result in reachable(results)}
