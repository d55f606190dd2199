"""From a study to the jobs that are still to be done, in an order in which they can be done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from uproar.errors import BadInput
from uproar.estimators import Chain, families
from uproar.models import build
from uproar.models.weights import load_weights
from uproar.protocols import Protocol, protocol_named
from uproar.protocols.mask_assignment import FOLDS
from uproar.statistics.design import BASELINE
from uproar.storage.store import Store
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, Outcome, Scored, Skipped, Unit
from uproar.study.job import Job, place
from uproar.study.score_jobs import score_jobs
from uproar.study.settings import ImageRanking, Setting
from uproar.study.spec import Study

STACK = 8
"""Networks trained at once at most."""


@dataclass
class Plan:
    """What a study asks for, what the store has of it, and the jobs for the rest."""

    cells: list[Unit]
    cached: int
    jobs: list[Job] = field(default_factory=list)
    skipped: dict[Unit, Outcome] = field(default_factory=dict)
    promised: dict[tuple[str, str], list[Unit]] = field(default_factory=dict)
    """Items (kind, key) that the store has when all is done, with the units that stand or fall with each.

    Levels go by the key of their order.
    """

    @property
    def cost(self) -> float:
        """All expected work, in images passed forward and backward."""
        return sum(job.cost for job in self.jobs)


def cells_of(study: Study, setting: Setting) -> list[Cell]:
    """The grid of one task and model, without the plain trainings that all estimators share."""
    return [
        Cell(setting.task, setting.model, chain.name, protocol.name, fraction, seed)
        for seed in study.seeds
        for protocol in study.protocol_list
        for chain in study.chains
        for fraction in _fractions(study, protocol, chain)
        if fraction != protocol.plain
    ]


def _fractions(study: Study, protocol: Protocol, chain: Chain) -> tuple[float, ...]:
    """Where a curve is measured; that of random removal may go on where no other does."""
    further = chain.name == BASELINE and not protocol.keeps
    return study.fractions + (study.random_fractions if further else ())


def scores_of(study: Study, setting: Setting) -> list[Scored]:
    """The metrics of one task and model."""
    return [
        Scored(setting.task, setting.model, chain.name, metric, seed)
        for seed in study.seeds
        for chain in study.chains
        for metric in study.metric_names
    ]


def units_of(study: Study) -> list[Unit]:
    """Everything a study asks for."""
    settings = Setting.all_of(study)
    cells: list[Unit] = [cell for setting in settings for cell in cells_of(study, setting)]
    return cells + [unit for setting in settings for unit in scores_of(study, setting)]


def plan(study: Study, store: Store, settled: Collection[Unit] = ()) -> Plan:
    """The jobs that are still to be done; what is `settled` has ended without a result and is not tried again."""
    total = Plan([], 0)
    benches = [bench_for(setting, store.root) for setting in Setting.all_of(study)]
    _check_files(study, benches)
    _check_weights(study, benches)
    for bench in benches:
        bench.store.backend.refresh()  # others may have written since it was last asked
        _plan_setting(study, bench, total, settled)
    return total


def _check_files(study: Study, benches: Sequence[Bench]) -> None:
    """Refuse stored maps that fit none of the tasks; where they fit some, the cells of the others are skipped."""
    both = bool(study.protocols)  # metrics look at test images alone
    for chain in study.chains:
        reasons = [misfit(chain, bench, both) for bench in benches] if chain.files else []
        if reasons and all(reasons):
            raise BadInput(f"{reasons[0]}.")


def _check_weights(study: Study, benches: Sequence[Bench]) -> None:
    """Refuse weights that fit none of the models; where they fit some, the cells of the others fail."""
    reasons = []
    for bench in benches if study.weights is not None else ():
        try:
            load_weights(build(bench.spec, bench.task, 0), study.weights or "")
            return
        except BadInput as error:
            reasons.append(error)
    if reasons:
        raise reasons[0]


def misfit(chain: Chain, bench: Bench, train: bool = True) -> str | None:
    """Why stored maps in a chain are not those of a task's images, if they are not."""
    splits = (bench.task.train, bench.task.test) if train else (bench.task.test,)
    reasons = (stored.misfit(split) for stored in chain.files for split in splits)
    return next((reason for reason in reasons if reason), None)


