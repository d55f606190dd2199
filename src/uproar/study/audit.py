"""Audits of a study: the studies and trials they need, what they read of the results, and what they find."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import scipy
import torch

from uproar.audits import OWN, audits, read_audit, registry, studies_of, trials_of
from uproar.audits.registry import Trials
from uproar.audits.synthetic import SIMULATIONS
from uproar.data import Task, load
from uproar.errors import CODE_ERRORS, Absent, Damaged, NotApplicable, StoreError, one_line
from uproar.estimators import estimators
from uproar.expression import Call
from uproar.metrics.probe import fractions_of
from uproar.metrics.registry import fine_tuning_of, read_metric
from uproar.models import ModelSpec
from uproar.models.output_kind import require_kind
from uproar.plugins import describe_error, line_in_file
from uproar.protocols import protocol_named
from uproar.results.finding import Finding
from uproar.results.study import StudyView
from uproar.store import Item, Store, key_of
from uproar.study.base_models import FINE_TUNED
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, Outcome, ScoreCell, TrialBatch, Unit
from uproar.study.collect import collect
from uproar.study.grid import cells_of, scores_of
from uproar.study.job import Job
from uproar.study.plan import Plan
from uproar.study.settings import ImageRanking, Setting
from uproar.study.spec import Study
from uproar.types import Kind

# trials


def units_of(trials: Trials, together: int = 50) -> list[TrialBatch]:
    """The trials in pieces, one for each job."""
    firsts = range(0, trials.count, together)
    return [TrialBatch(trials.simulation, i, min(together, trials.count - i)) for i in firsts]


def trials_key(unit: TrialBatch) -> str:
    """What some trials depend on."""
    inputs = {"world": unit.simulation, "version": SIMULATIONS[unit.simulation].version}
    return key_of("trials", {**inputs, "first": unit.first, "count": unit.count})


def plan_trials(trials: Trials, setting: Setting, store: Store) -> Plan:
    """The jobs that are still to be done; they run where those of a setting do."""
    units = units_of(trials)
    store.backend.refresh()
    missing = [unit for unit in units if not store.has("trials", trials_key(unit))]
    jobs = [Job(str(unit), "simulate", setting, 0, cells=(unit,), cost=unit.count) for unit in missing]
    promised: dict[tuple[str, str], list[Unit]] = {("trials", trials_key(unit)): [unit] for unit in units}
    return Plan(list(units), len(units) - len(missing), jobs, promised=promised)


def simulate(unit: TrialBatch, store: Store) -> None:
    """Carry out some trials."""
    simulation = SIMULATIONS[unit.simulation]
    store.once("trials", trials_key(unit), lambda: Item(simulation.trials(unit.first, unit.count)))


def trials_in(trials: Trials, store: Store) -> Mapping[str, np.ndarray]:
    """The values of all trials; refused where some are missing."""
    items = [store.find("trials", trials_key(unit)) for unit in units_of(trials)]
    batches = [item.arrays for item in items if item is not None]
    if not batches or len(batches) < len(items):
        raise NotApplicable(f"the trials of {trials.simulation} are not finished; run the audit to the end")
    return {name: np.concatenate([arrays[name] for arrays in batches]) for name in batches[0]}


def seconds_per_trial(trials: Trials) -> float:
    """How long one trial takes here, measured now."""
    began = time.perf_counter()
    SIMULATIONS[trials.simulation].trial(0)
    return time.perf_counter() - began


# evidence


class StudyEvidence(registry.StudyEvidence):
    """The results of one study for one task and model."""

    def __init__(self, study: Study, store: Store, outcomes: Mapping[Unit, Outcome] | None = None) -> None:
        self.study, self._store, self._outcomes = study, store, outcomes or {}

    @functools.cached_property
    def _bench(self) -> Bench:
        (setting,) = Setting.all_of(self.study)
        return bench_for(setting, self._store.root)

    @property
    def task(self) -> Task:
        """The data."""
        return self._bench.task

    @property
    def estimators(self) -> tuple[str, ...]:
        """The chains by name, in the order of the study."""
        return tuple(chain.name for chain in self.study.chains)

    @functools.cached_property
    def view(self) -> StudyView:
        """Its results: curves, areas and the study's own verdicts."""
        results = collect(self.study, self._store, self._outcomes, with_pictures=False)
        return results.view(self._bench.setting.task, self._bench.spec.name)

    def answers(self, protocol: str, estimator: str, fraction: float, seed: int) -> np.ndarray:
        """Log probabilities of the test images, (n, classes), float64."""
        setting = self._bench.setting
        cell = Cell(setting.task, setting.model, estimator, protocol, fraction, seed)
        item = self._bench.cells.find(cell)
        if item is None:
            raise NotApplicable(f"the cell {cell} is not finished")
        return scipy.special.log_softmax(item.arrays["test_scores"].astype(np.float64), axis=1)

    def responses(self, metric: str, estimator: str, seed: int) -> Mapping[str, np.ndarray]:
        """A metric's values per test image (`value`), and what else it keeps (`curve`, ...)."""
        setting = self._bench.setting
        name = str(read_metric(metric))
        unit = ScoreCell(setting.task, setting.model, estimator, name, seed)
        item = self._store.find("score", self._bench.keys.score(unit))
        if item is None:
            raise NotApplicable(f"{unit} is not finished")
        return item.arrays

    def axis(self, metric: str) -> tuple[float, ...]:
        """Where the points of a metric's curves lie."""
        return fractions_of(read_metric(metric), self.task.shape)

    def maps(self, estimator: str, seed: int) -> np.ndarray:
        """The maps of the test images, (n, h, w), each scaled so that its largest size is 1."""
        chain = self._bench.chain(estimator)
        maps = self._bench.rankings.test_maps(chain, seed)
        if maps is not None:
            return maps.sum(1) if maps.ndim == 4 else maps
        raise NotApplicable(f"the maps of {estimator} for seed {seed} are not in the store")

    def removed(self, estimator: str, seed: int, fraction: float, split: str = "test") -> np.ndarray:
        """The first share of the order of every image of a split, bool (n, h, w)."""
        chosen = self.task.train if split == "train" else self.task.test
        chain = self._bench.chain(estimator)
        try:
            gone = self._bench.rankings.important(ImageRanking(chain, seed), fraction, chosen, make=False)
        except (Absent, Damaged):
            raise NotApplicable(f"{estimator} was not ranked for seed {seed} at t={fraction:g}") from None
        return torch.as_tensor(gone).numpy()


