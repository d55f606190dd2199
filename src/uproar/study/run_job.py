"""One job done in one process: outcomes as values, results straight into the store."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from uproar.errors import CODE_ERRORS, Absent, Damaged, NotApplicable, SideEffect, StoreError, one_line
from uproar.models.output_kind import assuming_output
from uproar.plugins import describe_error
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Done, Failed, Outcome, ScoreCell, Skipped, Unit, by_estimator
from uproar.study.devices import deterministic
from uproar.study.job import Job, evaluator_of

ATTEMPTS = 3
"""How often a step is tried when files of the store vanish or are damaged under it."""


@dataclass
class Report:
    """How a job ended: an outcome per chain explained or cell measured."""

    job: Job
    outcomes: dict[str | Unit, Outcome]
    seconds: float
    notices: list[str] = field(default_factory=list)
    worker: str = ""


def run_job(job: Job, root: str) -> Report:
    """Carry out a job against the store at `root`; errors become outcomes."""
    started = time.perf_counter()
    bench = bench_for(job.setting, root)
    with deterministic(bench.device):
        outcomes = _KINDS[job.kind](bench, job)
    faults = bench.store.faults
    notices, faults.notices = faults.notices, []
    return Report(job, outcomes, time.perf_counter() - started, notices)


def attempt(work: Callable[[], object], bench: Bench | None = None) -> Outcome:
    """`Done`, or why not: what code of a user asks for ends its own cell. A full disk stops the run.

    What the store has lost while it was needed is made by the next attempt. After code of the user has changed
    something, the bench forgets its data and networks: what comes next is computed from what the store has.
    """
    lost = ""
    for _ in range(ATTEMPTS):
        try:
            with nullcontext() if bench is None else assuming_output(bench.inputs.output):
                work()
        except NotApplicable as error:
            return Skipped(one_line(error))
        except SideEffect as error:
            if bench is not None:
                bench.forget()
            return Failed(one_line(error), traceback.format_exc())
        except (Absent, Damaged) as error:
            lost = one_line(error)
            continue
        except StoreError:
            raise
        except CODE_ERRORS as error:
            return Failed(describe_error(error), traceback.format_exc())
        return Done()
    return Failed(f"the store lost what it needs, {ATTEMPTS} times: {lost}")


def _train(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    return {"base": attempt(lambda: bench.base_models.get(job.seed, job.fold), bench)}


def _train_evaluator(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    """All at once; if that fails, one by one, so that only the guilty one fails."""
    together = attempt(lambda: bench.evaluators.train(job.seeds), bench)
    if isinstance(together, Done) or len(job.seeds) == 1:
        return {evaluator_of(seed): together for seed in job.seeds}
    return {evaluator_of(s): attempt(lambda s=s: bench.evaluators.train([s]), bench) for s in job.seeds}  # type: ignore[misc]


def _fine_tune(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    """What goes wrong ends the metrics that ask this copy, in jobs of their own, and no others."""
    assert job.tuning is not None
    tuning = job.tuning
    return {job.id: attempt(lambda: bench.base_models.fine_tuned(job.seed)(tuning), bench)}


def _explain(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    """The whole family together; if that fails, one by one, so that only the guilty one fails."""
    outcomes: dict[str | Unit, Outcome] = {}
    outcomes.update(_refused(bench, job.names, job.seed, job.crossed))
    names = [name for name in job.names if name not in outcomes]
    options = (job.seed, job.fractions, job.shard, job.crossed, job.test_only)
    if not names:
        return outcomes
    together = attempt(lambda: bench.explainer.explain(names, *options), bench)
    if isinstance(together, Done) or len(names) == 1:
        return outcomes | dict.fromkeys(names, together)
    for name in names:
        outcomes[name] = attempt(lambda name=name: bench.explainer.explain([name], *options), bench)  # type: ignore[misc]
    return outcomes


def _refused(bench: Bench, names: Iterable[str], seed: int, crossed: bool = False) -> dict[str, Outcome]:
    """The estimators of the user that break the rules, each with the reason."""
    refused: dict[str, Outcome] = {}
    for name in names:
        outcome = attempt(lambda name=name: bench.explainer.check_rules(name, seed, crossed), bench)  # type: ignore[misc]
        if isinstance(outcome, Failed):
            refused[name] = outcome
    return refused


def _measure(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    """All cells together; if that fails, one by one, so that only the guilty one fails."""
    together = attempt(lambda: bench.cells.measure(job.cells), bench)  # type: ignore[arg-type]
    if isinstance(together, Done) or len(job.cells) == 1:
        return dict.fromkeys(job.cells, together)
    return {
        cell: attempt(lambda cell=cell: bench.cells.measure([cell]), bench)  # type: ignore[misc]
        for cell in job.cells
    }


def _score(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    """All together; if that fails, an estimator at a time, then a metric, so that only the guilty one fails."""
    units: Sequence[ScoreCell] = job.cells  # type: ignore[assignment]
    refused = _refused(bench, by_estimator(units), job.seed)
    outcomes: dict[str | Unit, Outcome] = {u: refused[u.estimator] for u in units if u.estimator in refused}
    rest = [unit for unit in units if unit.estimator not in refused]
    return outcomes | (_scored(bench, rest) if rest else {})


def _scored(bench: Bench, units: Sequence[ScoreCell]) -> dict[ScoreCell, Outcome]:
    together = attempt(lambda: bench.metric_scores.compute(units), bench)
    if isinstance(together, Done) or len(units) == 1:
        return dict.fromkeys(units, together)
    parts = list(by_estimator(units).values())
    if len(parts) == 1:
        parts = [[unit] for unit in units]
    return {unit: done for part in parts for unit, done in _scored(bench, part).items()}


def _simulate(bench: Bench, job: Job) -> dict[str | Unit, Outcome]:
    from uproar.study.audit import simulate  # loads tables, which other jobs need not wait for

    return {unit: attempt(lambda unit=unit: simulate(unit, bench.store)) for unit in job.cells}  # type: ignore[misc]


_KINDS: dict[str, Callable[[Bench, Job], dict[str | Unit, Outcome]]] = {
    "train": _train,
    "evaluator": _train_evaluator,
    "fine-tune": _fine_tune,
    "explain": _explain,
    "retrain": _measure,
    "evaluate": _measure,
    "judge": _measure,
    "score": _score,
    "simulate": _simulate,
}
