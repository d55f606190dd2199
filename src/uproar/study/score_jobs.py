"""The jobs that score maps: which estimators share one, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uproar.errors import CODE_ERRORS
from uproar.estimators import Chain, families
from uproar.metrics.probe import images_shown
from uproar.study.bench import Bench
from uproar.study.cell import Scored, by_estimator
from uproar.study.job import Job, place


def score_jobs(bench: Bench, seed: int, units: list[Scored], others: list[Job]) -> list[Job]:
    """One job per estimator, whose metrics share the changed images; several, where maps are dear and share passes."""
    train = tuple(job.id for job in others if job.kind == "train")
    by_chain = by_estimator(units)
    judging = {name: _judging(bench, scored) for name, scored in by_chain.items()}
    jobs = []
    for group in _scored_together(bench, judging):
        names = [chain.name for chain in group]
        cost = _explaining(bench, group) + sum(judging[name] for name in names)
        jobs.append(
            Job(
                f"{place(bench.setting, seed)}/score {', '.join(names)}",
                "score",
                bench.setting,
                seed,
                cells=tuple(unit for name in names for unit in by_chain[name]),
                needs=train,
                cost=len(bench.task.test) * cost,
            )
        )
    return jobs


def _scored_together(bench: Bench, judging: Mapping[str, float]) -> list[list[Chain]]:
    """Chains by job: those that share passes are one, unless these are less than half of its work."""
    chains = [bench.chain(name) for name in judging]
    groups = [[chain] for chain in chains if chain.is_direct]
    for family in families([chain for chain in chains if not chain.is_direct]):
        dear = _explaining(bench, family) >= sum(judging[chain.name] for chain in family)
        groups += [family] if dear else [[chain] for chain in family]
    return groups


def _explaining(bench: Bench, family: Sequence[Chain]) -> float:
    """Passes forward and backward for the maps of an image under chains that share them."""
    classes = len(bench.task.classes)
    return max(0.0 if chain.is_direct else chain.passes_for(classes) for chain in family)


def _judging(bench: Bench, scored: Sequence[Scored]) -> float:
    """The images that metrics show for one, in passes forward and backward; a guess where one does not fit them."""
    try:
        return images_shown(tuple(unit.metric for unit in scored), bench.task.shape) / 3
    except CODE_ERRORS:  # its own job will say why; the others go on
        return 20.0 * len(scored)