class Evidence(registry.Evidence):
    """The study an audit judges, and the parts it asked for, by name."""

    def __init__(
        self,
        studies: Mapping[str, Study],
        store: Store,
        outcomes: Mapping[Unit, Outcome] | None = None,
        trials: registry.Trials | None = None,
    ) -> None:
        self.study = next(iter(studies.values()))
        self._store, self._trials = store, trials
        self._parts = {name: StudyEvidence(study, store, outcomes) for name, study in studies.items()}

    def __getitem__(self, part: str) -> StudyEvidence:
        return self._parts[part]

    @property
    def trials(self) -> Mapping[str, np.ndarray]:
        """The values of the trials it asked for, (trials,) each."""
        return {} if self._trials is None else trials_in(self._trials, self._store)


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
    trials: Trials | None = None


@functools.lru_cache(maxsize=2)
def _kind_of(task: str) -> Kind:
    return load(task).kind


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
                kind = "sigmoid" if setting.output == "sigmoid" else _kind_of(setting.task)
                require_kind(call.name, audits[call.name].facts.get("kinds", ("softmax",)), kind, ONE_CLASS)
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
    names = {chain.name for chain in study.baseline_chains[1:]}

    def of_baseline(part: Study, units: Callable[[Study, Setting], Sequence[Cell | ScoreCell]]) -> set[object]:
        """The cells or metrics of the further random rankings."""
        listed = ((setting, unit) for setting in Setting.all_of(part) for unit in units(part, setting))
        return {(setting, unit) for setting, unit in listed if unit.estimator in names}

    own, chosen = of_baseline(study, cells_of) | of_baseline(study, scores_of), {}
    for name, part in parts.items():
        full = part.with_changes(random_rankings=len(study.baseline_chains))
        new = (of_baseline(full, cells_of) or of_baseline(full, scores_of)) - own
        chosen[name] = part.with_changes(random_rankings=1) if new else full
    return chosen


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
    place, found = Store(store), []
    for request in requests:
        entry = audits[request.call.name]
        try:
            if request.refused:
                raise NotApplicable(request.refused)
            evidence = Evidence(request.studies, place, outcomes, request.trials)
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


@dataclass
class RequiredResults:
    """The results that some studies are made of."""

    items: set[tuple[str, str]] = field(default_factory=set)
    """Items by kind and key."""
    rankings: set[str] = field(default_factory=set)
    """The keys with which those of levels and shards begin."""

    def __contains__(self, item: tuple[str, str]) -> bool:
        kind, key = item
        if kind in ("levels", "test_levels", "shard"):
            return key.partition("-")[0] in self.rankings
        return item in self.items


def required_results(study: Study, store: Store) -> RequiredResults:
    """Everything in the store that a study, its audits and its claims are computed from, or would be once more."""
    needs = RequiredResults()
    requests = audit_requests(study)
    for part in (study, *needed_studies(requests).values()):
        for setting in Setting.all_of(part):
            _add(part, bench_for(setting, store.root), needs)
    for trials, _ in needed_trials(requests).values():
        needs.items |= {("trials", trials_key(unit)) for unit in units_of(trials)}
    return needs


def _add(study: Study, bench: Bench, needs: RequiredResults) -> None:
    """What one study needs in one setting."""
    cells = cells_of(study, bench.setting)
    rankings = {ranking for cell in cells for ranking in bench.inputs.rankings_of(cell)}
    rankings |= {ImageRanking(chain, seed) for chain in study.every_chain for seed in study.seeds}
    evaluated = {cell.seed for cell in cells if protocol_named(cell.protocol).evaluator}
    needs.items |= {("evaluator", bench.keys.evaluator(seed)) for seed in evaluated}
    needs.rankings |= {bench.keys.ranking(ranking) for ranking in rankings}
    # tests that came along with the trainings of cells would cost a training if they were lost
    companions = bench.cells.companions(
        {bench.keys.training(c): c for c in cells if protocol_named(c.protocol).retrains}
    )
    needs.items |= {("cell", bench.keys.cell(cell)) for cell in (*cells, *companions)}
    for unit in scores_of(study, bench.setting):
        needs.items.add(("score", bench.keys.score(unit)))
        if (tuning := fine_tuning_of(unit.metric)) is not None:
            needs.items.add((FINE_TUNED, bench.keys.fine_tuned(tuning, unit.seed)))
    for ranking in rankings:
        prepared = [leaf for leaf in ranking.chain.leaves if estimators[leaf.name].facts.get("prepare")]
        for fold in ranking.folds:
            needs.items.add(("model", bench.keys.model(ranking.seed, fold)))
            needs.items |= {("state", bench.keys.state(leaf, ranking.seed, fold)) for leaf in prepared}