def _plan_setting(study: Study, bench: Bench, total: Plan, settled: Collection[Unit]) -> None:
    cells, scores = cells_of(study, bench.setting), scores_of(study, bench.setting)
    refused: dict[Unit, Outcome] = {c: Skipped(reason) for c in cells if (reason := refusal(bench, c))}
    total.cells += [*cells, *scores]
    total.skipped |= refused
    asked = [cell for cell in cells if cell not in refused and cell not in settled]
    missing = [cell for cell in asked if _lacks(bench, total, "cell", bench.keys.cell(cell), cell)]
    unscored = [
        unit for unit in scores if unit not in settled and _lacks(bench, total, "score", bench.keys.score(unit), unit)
    ]
    every: list[Cell | Scored] = [*cells, *scores]
    ended = sum(unit in settled and unit not in refused for unit in every)
    total.cached += len(cells) + len(scores) - len(missing) - len(unscored) - len(refused) - ended
    wanted = _wanted(bench, asked, set(missing), total)
    alive = {unit.seed for unit in every if unit not in settled}
    seeds = [
        seed
        for seed in dict.fromkeys([*(order.seed for order in wanted), *study.seeds])
        if seed in alive or seed not in study.seeds
    ]
    for seed in alive:
        units = [unit for unit in every if unit.seed == seed and unit not in refused]
        total.promised.setdefault(("model", bench.keys.model(seed)), []).extend(units)
    makers = {seed: _maker_jobs(bench, seed, wanted) for seed in seeds}
    explained: dict[ImageRanking, list[str]] = defaultdict(list)
    for job in (job for jobs in makers.values() for job in jobs):
        for name in job.names:
            explained[ImageRanking(bench.chain(name), job.seed, job.crossed)].append(job.id)
    for seed in seeds:
        cells = [cell for cell in missing if cell.seed == seed]
        scored = [unit for unit in unscored if unit.seed == seed]
        total.jobs += makers[seed] + _cell_jobs(bench, cells, makers[seed], explained)
        total.jobs += score_jobs(bench, seed, scored, makers[seed])


def _lacks(bench: Bench, total: Plan, kind: str, key: str, unit: Unit) -> bool:
    """Whether the result of a unit is still to be made; either way it is promised."""
    total.promised.setdefault((kind, key), []).append(unit)
    return not bench.store.has(kind, key)


def _wanted(
    bench: Bench, asked: Sequence[Cell], missing: Set[Cell], total: Plan
) -> dict[ImageRanking, list[tuple[float, ...]]]:
    """The orders that cells need, with the fractions of the levels that are still to be made.

    A finished cell needs its own replicate's: the share of ties is part of its row.
    """
    wanted: dict[ImageRanking, set[float]] = defaultdict(set)
    for cell in asked:
        retrains = protocol_named(cell.protocol).retrains
        for order in bench.inputs.rankings_of(cell)[0 if retrains else 1 :]:
            own = order.seed == cell.seed and not order.crossed
            if order.chain.is_direct or not (own or cell in missing):
                continue
            wanted[order].add(cell.fraction)
            if own:
                name = "levels", bench.keys.ranking(order)
                total.promised.setdefault(name, []).append(cell)
    return {order: bench.rankings.lacking(order, fractions) for order, fractions in wanted.items()}


def _maker_jobs(bench: Bench, seed: int, wanted: Mapping[ImageRanking, list[tuple[float, ...]]]) -> list[Job]:
    """The trainings of a replicate's base models, then the maps of its orders."""
    mine = {order: sets for order, sets in wanted.items() if order.seed == seed}
    folds = [None, *range(FOLDS)] if any(order.crossed for order in mine) else [None]
    trains = [
        Job(
            f"{place(bench.setting, seed)}/train" + ("" if fold is None else f" without part {fold}"),
            "train",
            bench.setting,
            seed,
            fold=fold,
            cost=_base_cost(bench) * (1 if fold is None else 1 - 1 / FOLDS),
        )
        for fold in folds
        if not bench.store.has("model", bench.keys.model(seed, fold))
    ]
    return trains + [job for crossed in (False, True) for job in _explain_jobs(bench, seed, mine, crossed, trains)]


def _cell_jobs(
    bench: Bench, missing: list[Cell], makers: list[Job], explained: Mapping[ImageRanking, list[str]]
) -> list[Job]:
    """Jobs that train, with all tests of their networks, and one per estimator that the base model is asked about."""
    fixed: dict[str, list[Cell]] = defaultdict(list)
    retrained: dict[tuple[str, tuple, float | None], list[Cell]] = defaultdict(list)
    for cell in missing:
        if protocol_named(cell.protocol).retrains:
            # where networks are trained as a stack, the fractions of an estimator are one job
            alone = None if bench.inputs.stacks else cell.fraction
            retrained[cell.estimator, protocol_named(cell.protocol).network, alone].append(cell)
        else:
            fixed[cell.estimator].append(cell)
    train = tuple(job.id for job in makers if job.kind == "train" and job.fold is None)
    jobs = []
    for group in retrained.values():
        for cells in _chunks(bench, group):
            cost = _training_cost(bench) * len({bench.keys.training(cell) for cell in cells})
            needs = _needed(bench, cells, explained)
            name = f"{place(bench.setting, cells[0].seed)}/{cells[0]} +{len(cells) - 1}"
            jobs.append(Job(name, "retrain", bench.setting, cells[0].seed, cells=tuple(cells), needs=needs, cost=cost))
    for chain, cells in fixed.items():
        cost = len(cells) * len(bench.task.test) / 3
        needs = train + _needed(bench, cells, explained)
        name = f"{place(bench.setting, cells[0].seed)}/evaluate {chain}"
        jobs.append(Job(name, "evaluate", bench.setting, cells[0].seed, cells=tuple(cells), needs=needs, cost=cost))
    return jobs


