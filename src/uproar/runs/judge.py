"""Judge judges: do metrics and protocols put maps in the order that is known to be right?"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from uproar.errors import BadInput
from uproar.expression import parse
from uproar.metrics.registry import metric, metrics, read_metric
from uproar.protocols import PROTOCOLS
from uproar.results.recovery import COLUMNS, MATTER, JudgeRecovery, judge_recovery
from uproar.statistics.recovery import Recovery
from uproar.storage.backends import write_file
from uproar.study.judge_suite import (
    KNOWN,
    ORDERS,
    QUICK,
    SUITE,
    SuiteTask,
    judging_metrics,
    judging_protocols,
    local_suite,
    network_accuracy,
    order_worsens,
    parts_of,
    reads_order,
    recoveries,
    replicated_parts,
    trainings_needed,
)
from uproar.study.progress import Listener
from uproar.study.run import run_study

STORE = "runs/judge/store"


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
    table = recovery_table([name], suite, store=store, orders=KNOWN, jobs=1)
    return judge_recovery(table, name, kinds)


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


def recovery_table(
    judges: Sequence[str],
    suite: Sequence[SuiteTask] = SUITE,
    *,
    store: str | Path = STORE,
    orders: Iterable[str] = ORDERS,
    jobs: int | None = None,
    listen: Listener = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    spent: Callable[[str, float], None] = lambda *_: None,
) -> pd.DataFrame:
    """One row per judge, task and kind; what the store has is read, the rest is run.

    A task that the network has not learned is left out, and said. `spent` is told the processor seconds of each task.
    """
    check_judges(judges)
    orders = tuple(orders)
    rows: list[dict[str, Any]] = []
    for one in suite:
        began = _processor_seconds()
        rows += _of_task(one, judges, orders, store, jobs, listen, say)
        spent(one.task, _processor_seconds() - began)
    return pd.DataFrame(rows, columns=[*COLUMNS])


def _processor_seconds() -> float:
    """Of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


def _of_task(
    one: SuiteTask,
    judges: Sequence[str],
    orders: Sequence[str],
    store: str | Path,
    jobs: int | None,
    listen: Listener,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """The rows of one task of the suite."""
    rows: list[dict[str, Any]] = []
    for part in parts_of(one, judges, orders):
        run_study(part.study, store, jobs, listen)
        accuracy, enough = network_accuracy(part, str(store))
        if not enough:
            say(f"{one.task} is left out: {one.model} is right on only {accuracy:.0%} of its images.")
            return []
        worse = {kind: order_worsens(part, str(store), kind) for kind in part.orders}
        for name in part.judges:
            for kind, recovery in recoveries(part, str(store), name).items():
                rows.append(_row(name, one.task, kind, recovery, worse[kind] or not reads_order(name)))
    trainings = _trainings(one, judges, orders, store, jobs, listen)
    return [{**row, "replicates": trainings.get((row["judge"], row["kind"]), math.nan)} for row in rows]


def _trainings(
    one: SuiteTask, judges: Sequence[str], orders: Sequence[str], store: str | Path, jobs: int | None, listen: Listener
) -> dict[tuple[str, str], float]:
    """By judge and kind, the replicates needed by judges that train, where the task is asked for them."""
    needed = {}
    for part in replicated_parts(one, judges, orders):
        run_study(part.study, store, jobs, listen)
        for name in part.judges:
            for kind, replicates in trainings_needed(part, str(store), name).items():
                needed[name, kind] = replicates
    return needed


def _row(judge: str, task: str, kind: str, found: Recovery, counts: bool) -> dict[str, Any]:
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
        "counts": counts,
    }


def check_judges(judges: Sequence[str]) -> None:
    """Refuse names that are no metric and no protocol, and what cannot be asked of given maps."""
    for name in judges:
        if name in PROTOCOLS:
            if name not in judging_protocols():
                raise BadInput(f"The protocol {name} is a control and judges nothing: see uproar ls protocols.")
            continue
        read_metric(name)
        if parse(name).name not in judging_metrics():
            raise BadInput(f"{name} asks how an estimator behaves, not whether a map is right: it cannot be judged.")


class Durations:
    """Processor seconds by task of the suite, of all sessions that a folder has seen: what was resumed is not lost."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.by_task: dict[str, float] = json.loads(file.read_text()) if file.is_file() else {}

    def add(self, task: str, seconds: float) -> None:
        """Keep what a task took."""
        self.by_task[task] = self.by_task.get(task, 0.0) + seconds
        write_file(self.file, json.dumps(self.by_task, indent=1).encode())
