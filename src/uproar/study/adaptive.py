"""Adaptive replicates: interim analyses at 3, 5, 8, 13 and 20 of the seeds, as far as there are so many, each only for
what is still undecided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from uproar.models import ModelSpec
from uproar.protocols import Protocol
from uproar.statistics.design import INTERIM_ANALYSES, planned_analyses
from uproar.statistics.sequential import undecided_estimators
from uproar.storage.store import Store
from uproar.study.collect import collect
from uproar.study.settings import Setting
from uproar.study.spec import Study


def interim_studies(study: Study, store: str | Path) -> Iterator[tuple[str, Study]]:
    """The studies to run, one interim analysis after the other, each made when the one before has run.

    At every analysis a task, model and protocol need only the estimators whose verdict is still open, and the random
    ranking that all are compared with.
    """
    before = 0
    for n in planned_analyses(len(study.seeds)):
        verdicts = _verdicts(study, before, store) if before else None
        before = n
        parts = [
            (setting, protocol, names)
            for setting in Setting.all_of(study)
            for protocol in study.protocol_list
            if (names := _undecided(study, setting, protocol, verdicts))
        ]
        if not parts:
            return
        for setting, protocol, names in parts:
            several = len(study.tasks) * len(study.models) > 1
            where = f"{setting.task}, {setting.model}, " if several else ""
            yield (
                f"interim analysis at {n} replicates: {where}{protocol.name}",
                study.with_changes(
                    tasks=(setting.task,),
                    models=(setting.model,),
                    protocols=(protocol.name,),
                    estimators=names,
                    random_rankings=len(study.baseline_chains),
                    seeds=study.seeds[:n],
                    audits=(),
                    metrics=study.metrics if n == INTERIM_ANALYSES[0] else (),
                ),
            )


def _undecided(study: Study, setting: Setting, protocol: Protocol, verdicts: pd.DataFrame | None) -> list[str]:
    """The estimators of a task, model and protocol without a decided verdict; all before the first analysis."""
    names = [chain.name for chain in study.chains]
    if verdicts is None:
        return names
    own = verdicts[
        (verdicts["task"] == setting.task)
        & (verdicts["model"] == ModelSpec.of(setting.model).name)
        & (verdicts["protocol"] == protocol.name)
    ]
    return undecided_estimators(own) if len(own) else names


def _verdicts(study: Study, n: int, store: str | Path) -> pd.DataFrame:
    """What the first n replicates say: the same however many more the store has."""
    part = study.with_changes(seeds=study.seeds[:n])
    results = collect(part, Store(store), with_pictures=False)
    planned = {**results.study, "seeds": list(study.seeds)}  # which says how many analyses share the error rate
    return replace(results, study=planned).verdicts