def _explain_jobs(
    bench: Bench, seed: int, wanted: Mapping[ImageRanking, list[tuple[float, ...]]], crossed: bool, trains: list[Job]
) -> list[Job]:
    """Jobs for each family of chains that share passes and lack the same fractions."""
    lacking: dict[tuple[float, ...], list[Chain]] = defaultdict(list)
    for order, sets in wanted.items():
        for fractions in sets if order.crossed == crossed else ():
            lacking[fractions].append(order.chain)
    train = tuple(job.id for job in trains if (job.fold is not None) == crossed)
    jobs = []
    for together, members in lacking.items():
        for family in families(members):
            orders = [ImageRanking(chain, seed, crossed) for chain in family]
            jobs += _family_jobs(bench, orders, together, train)
    return jobs


def _family_jobs(
    bench: Bench, orders: Sequence[ImageRanking], fractions: tuple[float, ...], train: tuple[str, ...]
) -> list[Job]:
    """One job for all images, or one for each shard that is missing; shards wait for what the first prepares."""
    family = [order.chain for order in orders]
    names, seed, crossed = tuple(c.name for c in family), orders[0].seed, orders[0].crossed
    label = f"{place(bench.setting, seed)}/explain {'cross-fitted ' * crossed}{names} {fractions}"
    needs = train if any(chain.needs_model for chain in family) else ()
    classes = len(bench.task.classes)
    jobs: list[Job] = []
    for shard in bench.explainer.missing_shards(orders, fractions) if bench.explainer.shards else (None,):
        images = len(bench.task.train) + len(bench.task.test) if shard is None else len(shard)
        part = "" if shard is None else f" {shard}"
        first = (jobs[0].id,) if jobs and any(chain.prepares for chain in family) else ()
        cost = images * (0.3 + max(chain.passes_for(classes) for chain in family))
        job = Job(
            f"{label}{part}",
            "explain",
            bench.setting,
            seed,
            names,
            fractions,
            needs=needs + first,
            crossed=crossed,
            shard=shard,
            cost=cost,
        )
        jobs.append(job)
    return jobs


def refusal(bench: Bench, cell: Cell) -> str | None:
    """Why a cell has no place in this setting, if it has none."""
    chain, protocol = bench.chain(cell.estimator), protocol_named(cell.protocol)
    if bench.setting.features == "channel" and not chain.knows_channels:
        return f"{chain.name} knows no colour channels, so it cannot rank channel values"
    makers = {protocol.train.by, protocol.test.by} - {"replicate"}
    if makers and bench.setting.weights is not None and chain.needs_model:
        return f"{protocol.name} needs other base models, but the base model is given (weights=)"
    if makers and chain.files:
        return f"{protocol.name} needs maps of several base models, but {chain.name} has one set"
    return misfit(chain, bench)


def _base_cost(bench: Bench) -> float:
    """A base model is trained, or its weights are read and its test images shown."""
    given = bench.setting.weights is not None
    return len(bench.task.test) / 3 if given else _training_cost(bench)


def _training_cost(bench: Bench) -> float:
    """Of one network from its start to its test: retraining does so also where the base model is given."""
    return float(len(bench.task.train) * bench.setting.recipe.epochs + len(bench.task.test) / 3)


def trainings(job: Job, bench: Bench) -> int:
    """How many networks a job trains."""
    if job.kind == "train":
        return int(bench.setting.weights is None)
    if job.kind != "retrain":
        return 0
    return len({bench.keys.training(cell) for cell in job.cells if isinstance(cell, Cell)})


def _chunks(bench: Bench, cells: list[Cell]) -> list[list[Cell]]:
    """Cells in groups of at most STACK trainings, all tests of a training together."""
    by_training: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_training[bench.keys.training(cell)].append(cell)
    trainings = list(by_training.values())
    groups = [trainings[i : i + STACK] for i in range(0, len(trainings), STACK)]
    return [[cell for tests in group for cell in tests] for group in groups]


def _needed(bench: Bench, cells: list[Cell], explained: Mapping[ImageRanking, list[str]]) -> tuple[str, ...]:
    """The jobs that make the maps of some cells."""
    orders = dict.fromkeys(order for cell in cells for order in bench.inputs.rankings_of(cell))
    return tuple(dict.fromkeys(job for order in orders for job in explained.get(order, ())))
