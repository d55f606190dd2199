"""Judge judges: do metrics and protocols put maps in the order that is known to be right?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from uproar.errors import BadInput
from uproar.expression import parse
from uproar.metrics.registry import metric, metrics, read_metric
from uproar.protocols import PROTOCOLS
from uproar.results.recovery import COLUMNS, MATTER, JudgeRecovery, judge_recovery
from uproar.study.judging import (
    DEGRADED,
    ORDERS,
    QUICK,
    SUITE,
    SuiteTask,
    accuracy_of,
    judging_metrics,
    judging_protocols,
    local_suite,
    recoveries,
    suite_study,
)
from uproar.study.progress import Listener
from uproar.study.run import run_study

STORE = "runs/judge/store"
LEARNED = 0.5
"""Accuracy below which a network cannot be said to follow the evidence: such a task tells nothing of judges."""


def judge(
    judge: str | Callable[..., Any],
    *,
    higher_is_better: bool = True,
    store: str | Path = STORE,
    task: str | None = None,
    model: str = "cnn-small",
    kinds: Iterable[str] = MATTER,
) -> JudgeRecovery:
    """How well a metric recovers orders of maps that are known: in about a minute, on three tasks of the suite.

    `judge` is a metric or protocol by name, or a function `(batch) -> {"value": tensor}` of your own, one value per
    image; `higher_is_better` is its direction. With `task` and `model`, backdoors are planted in that task instead.
    The result has `.recovery` (an interval), `.by_kind`, `.trusted`, `.turned`, `.sentence`.
    """
    name = judge if isinstance(judge, str) else _declared(judge, higher_is_better)
    suite = QUICK if task is None else local_suite(task, model)
    table = recovery_table([name], suite, store=store, orders=DEGRADED, jobs=1)
    return judge_recovery(table, name, kinds)


def _declared(function: Callable[..., Any], higher_is_better: bool) -> str:
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise BadInput("A metric given as a function needs a name: use def, not lambda.")
    if name not in metrics or metrics[name].function is not function:
        metric(higher_is_better=higher_is_better, low=float("-inf"), high=float("inf"), chance="unknown")(function)
    return name


def recovery_table(
    judges: Sequence[str],
    suite: Sequence[SuiteTask] = SUITE,
    *,
    store: str | Path = STORE,
    orders: Iterable[str] = ORDERS,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """One row per judge, task and kind; what the store has is read, the rest is run. A task that the network has not
    learned is left out, and said."""
    asked_metrics, protocols = split_judges(judges)
    orders = tuple(orders)
    rows: list[dict[str, Any]] = []
    for one in suite:
        study = suite_study(one, asked_metrics, protocols, orders)
        run_study(study, store, jobs, listen)
        accuracy = accuracy_of(study, str(store))
        if accuracy < LEARNED:
            say(f"{one.task} is left out: {one.model} is right on only {accuracy:.0%} of its images.")
            continue
        for name in judges:
            for kind, found in recoveries(study, str(store), name, orders).items():
                rows.append(_row(name, one.task, kind, found))
    return pd.DataFrame(rows, columns=[*COLUMNS])


def _row(judge: str, task: str, kind: str, found: Any) -> dict[str, Any]:
    tau = found.tau
    return {
        "judge": judge,
        "task": task,
        "kind": kind,
        "tau": tau.value,
        "low": tau.low,
        "high": tau.high,
        "right": found.right,
        "wrong": found.wrong,
        "needed": found.needed,
        "spread": found.spread,
        "images": tau.n,
    }


def split_judges(judges: Sequence[str]) -> tuple[list[str], list[str]]:
    """The metrics and the protocols among some names; others are refused, and what cannot be asked of given maps."""
    protocols = [name for name in judges if name in PROTOCOLS]
    names = [name for name in judges if name not in PROTOCOLS]
    for name in names:
        read_metric(name)
        if parse(name).name not in judging_metrics():
            raise BadInput(f"{name} asks how an estimator behaves, not whether a map is right: it cannot be judged.")
    for name in protocols:
        if name not in judging_protocols():
            raise BadInput(f"The protocol {name} is a control and judges nothing: see uproar ls protocols.")
    return names, protocols
