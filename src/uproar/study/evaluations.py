"""What evaluators say of methods on a task, for who only wants to know which method to use."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from uproar.errors import UproarError
from uproar.metrics.evaluator import EVALUATORS
from uproar.results.evaluator import EvaluatorBits, EvaluatorScores
from uproar.statistics.design import LEAST_REPLICATES
from uproar.store import Store
from uproar.study.cost_estimate import estimate
from uproar.study.executors import workers
from uproar.study.progress import Listener
from uproar.study.sessions import run_to_end
from uproar.study.spec import study_of
from uproar.wording import duration


def evaluations_of(
    task: str,
    model: str,
    weights: str | None,
    methods: Sequence[str],
    plugins: Sequence[str],
    seed: int,
    store: str,
    budget: float | None,
    listen: Listener = lambda _: None,
) -> tuple[Mapping[str, EvaluatorBits], str]:
    """What evaluators say by target, and what they could not be asked and why.

    The study is one like any other in the store: the same call again finds what is finished.
    """
    settings: dict[str, Any] = {"tasks": task, "models": model, "weights": weights, "estimators": list(methods)}
    settings |= {
        "plugins": tuple(plugins),
        "metrics": tuple(EVALUATORS),
        "seeds": tuple(range(seed, seed + LEAST_REPLICATES)),
    }
    try:
        study = study_of(settings)
        end = budget
        if budget is not None:
            begun = time.perf_counter()
            cost = estimate(study, Store(store), workers(None, study.device))
            seconds, longest = cost.seconds, max((each for _, each in cost.jobs.values()), default=0.0)
            if seconds > budget:
                return {}, _too_long(seconds, budget)
            end = max(budget - longest - (time.perf_counter() - begun), 1.0)  # what begins then ends in time
        results = run_to_end(study, store, None, listen, None, end).results
    except UproarError as error:
        return {}, f"No evaluator was asked: {error}"
    evaluations = {target: bits for (_, _, target), bits in results.evaluations.items()}
    finished = _finished(evaluations)
    if _cut_short(results.cells):
        said = _over(finished, budget)
        return (evaluations if finished >= LEAST_REPLICATES else {}), said
    reasons = results.problems
    why = next((reason.rstrip(".") for reason in reasons["reason"] if isinstance(reason, str) and reason), "")
    if not evaluations:
        return {}, f"No evaluator has a score: {why or 'there is nothing that it could score'}."
    unjudged = list(dict.fromkeys(reasons["estimator"].map(str)))
    return evaluations, f"The evaluator has no score of {', '.join(unjudged)}: {why}." if unjudged and why else ""


def _too_long(seconds: float, budget: float) -> str:
    """Why no evaluator begins, and which budget would do: evaluators have half of it."""
    return (
        f"No evaluator was asked: {LEAST_REPLICATES}, the least that can be tested, take about {duration(seconds)} "
        f"here, and {duration(budget)} were left. `--budget {math.ceil(2.2 * seconds / 60)}m` should do."
    )


def _cut_short(table: pd.DataFrame) -> bool:
    """Whether work is left that nobody has tried: the time was over."""
    return bool((table["status"] == "missing").any())


def _finished(evaluations: Mapping[str, EvaluatorBits]) -> int:
    """How many evaluators have scored all that they should, for the target that has fewest."""
    tables = [EvaluatorScores(bits).table for bits in evaluations.values()]
    return min((int(table["replicates"].max()) for table in tables if len(table)), default=0)


def _over(finished: int, budget: float | None) -> str:
    """What to do where the time was over: the one account of it."""
    enough = finished >= LEAST_REPLICATES
    least = "" if enough else f", and {LEAST_REPLICATES} are the least that can be tested: no evaluator has a score"
    longer = "" if budget is None else f" (`--budget {_minutes(budget, finished)}m` should do)"
    counted_ones = f"{finished} of {LEAST_REPLICATES} evaluators"
    return f"The time was over after {counted_ones}{least}. The same command with more time goes on{longer}."


def _minutes(budget: float, finished: int) -> int:
    """Minutes of a budget that is enough for all evaluators, which have half of it, at the pace so far.

    >>> _minutes(60, 1), _minutes(60, 0)
    (10, 20)
    """
    evaluators = LEAST_REPLICATES if finished else 2 * LEAST_REPLICATES
    return math.ceil(2 * budget * evaluators / max(finished, 1) / 60)
