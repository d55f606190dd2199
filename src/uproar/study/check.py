"""Checks of what people add: does an estimator keep its contract, does a metric order maps as their truth does?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uproar.api import chain_of
from uproar.data import load
from uproar.errors import BadInput
from uproar.estimators.contract import Check, try_contract
from uproar.expression import parse
from uproar.metrics.registry import metric, metrics
from uproar.results.board import Card
from uproar.study.board import OPTIMISED, Network, board, networks

STORE = "runs/check/store"
QUICK = ("board_mark(used=mark)", "board_colour(used=red)", "hand-set(rule=and, train=512, test=48)")
"""The development networks for a metric of one's own: about a minute."""
TRIGGERS = ("trigger=glyph", "trigger=frame", "trigger=glyph, strength=0.5")
LOCAL = "train=4096, test=48"


def check(
    what: str | Callable[..., Any],
    *,
    higher_is_better: bool = True,
    store: str | Path = STORE,
    task: str | None = None,
    model: str = "cnn-small",
) -> Card | list[Check]:
    """Whether an estimator keeps its contract, or how a metric orders maps on networks whose use of the input is known.

    `what` is a name or a function. Of an estimator, such as a function `(model, x, target)`, the clauses of the
    contract come back, each with `.clause`, `.holds` and `.message`. A metric, such as a function `(batch) ->
    {"value": tensor}` with one value per image, is tested in about a minute on three networks of the board, or on
    backdoors planted in `task`: the result has `.tau("order")`, `.tau("top")`, `.tau("degraded")`, `.rows` and
    `.against`, what speaks against it.

    >>> def brightness_map(model, x, target):
    ...     return x.sum(1)
    >>> [check.clause for check in check(brightness_map) if not check.holds]
    ['responds to the model', 'responds to the class explained']
    """
    if is_estimator(what):
        return try_contract(what if isinstance(what, str) else chain_of(what, "none", "sum").name, model)[0]
    name = what if isinstance(what, str) else _declared(what, higher_is_better)
    rows = board([name], quick_networks(task, model), store, seeds=1, optimised=OPTIMISED[:2])
    return Card(name, rows)


def quick_networks(task: str | None = None, model: str = "cnn-small") -> list[Network]:
    """Three networks of the board; or backdoors planted in a task of the user's own, as many as fit into its images."""
    if task is None:
        return [network for network in networks("development") if network.task in QUICK]
    planted, refused = [], []
    for trigger in TRIGGERS:
        name = f"backdoor({task}, {trigger}, {LOCAL})"
        try:
            load(name)
        except BadInput as error:
            refused.append(error)
        else:
            planted.append(Network("check", name, model))
    if not planted:
        raise refused[0]
    return planted


def is_estimator(what: str | Callable[..., Any]) -> bool:
    """Whether a name or a function is that of an estimator rather than of a metric."""
    if isinstance(what, str):
        return parse(what).name not in metrics
    required = [p for p in inspect.signature(what).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return len(required) > 2


def _declared(function: Callable[..., Any], higher_is_better: bool) -> str:
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise BadInput("A metric given as a function needs a name: use def, not lambda.")
    if name not in metrics or metrics[name].function is not function:
        declare = metric(
            higher_is_better=higher_is_better, low=float("-inf"), high=float("inf"), chance="unknown", uses="values"
        )
        declare(function)
    return name
