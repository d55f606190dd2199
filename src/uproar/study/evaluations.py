"""What evaluators say of methods, for who only wants to know which method to use.

The evaluators are those of a study, which has a task and a network by name. `as_study` lends names to images and a
network that only this process has.
"""

from __future__ import annotations

import copy
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from uproar.data import Split, Task, tasks
from uproar.errors import BadInput, UproarError
from uproar.metrics.evaluator import EVALUATORS
from uproar.models import models
from uproar.results.evaluator import EvaluatorScores
from uproar.results.scores import Scores
from uproar.statistics.design import LEAST_REPLICATES
from uproar.store import Store
from uproar.study.cost_estimate import estimate
from uproar.study.executors import workers
from uproar.study.graph import FORGET
from uproar.study.progress import Listener
from uproar.study.sessions import run_to_end
from uproar.study.spec import study_of
from uproar.study.subjects import Subject
from uproar.training import predict
from uproar.wording import duration


@contextmanager
def as_study(subject: Subject) -> Iterator[dict[str, Any]]:
    """Settings of a study about a network and images of a user; they hold in this process, as long as it lasts.

    Evaluators are trained on the subject's training images, and score maps of its images. Without labels, that is where
    all are the same, they learn the network's answers alone.
    """
    train, name = subject.context.train, f"given-{subject.identity()[:12]}"
    if train is None or subject.output.kind != "softmax":
        raise BadInput("it needs training images and a network that answers with one class of several")
    outputs = predict(subject.model, subject.x[:1]).shape[1]
    test = Split("test", subject.x.cpu(), subject.target.cpu())
    task = Task("the images given", train, test, tuple(map(str, range(outputs))), sparse=True)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.safetensors"
        save_file({key: value.detach().cpu().clone() for key, value in subject.model.state_dict().items()}, weights)
        tasks.add(name, lambda: task)
        models.add(name, lambda: copy.deepcopy(subject.model))
        try:
            metrics = (*EVALUATORS,) if len(train.labels.unique()) > 1 else ("evaluator:model",)
            yield {"tasks": name, "models": name, "weights": str(weights), "metrics": metrics}
        finally:
            tasks.remove(name)
            models.remove(name)
            for forget in FORGET:
                forget()


def with_evaluators(
    scores: Scores,
    settings: Mapping[str, Any],
    methods: Sequence[str],
    seed: int,
    store: str,
    budget: float | None,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
) -> Scores:
    """The scores with those of five evaluators for the same methods, or with the reason why there are none.

    The study is one like any other in the store: the same call again finds what is finished.
    """
    seeds = tuple(range(seed, seed + LEAST_REPLICATES))
    settings = {"metrics": (*EVALUATORS,), **settings, "estimators": list(methods), "seeds": seeds}
    try:
        study, end = study_of(settings), budget
        if budget is not None:
            begun = time.perf_counter()
            cost = estimate(study, Store(store), workers(jobs, study.device))
            longest = max((seconds for _, seconds in cost.jobs.values()), default=0.0)
            if cost.seconds > budget:
                return _noting(
                    scores,
                    f"No evaluator was trained: {LEAST_REPLICATES}, the least that can be tested, take about "
                    f"{duration(cost.seconds)} here, and {duration(max(budget, 0))} were left. A budget of "
                    f"{_minutes(cost.seconds)}m should do.",
                )
            end = max(budget - longest - (time.perf_counter() - begun), 1.0)  # what begins then ends in time
        results = run_to_end(study, store, jobs, listen, None, end).results
    except UproarError as error:
        return _noting(scores, f"No evaluator was trained: {error}")
    evaluations = {target: bits for (_, _, target), bits in results.evaluations.items()}
    if (results.cells["status"] == "missing").any():  # the time was over
        tables = [EvaluatorScores(bits).table for bits in evaluations.values()]
        finished = min((int(table["replicates"].max()) for table in tables if len(table)), default=0)
        longer = "" if budget is None else f" A budget of {_minutes(budget * LEAST_REPLICATES / max(finished, 0.5))}m"
        few = finished < LEAST_REPLICATES
        least = f", and {LEAST_REPLICATES} are the least that can be tested" if few else ""
        said = f"The time was over after {finished} of {LEAST_REPLICATES} evaluators{least}."
        said += f"{longer} should do; the same call goes on." if longer else " The same call goes on."
        return _noting(scores if few else replace(scores, evaluations=evaluations), said)
    problems = results.problems
    why = next((reason.rstrip(".") for reason in problems["reason"] if isinstance(reason, str) and reason), "")
    if not evaluations:
        return _noting(scores, f"No evaluator has a score: {why or 'there is nothing that it could score'}.")
    unscored = ", ".join(dict.fromkeys(problems["estimator"].map(str)))
    said = f"The evaluator has no score of {unscored}: {why}." if unscored and why else ""
    return _noting(replace(scores, evaluations=evaluations), said)


def _noting(scores: Scores, notice: str) -> Scores:
    return replace(scores, notices=(*scores.notices, notice)) if notice else scores


def _minutes(seconds: float) -> int:
    """Minutes of a budget of which evaluators have half."""
    return math.ceil(2.2 * seconds / 60)
