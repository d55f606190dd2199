"""From a study to the jobs that are still to be done, in an order in which they can be done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from uproar.estimators import Chain, families
from uproar.protocols import Protocol
from uproar.store import Store
from uproar.study.cell import Cell, Outcome, Scored, Skipped, Unit
from uproar.study.shards import Shard
from uproar.study.spec import Study
from uproar.study.steps import Bench, Setting, bench_for

STACK = 8
"""Networks trained at once at most."""


@dataclass(frozen=True)
class Job:
    """A piece of work for one process: a training, the maps of a family, or some evaluations."""

    id: str
    kind: str
    setting: Setting
    seed: int
    names: tuple[str, ...] = ()
    """The chains to explain."""
    fractions: tuple[float, ...] = ()
    cells: tuple[Unit, ...] = ()
    needs: tuple[str, ...] = ()
    """Jobs that must have ended before."""
    shard: Shard | None = None
    """Explain: the images, if not all."""
    cost: float = 1.0
    """Expected work, in images passed forward and backward."""

    def __str__(self) -> str:
        if self.kind == "train":
            return f"train {self.setting.model} seed {self.seed}"
        if self.kind == "explain":
            part = "" if self.shard is None else f", {self.shard}"
            return f"explain {', '.join(self.names)} seed {self.seed}{part}"
        if self.kind == "retrain":
            more = f" and {len(self.cells) - 1} more" if len(self.cells) > 1 else ""
            return f"{self.cells[0]}{more}"
        return f"{self.kind} {self.cells[0].estimator} seed {self.seed}"


@dataclass
class Plan:
    """What a study asks for, what the store has of it, and the jobs for the rest."""

    cells: list[Unit]
    cached: int
    jobs: list[Job] = field(default_factory=list)
    skipped: dict[Unit, Outcome] = field(default_factory=dict)

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
        for fraction in study.fractions
        if fraction != protocol.plain
    ]


def scores_of(study: Study, setting: Setting) -> list[Scored]:
    """The metrics of one task and model."""
    return [
        Scored(setting.task, setting.model, chain.name, metric, seed)
        for seed in study.seeds
        for chain in study.chains
        for metric in study.metric_names
    ]


def plan(study: Study, store: Store) -> Plan:
    """The jobs that are still to be done."""
    total = Plan([], 0)
    for setting in Setting.all_of(study):
        bench = bench_for(setting, store.root)
        _plan_setting(study, bench, total)
    return total


def _plan_setting(study: Study, bench: Bench, total: Plan) -> None:
    chains = {chain.name: chain for chain in study.chains}
    protocols = {protocol.name: protocol for protocol in study.protocol_list}
    cells = cells_of(study, bench.setting)
    total.cells += cells
    refused = {n: r for n, c in chains.items() if (r := refusal(bench, c))}
    total.skipped |= {c: Skipped(refused[c.estimator]) for c in cells if c.estimator in refused}
    missing = [
        cell
        for cell in cells
        if cell.estimator not in refused and not bench.store.has("cell", bench.cell_key(cell))
    ]
    total.cached += len(cells) - len(missing) - sum(c.estimator in refused for c in cells)
    scores = scores_of(study, bench.setting)
    unscored = [unit for unit in scores if not bench.store.has("score", bench.score_key(unit))]
    total.cells += scores
    total.cached += len(scores) - len(unscored)
    for seed in study.seeds:
        wanted = [cell for cell in missing if cell.seed == seed]
        jobs = _jobs_of_replicate(bench, seed, wanted, chains, protocols)
        total.jobs += jobs + _score_jobs(bench, seed, [u for u in unscored if u.seed == seed], jobs)


def _jobs_of_replicate(
    bench: Bench, seed: int, missing: list[Cell], chains: dict[str, Chain],
    protocols: dict[str, Protocol],
) -> list[Job]:  # fmt: skip
    jobs: list[Job] = []
    train: tuple[str, ...] = ()
    name = f"{bench.setting.task}/{bench.setting.model}/{seed}"
    if not bench.store.has("model", bench.model_key(seed)):
        jobs.append(Job(f"{name}/train", "train", bench.setting, seed, cost=_training_cost(bench)))
        train = (jobs[0].id,)
    explains = _explain_jobs(bench, name, seed, missing, chains, train)
    explained: dict[str, list[str]] = defaultdict(list)
    for job in explains:
        for chain in job.names:
            explained[chain].append(job.id)
    jobs += explains
    fixed: dict[str, list[Cell]] = defaultdict(list)
    retrained: dict[tuple[str, str, float | None], list[Cell]] = defaultdict(list)
    for cell in missing:
        if protocols[cell.protocol].retrains:
            # where networks are trained as a stack, the fractions of an estimator are one job
            alone = None if bench.stacks else cell.fraction
            retrained[cell.estimator, cell.protocol, alone].append(cell)
        else:
            fixed[cell.estimator].append(cell)
    for (chain, _, _), cells in retrained.items():
        for group in _chunks(cells, STACK):
            needs = _known(explained, [chain])
            cost = _training_cost(bench) * len(group)
            job = Job(f"{name}/{group[0]} +{len(group) - 1}", "retrain", bench.setting, seed,
                      cells=tuple(group), needs=needs, cost=cost)  # fmt: skip
            jobs.append(job)
    for chain, cells in fixed.items():
        cost = len(cells) * len(bench.task.test) / 3
        needs = train + _known(explained, [chain])
        job = Job(f"{name}/evaluate {chain}", "evaluate", bench.setting, seed, cells=tuple(cells),
                  needs=needs, cost=cost)  # fmt: skip
        jobs.append(job)
    return jobs


def _score_jobs(bench: Bench, seed: int, units: list[Scored], others: list[Job]) -> list[Job]:
    """One job per estimator: its metrics share the changed images."""
    train = tuple(job.id for job in others if job.kind == "train")
    by_chain: dict[str, list[Scored]] = defaultdict(list)
    for unit in units:
        by_chain[unit.estimator].append(unit)
    name = f"{bench.setting.task}/{bench.setting.model}/{seed}"
    return [
        Job(
            f"{name}/score {chain}",
            "score",
            bench.setting,
            seed,
            cells=tuple(scored),
            needs=train,
            cost=len(bench.task.test) * 60 * len(scored) / 3,
        )
        for chain, scored in by_chain.items()
    ]


def _explain_jobs(
    bench: Bench, name: str, seed: int, missing: list[Cell], chains: dict[str, Chain],
    train: tuple[str, ...],
) -> list[Job]:  # fmt: skip
    """One job per family of chains that share passes and lack the same fractions."""
    lacking: dict[tuple[float, ...], list[Chain]] = defaultdict(list)
    for chain in chains.values():
        wanted = {cell.fraction for cell in missing if cell.estimator == chain.name}
        if wanted and not chain.is_direct:
            fractions = tuple(sorted(wanted - bench.served(chain, seed)))
            if fractions:
                lacking[fractions].append(chain)
    jobs = []
    for fractions, members in lacking.items():
        for family in families(members):
            jobs += _family_jobs(bench, name, seed, family, fractions, train)
    return jobs


def _family_jobs(
    bench: Bench, name: str, seed: int, family: Sequence[Chain], fractions: tuple[float, ...],
    train: tuple[str, ...],
) -> list[Job]:  # fmt: skip
    """One job for all images, or one for each shard that is missing; shards wait for what the first prepares."""
    names = tuple(chain.name for chain in family)
    needs = train if any(chain.needs_model for chain in family) else ()
    jobs: list[Job] = []
    for shard in bench.missing_shards(family, seed, fractions) if bench.shards else (None,):
        images = len(bench.task.train) + len(bench.task.test) if shard is None else len(shard)
        part = "" if shard is None else f" {shard}"
        first = (jobs[0].id,) if jobs and any(chain.prepares for chain in family) else ()
        cost = images * (0.3 + max(chain.passes for chain in family))
        job = Job(f"{name}/explain {names} {fractions}{part}", "explain", bench.setting, seed, names,
                  fractions, needs=needs + first, shard=shard, cost=cost)  # fmt: skip
        jobs.append(job)
    return jobs


def refusal(bench: Bench, chain: Chain) -> str | None:
    """Why a chain has no place in this setting, if it has none."""
    if bench.setting.features == "channel" and not chain.knows_channels:
        return f"{chain.name} knows no colour channels, so it cannot rank channel values"
    return None


def _training_cost(bench: Bench) -> float:
    if bench.setting.weights is not None:
        return len(bench.task.test) / 3
    return float(len(bench.task.train) * bench.setting.recipe.epochs)


def _chunks(cells: list[Cell], size: int) -> list[list[Cell]]:
    return [cells[start : start + size] for start in range(0, len(cells), size)]


def _known(jobs: dict[str, list[str]], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(job for name in names for job in jobs.get(name, ()))
