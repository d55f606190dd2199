"""What evaluators say of methods on a task, for who only wants to know which method to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from uproar.errors import UproarError
from uproar.results.evaluator import EvaluatorBits
from uproar.runs.execute import run_to_end
from uproar.study.progress import Listener
from uproar.study.spec import study_of

FRACTIONS = (0.1, 0.3, 0.5)
REPLICATES = 3
PROTOCOLS = ("evaluator", "evaluator:model")


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
        "protocols": PROTOCOLS,
        "fractions": FRACTIONS,
        "seeds": tuple(range(seed, seed + REPLICATES)),
    }
    try:
        results = run_to_end(study_of(settings), store, None, listen, None, budget).results
    except UproarError as error:
        return {}, f"No evaluator was asked: {error}"
    evaluations = {target: bits for (_, _, target), bits in results.evaluations.items()}
    reasons = results.problems
    why = next((reason.rstrip(".") for reason in reasons["reason"] if isinstance(reason, str) and reason), "")
    if not evaluations:
        return {}, f"No evaluator was asked: {why or 'the time was too short'}."
    unjudged = list(dict.fromkeys(reasons["estimator"].map(str)))
    return evaluations, f"The evaluator has not judged {', '.join(unjudged)}: {why}." if unjudged and why else ""
