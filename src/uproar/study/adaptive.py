"""Adaptive replicates: interim analyses at 5, 8, 13 and 20 of the seeds, as far as there are so many, each only for
what is still undecided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from uproar.metrics.evaluator import EVALUATORS
from uproar.metrics.retraining import RETRAININGS
from uproar.results.study import Results
from uproar.statistics.design import INTERIM_ANALYSES, planned_analyses
from uproar.store import Store
from uproar.study.collect import collect
from uproar.study.grid import Setting, settings_of
from uproar.study.spec import Study


def interim_studies(study: Study, store: str | Path) -> Iterator[tuple[str, Study]]:
    """The studies to run, one interim analysis after the other, each made when the one before has run.

    At every analysis a task, model and metric need only the estimators whose verdict is still open, and the random
    ranking that all are compared with.
    """
    before, deciding = 0, [name for name in study.metrics if name in RETRAININGS or name in EVALUATORS]
    others = tuple(name for name in study.metrics if name not in deciding)  # run beside the first analysis
    for n in planned_analyses(len(study.seeds)):
        results = _results(study, before, store) if before else None
        before = n
        parts = [
            (setting, metric, names)
            for setting in settings_of(study)
            for metric in deciding
            if (names := _undecided(study, setting, metric, results))
        ]
        if not parts:
            return
        for setting, metric, names in parts:
            several = len(study.tasks) * len(study.models) > 1
            where = f"{setting.task_name}, {setting.model_name}, " if several else ""
            yield (
                f"interim analysis at {n} replicates: {where}{metric}",
                study.with_changes(
                    tasks=(setting.task_name,),
                    models=(setting.model_name,),
                    metrics=(metric, *others) if n == INTERIM_ANALYSES[0] else (metric,),
                    estimators=names,
                    random_rankings=len(study.baseline_chains),
                    seeds=study.seeds[:n],
                    audits=(),
                ),
            )


def undecided_estimators(verdicts: pd.DataFrame) -> list[str]:
    """The methods whose verdict is open, with the baselines they are compared with; none where all are decided."""
    rest = verdicts[verdicts["side"] == 0]
    return list(rest["estimator"]) if (rest["verdict"] != "baseline").any() else []


def _undecided(study: Study, setting: Setting, metric: str, results: Results | None) -> list[str]:
    """The estimators of a task, model and metric without a decided verdict; all before the first analysis.

    An evaluator needs beside the methods that are open the rankings that these are compared with.
    """
    names = [chain.name for chain in study.chains]
    if results is None:
        return names
    view = results.view(*setting.names)
    if metric in RETRAININGS:
        return undecided_estimators(view.verdicts[metric]) if metric in view.verdicts else names
    scores = view.evaluators.get(EVALUATORS[metric])
    if scores is None or scores.verdicts.empty:
        return names
    decided = set(scores.verdicts["estimator"]) - set(undecided_estimators(scores.verdicts))
    return [name for name in names if name not in decided] if undecided_estimators(scores.verdicts) else []


def _results(study: Study, n: int, store: str | Path) -> Results:
    """What the first n replicates say: the same however many more the store has."""
    first = study.with_changes(seeds=study.seeds[:n])
    results = collect(first, Store(store), with_pictures=False)
    planned = {**results.study, "seeds": list(study.seeds)}  # which says how many analyses share the error rate
    return replace(results, study=planned)
