"""What a study or its audits would cost, from a short measurement on this machine."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from uproar.store import Store
from uproar.study.audit import audit_requests, needed_studies
from uproar.study.devices import choose_device
from uproar.study.grid import Setting, settings_of
from uproar.study.run import Plan, plan
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


def estimate(study: Study, store: Store, workers: int, rates: dict[str, float] | None = None) -> CostEstimate:
    """What is to be done and how long it would take here, with so many workers.

    `rates` keeps the seconds per image that were measured, for the next study of the same task and model.
    """
    todo, rates = plan(study, store), {} if rates is None else rates
    for setting in settings_of(study) if todo.jobs else ():
        name = str(setting.place)
        if name not in rates:
            rates[name] = seconds_per_image(setting)
    times: dict[str, list[float]] = defaultdict(list)
    for job in todo.jobs:
        data, network = job.data, job.results[0].arguments.get("network")
        places = [rate for name, rate in rates.items() if data is not None and repr(data.name) in name]
        known = network and rates.get(str((data.name, network.spec.name)))
        times[job.step].append(job.cost * (known or max(places, default=0.0)))
    total = sum(sum(each) for each in times.values())
    return CostEstimate(
        len(todo.wanted) + todo.refused,
        todo.cached,
        todo.refused,
        {kind: (len(each), sum(each) / len(each)) for kind, each in times.items()},
        total / workers,
        _trainings(todo),
    )


TRAINED = ("retrained", "evaluator", "fine_tuned")
"""The steps that train a network for each of their results; a base model is trained unless its weights are given."""


def _trainings(todo: Plan) -> int:
    """How many networks would be trained."""
    made = [result for job in todo.jobs for result in job.results]
    return sum(result.step in TRAINED or (result.step == "base_model" and result["weights"] is None) for result in made)


def seconds_per_image(setting: Setting) -> float:
    """Time to pass one image forward and backward in training, on one thread, measured now."""
    threads, task = torch.get_num_threads(), setting.data.task
    torch.set_num_threads(1)
    try:
        model = setting.network.build(task, 0).to(choose_device(setting.study.device))
        recipe = setting.study.recipe.model_copy(update={"epochs": 1})
        rows = slice(0, min(len(task.train), 4 * recipe.batch))
        x, y = task.train.read(rows), task.train.labels[rows]
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
    rates: dict[str, float] = {}
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
        refused = "; ".join(dict.fromkeys(one.refused for one in requests if one.refused))
        yield AuditCost(name, new, seconds, refused, networks)


def audit_trainings(study: Study, audit: str, store: Store) -> int:
    """How many networks an audit of a study would train that the store does not have."""
    parts = needed_studies(audit_requests(study.with_changes(audits=[audit]), [audit])).values()
    return sum(_trainings(plan(part, store)) for part in parts)


def retrains(study: Study) -> bool:
    """Whether a study itself trains networks beside those it explains."""
    return any(metric.retrains for metric in study.retrainings)
