"""Which results in a store a study needs, its audits' studies and trials included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from uproar.estimators import estimators
from uproar.protocols import protocol_named
from uproar.protocols.mask_assignment import FOLDS
from uproar.storage.store import Store
from uproar.study.audit import asked, needed, simulations
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell
from uproar.study.plan import cells_of, scores_of
from uproar.study.settings import ImageRanking, Setting
from uproar.study.spec import Study
from uproar.study.trials import key as trials_key
from uproar.study.trials import units_of


@dataclass
class Needs:
    """The results that some studies are made of."""

    items: set[tuple[str, str]] = field(default_factory=set)
    """Items by kind and key."""
    orders: set[str] = field(default_factory=set)
    """The keys with which those of levels and shards begin."""

    def __contains__(self, item: tuple[str, str]) -> bool:
        kind, key = item
        if kind in ("levels", "shard"):
            return key.partition("-")[0] in self.orders
        return item in self.items


def needs_of(study: Study, store: Store) -> Needs:
    """Everything in the store that a study, its audits and its claims are computed from, or would be once more."""
    found = Needs()
    every = asked(study)
    for part in (study, *needed(every).values()):
        for setting in Setting.all_of(part):
            _add(part, bench_for(setting, store.root), found)
    for trials, _ in simulations(every).values():
        found.items |= {("trials", trials_key(unit)) for unit in units_of(trials)}
    return found


def _add(study: Study, bench: Bench, found: Needs) -> None:
    """What one study needs in one setting."""
    cells = cells_of(study, bench.setting)
    orders = {order for cell in cells for order in bench.inputs.rankings_of(cell)}
    orders |= {ImageRanking(chain, seed) for chain in study.chains for seed in study.seeds}
    found.orders |= {bench.keys.ranking(o) for o in orders}
    found.items |= {("cell", bench.keys.cell(cell)) for cell in (*cells, *_companions(bench, cells))}
    found.items |= {("score", bench.keys.score(s)) for s in scores_of(study, bench.setting)}
    for order in orders:
        for fold in range(FOLDS) if order.crossed else (None,):
            found.items.add(("model", bench.keys.model(order.seed, fold)))
            found.items |= {("state", key) for key in _states(bench, order, fold)}


def _companions(bench: Bench, cells: list[Cell]) -> list[Cell]:
    """Tests that came along with the trainings of cells, and would cost a training if they were lost."""
    fresh = {bench.keys.training(c): c for c in cells if protocol_named(c.protocol).retrains}
    return bench.cells.companions(fresh)


def _states(bench: Bench, order: ImageRanking, fold: int | None) -> Iterator[str]:
    """What the estimators of an order prepare for its base network."""
    for leaf in order.chain.leaves:
        if estimators[leaf.name].facts.get("prepare"):
            yield bench.keys.state(leaf, order.seed, fold)
