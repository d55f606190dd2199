"""From a study to the jobs that are still to be done, in an order in which they can be done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from uproar.errors import CODE_ERRORS
from uproar.estimators import Chain, estimators, families, read_chain
from uproar.metrics import metrics
from uproar.metrics.probe import images_shown
from uproar.metrics.registry import fine_tuning_of, read_metric
from uproar.protocols import protocol_named, protocols
from uproar.protocols.mask_assignment import FOLDS
from uproar.registry import Entry
from uproar.removal.fill import read_fill
from uproar.store import Store
from uproar.study.base_models import FINE_TUNED
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, Outcome, ScoreCell, Skipped, Unit, by_estimator
from uproar.study.grid import cells_of, check_files, check_weights, refusal, scores_of
from uproar.study.job import Job, place
from uproar.study.settings import ImageRanking, Setting
from uproar.study.spec import Study
from uproar.training import FineTuning


def plugins_of_chain(chain: Chain) -> str:
    """The plug-ins whose functions make a chain's maps, as one text; empty where all are uproar's own."""
    return _joined(_of_chain(chain))


def plugins_of_unit(unit: Unit, setting: Setting) -> str:
    """The plug-ins whose functions are called for a cell.

    The maps of an accuracy are in the store, so that the plug-in that made them is loaded for its names alone: no
    network is trained in a process that has called it.
    """
    if isinstance(unit, ScoreCell):
        call = metrics.complete(read_metric(unit.metric))
        fill = dict(call.options).get("fill")
        own = [metrics[call.name], *([read_fill(fill)[0]] if isinstance(fill, str) else [])]
        return _joined([*_of_chain(read_chain(unit.estimator)), *own])
    if not isinstance(unit, Cell):
        return ""
    chain = read_chain(unit.estimator)
    own = [protocols[unit.protocol]] if unit.protocol in protocols else []
    called = _joined([*own, read_fill(setting.fill)[0], *(_of_chain(chain) if chain.is_direct else ())])
    loaded = plugins_of_chain(chain)
    return f"{called} (after {loaded})" if loaded else called


def plugins_of_job(job: Job) -> str:
    """The plug-ins whose functions a job calls; all its chains and cells call the same."""
    if job.cells:
        return plugins_of_unit(job.cells[0], job.setting)
    if job.names:
        return plugins_of_chain(read_chain(job.names[0]))
    return _joined([read_fill(job.setting.fill)[0]]) if job.kind == "evaluator" else ""


def _of_chain(chain: Chain) -> list[Entry]:
    return [estimators[call.name] for call in (*chain.raw.walk(), *chain.filters)]


def _joined(entries: Iterable[Entry]) -> str:
    return " ".join(sorted({entry.plugin for entry in entries} - {""}))


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

    Levels go by the key of their ranking.
    """

    @property
    def cost(self) -> float:
        """All expected work, in images passed forward and backward."""
        return sum(job.cost for job in self.jobs)


def plan(study: Study, store: Store, settled: Collection[Unit] = ()) -> Plan:
    """The jobs that are still to be done; what is `settled` has ended without a result and is not tried again."""
    total = Plan([], 0)
    benches = [bench_for(setting, store.root) for setting in Setting.all_of(study)]
    check_files(study, benches)
    check_weights(study, benches)
    for bench in benches:
        bench.store.backend.refresh()  # others may have written since it was last read
        _plan_setting(study, bench, total, settled)
    total.jobs = [replace(job, plugin=plugins_of_job(job)) for job in total.jobs]
    return total


