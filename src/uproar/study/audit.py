"""Audits of a study: the studies they need, what they read of the results, and what they find."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy
import torch

from uproar.audits import OWN, audits, read_audit, registry, studies_of
from uproar.data import Task, load
from uproar.errors import CODE_ERRORS, Absent, Damaged, NotApplicable, StoreError, one_line
from uproar.estimators import Chain, read_chain
from uproar.expression import Call
from uproar.metrics.probe import fractions_of
from uproar.metrics.registry import read_metric
from uproar.metrics.retraining import retraining_named
from uproar.models.output_kind import require_kind
from uproar.plugins import describe_error, line_in_file
from uproar.results.finding import Finding
from uproar.results.study import StudyView
from uproar.store import Store
from uproar.study.collect import Reading, collect
from uproar.study.graph import Outcome, Result, reachable
from uproar.study.grid import Cell, Setting, accuracies_of, cells_of, scores_of, settings_of, shown_of
from uproar.study.ranking import StoredRanking
from uproar.study.spec import Study
from uproar.types import Kind

# evidence


class StudyEvidence(registry.StudyEvidence):
    """The results of one study for one task and model."""

    def __init__(self, study: Study, store: Store, outcomes: Mapping[str, Outcome] | None = None) -> None:
        self.study, self._store, self._outcomes = study, store, outcomes or {}

    @functools.cached_property
    def _reading(self) -> Reading:
        (setting,) = settings_of(self.study)
        return Reading(self.study, setting, self._store)

    @property
    def task(self) -> Task:
        """The data."""
        return self._reading.task

    @property
    def estimators(self) -> tuple[str, ...]:
        """The chains by name, in the order of the study."""
        return tuple(chain.name for chain in self.study.chains)

    @functools.cached_property
    def view(self) -> StudyView:
        """Its results: curves, areas and the study's own verdicts."""
        results = collect(self.study, self._store, self._outcomes, with_pictures=False)
        return results.view(*self._reading.setting.place)

    def answers(self, metric: str, estimator: str, fraction: float, seed: int) -> np.ndarray:
        """Log probabilities of the test images, (n, classes), float64."""
        declared = retraining_named(metric)
        item = self._reading.find(self._reading.setting.accuracy(self._chain(estimator), declared, fraction, seed))
        if item is None:
            raise NotApplicable(f"{metric} of {estimator} at t={fraction:g}, seed {seed}, is not finished")
        return scipy.special.log_softmax(item.arrays[declared.test.of].astype(np.float64), axis=1)

    def responses(self, metric: str, estimator: str, seed: int) -> Mapping[str, np.ndarray]:
        """A metric's values per test image (`value`), and what else it keeps (`curve`, ...)."""
        result = self._reading.setting.score(self._chain(estimator), str(read_metric(metric)), seed)
        item = self._reading.find(result)
        if item is None:
            raise NotApplicable(f"{metric} of {estimator}, seed {seed}, is not finished")
        return item.arrays

    def axis(self, metric: str) -> tuple[float, ...]:
        """Where the points of a metric's curves lie."""
        return fractions_of(read_metric(metric), self.task.shape)

    def _chain(self, estimator: str) -> Chain:
        return read_chain(estimator, self.study.sign, self.study.channels)

    def maps(self, estimator: str, seed: int) -> np.ndarray:
        """The maps of the test images, (n, h, w), each scaled so that its largest size is 1."""
        ranking = self._reading.ranking(self._chain(estimator), seed)
        try:
            if isinstance(ranking, StoredRanking):
                maps = ranking.maps()
                return maps.sum(1) if maps.ndim == 4 else maps
        except (Absent, Damaged):
            pass
        raise NotApplicable(f"the maps of {estimator} for seed {seed} are not in the store")

    def removed(self, estimator: str, seed: int, fraction: float, split: str = "test") -> np.ndarray:
        """The first share of the order of every image of a split, bool (n, h, w)."""
        ranking = self._reading.ranking(self._chain(estimator), seed, split)
        try:
            if ranking is not None:
                return torch.as_tensor(ranking.important(fraction)).numpy()
        except (Absent, Damaged):
            pass
        raise NotApplicable(f"{estimator} was not ranked for seed {seed} at t={fraction:g}")


