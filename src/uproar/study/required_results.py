"""Which results in a store a study needs, its audits' studies and trials included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from uproar.estimators import estimators
from uproar.metrics.registry import fine_tuning_of
from uproar.protocols import protocol_named
from uproar.storage.store import Store
from uproar.study.audit import audit_requests, needed_studies, needed_trials
from uproar.study.base_models import FINE_TUNED
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell
from uproar.study.grid import cells_of, scores_of
from uproar.study.settings import ImageRanking, Setting
from uproar.study.spec import Study
from uproar.study.trials import key as trials_key
from uproar.study.trials import units_of


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
    needs.rankings |= {bench.keys.ranking(one) for one in rankings}
    needs.items |= {("cell", bench.keys.cell(cell)) for cell in (*cells, *_companions(bench, cells))}
    for unit in scores_of(study, bench.setting):
        needs.items.add(("score", bench.keys.score(unit)))
        if (tuning := fine_tuning_of(unit.metric)) is not None:
            needs.items.add((FINE_TUNED, bench.keys.fine_tuned(tuning, unit.seed)))
    for ranking in rankings:
        for fold in ranking.folds:
            needs.items.add(("model", bench.keys.model(ranking.seed, fold)))
            needs.items |= {("state", key) for key in _states(bench, ranking, fold)}


def _companions(bench: Bench, cells: list[Cell]) -> list[Cell]:
    """Tests that came along with the trainings of cells, and would cost a training if they were lost."""
    fresh = {bench.keys.training(c): c for c in cells if protocol_named(c.protocol).retrains}
    return bench.cells.companions(fresh)


def _states(bench: Bench, ranking: ImageRanking, fold: int | None) -> Iterator[str]:
    """What the estimators of a ranking prepare for its base network."""
    for leaf in ranking.chain.leaves:
        if estimators[leaf.name].facts.get("prepare"):
            yield bench.keys.state(leaf, ranking.seed, fold)