def _plan_setting(study: Study, bench: Bench, total: Plan, settled: Collection[Unit]) -> None:
    cells, scores = cells_of(study, bench.setting), scores_of(study, bench.setting)
    refused: dict[Unit, Outcome] = {c: Skipped(reason) for c in cells if (reason := refusal(bench, c))}
    total.cells += [*cells, *scores]
    total.skipped |= refused
    applicable = [cell for cell in cells if cell not in refused and cell not in settled]
    missing = [cell for cell in applicable if _lacks(bench, total, "cell", bench.keys.cell(cell), cell)]
    unscored = [
        unit for unit in scores if unit not in settled and _lacks(bench, total, "score", bench.keys.score(unit), unit)
    ]
    every: list[Cell | ScoreCell] = [*cells, *scores]
    ended = sum(unit in settled and unit not in refused for unit in every)
    total.cached += len(cells) + len(scores) - len(missing) - len(unscored) - len(refused) - ended
    tested_only = _tested_only(bench, applicable)
    lacking = _lacking(study, bench, applicable, set(missing), tested_only, total)
    alive = {unit.seed for unit in every if unit not in settled}
    seeds = [
        seed
        for seed in dict.fromkeys([*(ranking.seed for ranking in lacking), *study.seeds])
        if seed in alive or seed not in study.seeds
    ]
    for seed in alive:
        units = [unit for unit in every if unit.seed == seed and unit not in refused]
        total.promised.setdefault(("model", bench.keys.model(seed)), []).extend(units)
    base_jobs = {seed: _base_jobs(bench, seed, lacking, tested_only) for seed in seeds}
    explain_jobs: dict[ImageRanking, list[str]] = defaultdict(list)
    for job in (job for jobs in base_jobs.values() for job in jobs):
        for name in job.names:
            explain_jobs[ImageRanking(bench.chain(name), job.seed, job.crossed)].append(job.id)
    evaluators = _evaluator_jobs(bench, missing, base_jobs)
    for seed in seeds:
        cells = [cell for cell in missing if cell.seed == seed]
        scored = [unit for unit in unscored if unit.seed == seed]
        own = [evaluators[seed]] if seed in evaluators else []
        total.jobs += [*base_jobs[seed], *(job for job in own if job.seed == seed)]
        total.jobs += _cell_jobs(bench, cells, base_jobs[seed], own, explain_jobs)
        tunings = _fine_tuning_jobs(bench, seed, scored, base_jobs[seed])
        total.jobs += tunings.values()
        together: dict[tuple[int | None, str], list[ScoreCell]] = defaultdict(list)
        for unit in scored:
            together[unit.images, plugins_of_unit(unit, bench.setting)].append(unit)
        for same in together.values():
            total.jobs += _score_jobs(bench, seed, same, base_jobs[seed], tunings)


def _lacks(bench: Bench, total: Plan, kind: str, key: str, unit: Unit) -> bool:
    """Whether the result of a unit is still to be made; either way it is promised."""
    total.promised.setdefault((kind, key), []).append(unit)
    return not bench.store.has(kind, key)


def _lacking(
    study: Study,
    bench: Bench,
    applicable: Sequence[Cell],
    missing: Set[Cell],
    tested_only: Set[ImageRanking],
    total: Plan,
) -> dict[ImageRanking, list[tuple[float, ...]]]:
    """The rankings that cells need, with the fractions of the levels that are still to be made.

    A finished cell needs its own replicate's: the share of ties is part of its row.
    """
    lacking: dict[ImageRanking, set[float]] = defaultdict(set)
    for cell in applicable:
        retrains = protocol_named(cell.protocol).retrains
        for ranking in bench.inputs.rankings_of(cell)[0 if retrains else 1 :]:
            own = ranking.seed == cell.seed and not ranking.crossed
            if ranking.chain.is_direct or not (own or cell in missing):
                continue
            lacking[ranking] |= {cell.fraction, *study.all_fractions}
            if own:
                name = "levels", bench.keys.ranking(ranking)
                total.promised.setdefault(name, []).append(cell)
    return {
        ranking: bench.rankings.lacking(ranking, fractions, ranking in tested_only)
        for ranking, fractions in lacking.items()
    }


def _tested_only(bench: Bench, cells: Sequence[Cell]) -> set[ImageRanking]:
    """The rankings that only test images are changed by: the evaluator needs no maps of training images."""
    evaluated: set[ImageRanking] = set()
    others: set[ImageRanking] = set()
    for cell in cells:
        rankings = bench.inputs.rankings_of(cell)
        if protocol_named(cell.protocol).evaluator:
            evaluated.add(rankings[1])
        else:
            others.update(rankings)
    return evaluated - others


def _base_jobs(
    bench: Bench,
    seed: int,
    lacking: Mapping[ImageRanking, list[tuple[float, ...]]],
    tested_only: Collection[ImageRanking],
) -> list[Job]:
    """The trainings of a replicate's base models, then the maps of its rankings."""
    mine = {ranking: sets for ranking, sets in lacking.items() if ranking.seed == seed}
    folds = [None, *range(FOLDS)] if any(ranking.crossed for ranking in mine) else [None]
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
    return trains + [
        job
        for crossed, test_only in ((False, True), (False, False), (True, False))
        for job in _explain_jobs(
            bench,
            seed,
            {ranking: sets for ranking, sets in mine.items() if (ranking in tested_only) == test_only},
            crossed,
            trains,
            test_only,
        )
    ]


