"""Checks of what people add: does an estimator keep its contract, does a metric recover known orders?"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from uproar.api import chain_of
from uproar.errors import BadInput
from uproar.estimators.contract import Check, try_contract
from uproar.expression import parse
from uproar.metrics.registry import metric, metrics, read_metric
from uproar.paths import write_file
from uproar.protocols import PROTOCOLS
from uproar.results.recovery import COLUMNS, MATTER, JudgeRecovery, judge_recovery
from uproar.statistics.recovery import Recovery
from uproar.study.graph import Failed
from uproar.study.grid import cells_of, settings_of
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
    with_suite_options,
)
from uproar.study.progress import Listener, Progress
from uproar.study.run import run_study
from uproar.study.spec import EVALUATORS, Study

STORE = "runs/check/store"


def check(
    what: str | Callable[..., Any],
    *,
    higher_is_better: bool = True,
    store: str | Path = STORE,
    task: str | None = None,
    model: str = "cnn-small",
    kinds: Iterable[str] = MATTER,
) -> JudgeRecovery | list[Check]:
    """Whether an estimator keeps its contract, or how well a metric recovers orders of maps that are known.

    `what` is a name or a function. Of an estimator, such as a function `(model, x, target)`, the clauses of the
    contract come back, each with `.clause`, `.holds` and `.message`. A metric, such as a function `(batch) ->
    {"value": tensor}` with one value per image, is tested in about a minute on three built-in tasks, or on backdoors
    planted in `task`: the result has `.recovery` (an interval), `.by_kind`, `.trusted`, `.turned`, `.sentence`.

    >>> def brightness_map(model, x, target):
    ...     return x.sum(1)
    >>> [check.clause for check in check(brightness_map) if not check.holds]
    ['responds to the model', 'responds to the class explained']
    """
    if _is_estimator(what):
        return try_contract(what if isinstance(what, str) else chain_of(what, "none", "sum").name, model)[0]
    name = what if isinstance(what, str) else _declared(what, higher_is_better)
    suite = QUICK if task is None else local_suite(task, model)
    table = recovery_table([name], suite, store=store, orders=KNOWN, jobs=1)
    return judge_recovery(table, name, kinds)


def _is_estimator(what: str | Callable[..., Any]) -> bool:
    """Whether a name or a function is that of an estimator rather than of a metric."""
    if isinstance(what, str):
        return what not in PROTOCOLS and what not in EVALUATORS and (":" in what or parse(what).name not in metrics)
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

    A task that the network has not learned, and a judge that fails or has no value for any map, are left out, and said.
    `spent` is told the processor seconds of each task.
    """
    check_judges(judges)
    orders, problems = tuple(orders), Problems()
    rows: list[dict[str, Any]] = []
    for one in suite:
        began = _processor_seconds()
        rows += _of_task(one, judges, orders, store, jobs, listen, problems)
        spent(one.task, _processor_seconds() - began)
    return problems.said(pd.DataFrame(rows, columns=[*COLUMNS]), judges, say)


class Problems:
    """What kept judges from judging."""

    def __init__(self) -> None:
        self.unlearned: list[str] = []
        """A sentence on each task that was not learned."""
        self.failed: dict[str, str] = {}
        """By judge, why it first failed about a map."""
        self.skipped: dict[str, str] = {}
        """By judge, why it first was not applicable."""

    def add(self, study: Study, progress: Progress, judges: Sequence[str]) -> None:
        """Keep how the questions to some judges ended that have no answer."""
        asked = {str(read_metric(with_suite_options(name))): name for name in judges if name not in PROTOCOLS}
        for setting in settings_of(study):
            for cell in cells_of(study, setting):
                outcome = None if cell.result is None else progress.outcomes.get(cell.result.key)
                name = asked.get(cell.metric, cell.metric)
                if name in judges and outcome is not None:
                    kept = self.failed if isinstance(outcome, Failed) else self.skipped
                    kept.setdefault(name, outcome.reason.rstrip("."))

    def said(self, table: pd.DataFrame, judges: Sequence[str], say: Callable[[str], None]) -> pd.DataFrame:
        """The table without judges that have no value at all, their reasons told; an error where none is left."""
        sentences = [*self.unlearned]
        for name in judges:
            own = table[table["judge"] == name]
            if own.empty:
                reason = self.failed.get(name) or self.skipped.get(name) or "none of these tasks can ask it"
                sentences.append(f"{name} was not judged: {reason}.")
            elif own["spread"].isna().all():
                sentences.append(f"{name} was not judged: it has no value for any map (all are NaN).")
                table = table[table["judge"] != name]
            elif name in self.failed:
                sentences.append(f"{name} was not judged about every map: {self.failed[name]}.")
        if table.empty:
            raise BadInput(" ".join(sentences))
        for sentence in sentences:
            say(sentence)
        return table


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
    problems: Problems,
) -> list[dict[str, Any]]:
    """The rows of one task of the suite."""
    rows: list[dict[str, Any]] = []
    for part in parts_of(one, judges, orders):
        problems.add(part.study, run_study(part.study, store, jobs, listen), part.judges)
        accuracy, enough = network_accuracy(part, str(store))
        if not enough:
            left_out = f"{one.task} is left out: {one.model} is right on only {accuracy:.0%} of its images."
            problems.unlearned.append(left_out)
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
        if name in PROTOCOLS or name in EVALUATORS:
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