class Evidence(registry.Evidence):
    """The study that an audit is about, and the parts it asked for, by name."""

    def __init__(
        self, studies: Mapping[str, Study], store: Store, outcomes: Mapping[str, Outcome] | None = None
    ) -> None:
        self.study = next(iter(studies.values()))
        self._parts = {name: StudyEvidence(study, store, outcomes) for name, study in studies.items()}

    def __getitem__(self, part: str) -> StudyEvidence:
        return self._parts[part]


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
        one = study.with_changes(
            tasks=(setting.task_name,), models=(setting.model_name,), audits=(), claims=(), baselines=()
        )
        model = setting.network.spec.name
        for call in calls:
            try:
                kind = "sigmoid" if study.output == "sigmoid" else _kind_of(setting.task_name)
                require_kind(call.name, audits[call.name].facts.get("kinds", ("softmax",)), kind, ONE_CLASS)
                studies = _with_baselines(one, studies_of(call, one))
                requests.append(AuditRequest(call, setting.task_name, model, studies))
            except NotApplicable as error:
                refused = one_line(error)
                requests.append(AuditRequest(call, setting.task_name, model, {OWN: one}, refused))
    return requests


def _with_baselines(study: Study, parts: Mapping[str, Study]) -> dict[str, Study]:
    """The studies of an audit with the study's random rankings where their trainings are made anyway, else with one.

    So an audit speaks of the same baseline as the study wherever that costs little; a study of metrics alone has them
    where it asks nothing new of them.
    """
    names = {chain.name for chain in study.baseline_chains[1:]}

    def of_baseline(part: Study, cells: Callable[[Study, Setting], Sequence[Cell]]) -> set[Result | None]:
        """The results of the further random rankings."""
        listed = (cell for setting in settings_of(part) for cell in cells(part, setting))
        return {cell.result for cell in listed if cell.estimator in names}

    known, chosen = of_baseline(study, accuracies_of) | of_baseline(study, scores_of), {}
    for name, part in parts.items():
        full = part.with_changes(random_rankings=len(study.baseline_chains))
        new = (of_baseline(full, accuracies_of) or of_baseline(full, scores_of)) - known
        chosen[name] = part.with_changes(random_rankings=1) if new else full
    return chosen


def needed_studies(requests: Sequence[AuditRequest]) -> dict[str, Study]:
    """The studies that audits need beside the one they are about, by a name to show; equal ones once."""
    studies: dict[str, Study] = {}
    for one in requests:
        for part, study in one.studies.items():
            if part != OWN and study not in studies.values():
                where = f" on {one.task}, {one.model}" if len({a.task + a.model for a in requests}) > 1 else ""
                studies[f"{one.call}: {part}{where}"] = study
    return studies


def findings(
    requests: Sequence[AuditRequest], store: str | Path, outcomes: Mapping[str, Outcome] | None = None
) -> list[Finding]:
    """The findings of some audits from what the store has; one that cannot be answered says why."""
    place, found = Store(store), []
    for request in requests:
        entry = audits[request.call.name]
        try:
            if request.refused:
                raise NotApplicable(request.refused)
            evidence = Evidence(request.studies, place, outcomes)
            finding = entry.function(evidence, **entry.bind(**dict(request.call.options)))
        except StoreError:
            raise
        except CODE_ERRORS as error:
            if not isinstance(error, NotApplicable) and not line_in_file(error):
                raise
            reason = f"{describe_error(error)}.".replace("..", ".")
            finding = Finding("skipped", f"Not answered: {reason}", reason=reason)
        about = {"title": entry.facts["title"], "question": entry.facts["question"]}
        found.append(replace(finding, audit=str(request.call), task=request.task, model=request.model, **about))
    return found


# what the store must keep


def required_results(study: Study) -> set[tuple[str, str]]:
    """Everything, by folder and key, that a study, its audits and its claims are made from, or would be once more."""
    requests = audit_requests(study)
    results: list[Result] = []
    for part in (study, *needed_studies(requests).values()):
        for setting in settings_of(part):
            results += [cell.result for cell in cells_of(part, setting) if cell.result is not None]
            results += shown_of(part, setting)
    return {(result.folder, result.key) for result in reachable(results)}
