"""What a study or its audits would cost, from a short measurement on this machine."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from uproar.store import Store
from uproar.study.audit import audit_requests, needed_studies
from uproar.study.devices import choose_device, deterministic
from uproar.study.grid import settings_of
from uproar.study.inputs import Data, Network
from uproar.study.run import Plan, plan
from uproar.study.spec import Study
from uproar.training import Recipe, fit

PROBE = 0.3
"""Seconds that the measurement of a network takes at least, unless it has seen all images before."""


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


def estimate(study: Study, store: Store, workers: int) -> CostEstimate:
    """What is to be done and how long it would take here, with so many workers."""
    todo = plan(study, store)
    rates: dict[tuple[str, ...], float] = {}
    for setting in settings_of(study) if todo.jobs else ():
        of_setting = setting.data, setting.network, study.recipe, study.device
        rates[setting.network.name, setting.data.name] = seconds_per_image(*of_setting)
    times: dict[str, list[float]] = defaultdict(list)
    for job in todo.jobs:
        times[job.step].append(job.cost * rates.get(job.like[1:], max(rates.values())))
    return CostEstimate(
        len(todo.wanted) + todo.refused,
        todo.cached,
        todo.refused,
        {kind: (len(each), sum(each) / len(each)) for kind, each in times.items()},
        sum(map(sum, times.values())) / workers,
        _trainings(todo),
    )


@functools.cache
def seconds_per_image(data: Data, network: Network, recipe: Recipe, device: str) -> float:
    """Time to pass one image forward and backward in training, on one thread, measured now."""
    torch_device, train, count = choose_device(device), data.task.train, 4
    model = network.build(data.task, 0).to(torch_device)
    once = recipe.model_copy(update={"epochs": 1})
    with deterministic(torch_device):
        while True:
            x, y = train.read(slice(0, count)), train.labels[:count]
            began = time.perf_counter()
            fit(model, x, y, once, 0)
            spent = time.perf_counter() - began
            if spent > PROBE or count >= len(train):
                return spent / len(x)
            count *= 4


TRAINED = ("retrained", "evaluator", "fine_tuned")
"""The steps that train a network for each of their results; a base model is trained unless its weights are given."""


def _trainings(todo: Plan) -> int:
    """How many networks would be trained."""
    results = [result for job in todo.jobs for result in job.results]
    return sum(
        result.step in TRAINED or (result.step == "base_model" and result["weights"] is None) for result in results
    )


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
    counted: list[Study] = []
    for name in study.audits:
        requests = audit_requests(study, [name])
        new, seconds, networks = 0, 0.0, 0
        for audit_study in needed_studies(requests).values():
            if audit_study not in counted:
                counted.append(audit_study)
                cost = estimate(audit_study, store, workers)
                new += cost.cells - cost.cached - cost.skipped
                seconds += cost.seconds
                networks += cost.trainings
        refused = "; ".join(dict.fromkeys(request.refused for request in requests if request.refused))
        yield AuditCost(name, new, seconds, refused, networks)


def audit_trainings(study: Study, audit: str, store: Store) -> int:
    """How many networks an audit of a study would train that the store does not have."""
    parts = needed_studies(audit_requests(study.with_changes(audits=[audit]), [audit])).values()
    return sum(_trainings(plan(audit_study, store)) for audit_study in parts)


def retrains(study: Study) -> bool:
    """Whether a study itself trains networks beside those it explains."""
    return any(metric.retrains for metric in study.retrainings)
