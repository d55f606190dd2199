"""Trials on synthetic data, as jobs: kept in the store, so that they are made once."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from uproar.audits.registry import Trials
from uproar.audits.synthetic import SIMULATIONS
from uproar.errors import NotApplicable
from uproar.storage.store import Item, Store, key_of
from uproar.study.cell import TrialBatch, Unit
from uproar.study.job import Job
from uproar.study.plan import Plan
from uproar.study.settings import Setting

TOGETHER = 50
"""Trials of a job."""


def units_of(trials: Trials) -> list[TrialBatch]:
    """The trials in pieces."""
    firsts = range(0, trials.count, TOGETHER)
    return [TrialBatch(trials.simulation, i, min(TOGETHER, trials.count - i)) for i in firsts]


def key(unit: TrialBatch) -> str:
    """What some trials depend on."""
    inputs = {"world": unit.simulation, "version": SIMULATIONS[unit.simulation].version}
    return key_of("trials", {**inputs, "first": unit.first, "count": unit.count})


def plan_trials(trials: Trials, setting: Setting, store: Store) -> Plan:
    """The jobs that are still to be done; they run where those of a setting do."""
    units = units_of(trials)
    store.backend.refresh()
    missing = [unit for unit in units if not store.has("trials", key(unit))]
    jobs = [Job(str(unit), "simulate", setting, 0, cells=(unit,), cost=unit.count) for unit in missing]
    promised: dict[tuple[str, str], list[Unit]] = {("trials", key(unit)): [unit] for unit in units}
    return Plan(list(units), len(units) - len(missing), jobs, promised=promised)


def simulate(unit: TrialBatch, store: Store) -> None:
    """Carry out some trials."""
    simulation = SIMULATIONS[unit.simulation]
    store.once("trials", key(unit), lambda: Item(simulation.trials(unit.first, unit.count)))


def trials_in(trials: Trials, store: Store) -> Mapping[str, np.ndarray]:
    """The values of all trials; refused where some are missing."""
    items = [store.find("trials", key(unit)) for unit in units_of(trials)]
    there = [item.arrays for item in items if item is not None]
    if not there or len(there) < len(items):
        raise NotApplicable(f"the trials of {trials.simulation} are not finished; run the audit to the end")
    return {name: np.concatenate([arrays[name] for arrays in there]) for name in there[0]}


def seconds_per_trial(trials: Trials) -> float:
    """How long one trial takes here, measured now."""
    began = time.perf_counter()
    SIMULATIONS[trials.simulation].trial(0)
    return time.perf_counter() - began