def _cell_jobs(
    bench: Bench,
    missing: list[Cell],
    base_jobs: list[Job],
    evaluators: list[Job],
    explain_jobs: Mapping[ImageRanking, list[str]],
) -> list[Job]:
    """Jobs that train, with all tests of their networks, and one per estimator on which a network is asked alone."""
    fixed: dict[tuple[str, str, str], list[Cell]] = defaultdict(list)
    retrained: dict[tuple[str, tuple, float | None, str], list[Cell]] = defaultdict(list)
    for cell in missing:
        called = plugins_of_unit(cell, bench.setting)
        if protocol_named(cell.protocol).retrains:
            # where networks are trained as a stack, the fractions of an estimator are one job
            alone = None if bench.inputs.stacks else cell.fraction
            retrained[cell.estimator, protocol_named(cell.protocol).network, alone, called].append(cell)
        else:
            kind = "judge" if protocol_named(cell.protocol).evaluator else "evaluate"
            fixed[kind, cell.estimator, called].append(cell)
    train = tuple(job.id for job in base_jobs if job.kind == "train" and job.fold is None)
    network, jobs = {"evaluate": train, "judge": (*train, *(job.id for job in evaluators))}, list[Job]()
    for group in retrained.values():
        for cells, trained in _chunks(bench, group):
            cost = _training_cost(bench) * trained
            needs = _needed(bench, cells, explain_jobs)
            name = f"{place(bench.setting, cells[0].seed)}/{cells[0]} +{len(cells) - 1}"
            jobs.append(Job(name, "retrain", bench.setting, cells[0].seed, cells=tuple(cells), needs=needs, cost=cost))
    for (kind, chain, called), cells in fixed.items():
        images = len(bench.inputs.rows_asked(protocol_named(cells[0].protocol)))
        cost = len(cells) * images / 3
        needs = network[kind] + _needed(bench, cells, explain_jobs)
        name = f"{place(bench.setting, cells[0].seed)}/{kind} {chain} {called}"
        jobs.append(Job(name, kind, bench.setting, cells[0].seed, cells=tuple(cells), needs=needs, cost=cost))
    return jobs


def _evaluator_jobs(bench: Bench, missing: Sequence[Cell], base_jobs: Mapping[int, Sequence[Job]]) -> dict[int, Job]:
    """By replicate, the training of the evaluator that its cells ask, if it is still to be done.

    Evaluators that are trained as a stack are one job of several replicates.
    """
    asked = dict.fromkeys(cell.seed for cell in missing if protocol_named(cell.protocol).evaluator)
    lacking = [seed for seed in asked if not bench.store.has("evaluator", bench.keys.evaluator(seed))]
    images, jobs = len(bench.task.train), dict[int, Job]()
    for seeds in bench.evaluators.groups(lacking, STACK) if lacking else ():
        epochs = sum(bench.setting.evaluator_epochs(seed, bench.task.shape, images) for seed in seeds)
        needs = tuple(
            job.id for seed in seeds for job in base_jobs.get(seed, ()) if job.kind == "train" and job.fold is None
        )
        name = f"{place(bench.setting, seeds[0])}/evaluator"
        job = Job(name, "evaluator", bench.setting, seeds[0], needs=needs, seeds=seeds, cost=float(images * epochs))
        jobs |= dict.fromkeys(seeds, job)
    return jobs


def _explain_jobs(
    bench: Bench,
    seed: int,
    lacking: Mapping[ImageRanking, list[tuple[float, ...]]],
    crossed: bool,
    trains: list[Job],
    test_only: bool,
) -> list[Job]:
    """Jobs for each family of chains that share passes and lack the same fractions."""
    chains: dict[tuple[tuple[float, ...], str], list[Chain]] = defaultdict(list)
    for ranking, sets in lacking.items():
        for fractions in sets if ranking.crossed == crossed else ():
            chains[fractions, plugins_of_chain(ranking.chain)].append(ranking.chain)
    train = tuple(job.id for job in trains if (job.fold is not None) == crossed)
    jobs = []
    for (fractions, _), members in chains.items():
        for family in families(members):
            rankings = [ImageRanking(chain, seed, crossed) for chain in family]
            jobs += _family_jobs(bench, rankings, fractions, train, test_only)
    return jobs


def _family_jobs(
    bench: Bench,
    rankings: Sequence[ImageRanking],
    fractions: tuple[float, ...],
    train: tuple[str, ...],
    test_only: bool,
) -> list[Job]:
    """One job for all images, or one for each shard that is missing; shards wait for what the first prepares."""
    family = [ranking.chain for ranking in rankings]
    names, seed, crossed = tuple(c.name for c in family), rankings[0].seed, rankings[0].crossed
    which = f"{'cross-fitted ' * crossed}{'test images ' * test_only}{names} {fractions}"
    label = f"{place(bench.setting, seed)}/explain {which}"
    needs = train if any(chain.needs_model for chain in family) else ()
    jobs: list[Job] = []
    sharded = bool(bench.explainer.shards)
    for shard in bench.explainer.missing_shards(rankings, fractions, test_only) if sharded else (None,):
        every = len(bench.task.test) + (0 if test_only else len(bench.task.train))
        images = every if shard is None else len(shard)
        part = "" if shard is None else f" {shard}"
        first = (jobs[0].id,) if jobs and any(chain.prepares for chain in family) else ()
        cost = images * (0.3 + max(chain.passes for chain in family))
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
            test_only=test_only,
            cost=cost,
        )
        jobs.append(job)
    return jobs


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
    if job.kind in ("evaluator", "fine-tune"):
        return max(1, len(job.seeds))
    if job.kind != "retrain":
        return 0
    return len({bench.keys.training(cell) for cell in job.cells if isinstance(cell, Cell)})


