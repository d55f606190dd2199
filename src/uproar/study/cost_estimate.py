"""What a study or its audits would cost, from a short measurement on this machine."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from uproar.models import build
from uproar.store import Store
from uproar.study.audit import audit_requests, needed_studies, needed_trials, plan_trials, seconds_per_trial
from uproar.study.bench import Bench, bench_for
from uproar.study.plan import Plan, plan, trainings
from uproar.study.settings import Setting
from uproar.study.spec import Study
from uproar.training import fit

PROBE = 0.4
"""Seconds spent on measuring each network."""
FEW = 4
"""Images of the first pass; a network for which it takes longer than PROBE is measured by it alone."""


@dataclass(frozen=True)
class CostEstimate:
    """Cells, jobs and time of what is still to be done."""

    cells: int
    cached: int
    skipped: int
    jobs: dict[str, tuple[int, float]]
    """By kind: how many, and seconds each."""
    seconds: float
    trainings: int = 0
    """Networks that are trained."""


def estimate(study: Study, store: Store, workers: int, rates: dict[Setting, float] | None = None) -> CostEstimate:
    """What is to be done and how long it would take here, with so many workers.

    `rates` keeps the seconds per image that were measured, for the next study of the same settings.
    """
    todo = plan(study, store)
    rates = {} if rates is None else rates
    for setting in dict.fromkeys(job.setting for job in todo.jobs):
        if setting not in rates:
            rates[setting] = seconds_per_image(bench_for(setting, store.root))
    times: dict[str, list[float]] = defaultdict(list)
    for job in todo.jobs:
        times[job.kind].append(job.cost * rates[job.setting])
    total = sum(sum(each) for each in times.values())
    return CostEstimate(
        len(todo.cells),
        todo.cached,
        len(todo.skipped),
        {kind: (len(each), sum(each) / len(each)) for kind, each in times.items()},
        total / workers,
        _trainings(todo, store),
    )


def _trainings(todo: Plan, store: Store) -> int:
    return sum(trainings(job, bench_for(job.setting, store.root)) for job in todo.jobs)


def seconds_per_image(bench: Bench) -> float:
    """Time to pass one image forward and backward in training, on one thread, measured now."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = build(bench.spec, bench.task, 0).to(bench.device)
        recipe = bench.setting.recipe.model_copy(update={"epochs": 1})
        rows = slice(0, min(len(bench.task.train), 4 * recipe.batch))
        x, y = bench.task.train.read(rows), bench.task.train.labels[rows]
        began = time.perf_counter()
        fit(model, x[:FEW], y[:FEW], recipe, 0)  # also chooses kernels, which does not matter where it takes long
        if (spent := time.perf_counter() - began) > PROBE:
            return spent / len(x[:FEW])
        fit(model, x, y, recipe, 0)
        began, passes = time.perf_counter(), 0
        while time.perf_counter() - began < PROBE:
            fit(model, x, y, recipe, 0)
            passes += len(x)
        return (time.perf_counter() - began) / passes
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class AuditCost:
    """New cells of an audit and about how many seconds they take; or why it does not apply."""

    audit: str
    cells: int
    seconds: float
    refused: str = ""
    trainings: int = 0
    """Networks that would be trained."""


def audit_costs(study: Study, store: Store, workers: int) -> Iterator[AuditCost]:
    """The cost of each audit of a study in turn. What an earlier one runs anyway counts there.

    Single cells that two audits share are counted for both: the sum is the most that it can be.
    """
    rates: dict[Setting, float] = {}
    counted: list[Study] = []
    for name in study.audits:
        requests = audit_requests(study, [name])
        new, seconds, networks = 0, 0.0, 0
        for part in needed_studies(requests).values():
            if part not in counted:
                counted.append(part)
                cost = estimate(part, store, workers, rates)
                new += cost.cells - cost.cached - cost.skipped
                seconds += cost.seconds
                networks += cost.trainings
        for trials, setting in needed_trials(requests).values():
            todo = plan_trials(trials, setting, store)
            new += len(todo.jobs)
            seconds += todo.cost * seconds_per_trial(trials) / workers if todo.jobs else 0.0
        refused = "; ".join(dict.fromkeys(one.refused for one in requests if one.refused))
        yield AuditCost(name, new, seconds, refused, networks)


def audit_trainings(study: Study, audit: str, store: Store) -> int:
    """How many networks an audit of a study would train that the store does not have."""
    parts = needed_studies(audit_requests(study.with_changes(audits=[audit]), [audit])).values()
    return sum(_trainings(plan(part, store), store) for part in parts)


def retrains(study: Study) -> bool:
    """Whether a study itself trains networks beside those it explains."""
    return any(protocol.retrains for protocol in study.protocol_list)