def _chunks(bench: Bench, cells: list[Cell]) -> list[tuple[list[Cell], int]]:
    """Cells in groups of at most STACK trainings, all tests of a training together, with the number of trainings."""
    by_training: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_training[bench.keys.training(cell)].append(cell)
    trainings = list(by_training.values())
    groups = [trainings[i : i + STACK] for i in range(0, len(trainings), STACK)]
    return [([cell for tests in group for cell in tests], len(group)) for group in groups]


def _needed(bench: Bench, cells: list[Cell], explain_jobs: Mapping[ImageRanking, list[str]]) -> tuple[str, ...]:
    """The jobs that make the maps of some cells."""
    rankings = dict.fromkeys(ranking for cell in cells for ranking in bench.inputs.rankings_of(cell))
    return tuple(dict.fromkeys(job for ranking in rankings for job in explain_jobs.get(ranking, ())))


def _fine_tuning_jobs(
    bench: Bench, seed: int, units: Sequence[ScoreCell], others: Sequence[Job]
) -> dict[FineTuning, Job]:
    """The fine-tunings that metrics of a replicate need and the store lacks: one of each serves all estimators."""
    train = tuple(job.id for job in others if job.kind == "train")
    wanted = {tuning for unit in units if (tuning := fine_tuning_of(unit.metric)) is not None}
    lacking = [t for t in wanted if not bench.store.has(FINE_TUNED, bench.keys.fine_tuned(t, seed))]
    return {
        tuning: Job(
            f"{place(bench.setting, seed)}/fine-tune {tuning.removal}, {tuning.recipe.title}",
            "fine-tune",
            bench.setting,
            seed,
            needs=train,
            tuning=tuning,
            cost=float(len(bench.task.train) * tuning.recipe.epochs),
        )
        for tuning in sorted(lacking, key=lambda t: str(t.identity))
    }


def _score_jobs(
    bench: Bench, seed: int, units: list[ScoreCell], others: list[Job], tunings: Mapping[FineTuning, Job]
) -> list[Job]:
    """One job per estimator, whose metrics share the changed images; several if maps cost more and share passes.

    All are asked about the same images.
    """
    images = len(bench.inputs.rows_of(units[0]))
    train = tuple(job.id for job in others if job.kind == "train")
    by_chain, called = by_estimator(units), plugins_of_unit(units[0], bench.setting)
    judging = {name: _judging(bench, scored) for name, scored in by_chain.items()}
    jobs = []
    for group in _scored_together(bench, judging):
        names = [chain.name for chain in group]
        cost = _explaining(bench, group) + sum(judging[name] for name in names)
        judges = {fine_tuning_of(unit.metric) for name in names for unit in by_chain[name]}
        tuned = tuple(job.id for tuning, job in tunings.items() if tuning in judges)
        jobs.append(
            Job(
                f"{place(bench.setting, seed)}/score {', '.join(names)} on {images} images {called}",
                "score",
                bench.setting,
                seed,
                cells=tuple(unit for name in names for unit in by_chain[name]),
                needs=train + tuned,
                cost=images * cost,
            )
        )
    return jobs


def _scored_together(bench: Bench, judging: Mapping[str, float]) -> list[list[Chain]]:
    """Chains by job: those that share passes are one, unless these are less than half of its work."""
    chains = [bench.chain(name) for name in judging]
    groups = [[chain] for chain in chains if chain.is_direct]
    for family in families([chain for chain in chains if not chain.is_direct]):
        expensive = _explaining(bench, family) >= sum(judging[chain.name] for chain in family)
        groups += [family] if expensive else [[chain] for chain in family]
    return groups


def _explaining(bench: Bench, family: Sequence[Chain]) -> float:
    """Passes forward and backward for the maps of an image under chains that share them."""
    return max(0.0 if chain.is_direct else chain.passes for chain in family)


def _judging(bench: Bench, scored: Sequence[ScoreCell]) -> float:
    """The images that metrics show for one, in passes forward and backward; a guess where one does not fit them."""
    try:
        return images_shown(tuple(unit.metric for unit in scored), bench.task.shape) / 3
    except CODE_ERRORS:  # its own job will say why; the others go on
        return 20.0 * len(scored)
