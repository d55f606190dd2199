"""`uproar check`: does my estimator keep the contract, does my metric recover known orders? `uproar new`: a commented
file to begin from."""

from __future__ import annotations

import math
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from rich.markup import escape

from uproar.cli.options import (
    Model,
    Plugins,
    advanced,
    argument,
    check_folder,
    complete_names,
    flag,
    load_plugins,
    option,
)
from uproar.cli.progress import watched
from uproar.cli.screen import add_to_json, command, note, output, print_file, print_next, table
from uproar.errors import BadInput, StoreError
from uproar.paths import write_file
from uproar.statistics.design import BASELINE
from uproar.wording import counted


def check(
    what: Annotated[
        list[str],
        argument(
            "FILE|NAME…",
            "my_method.py, my_metric.py, 'sg(grad)', deletion",
            autocompletion=complete_names("estimators", "metrics", "protocols"),
        ),
    ],
    only: Annotated[str | None, option("NAME", "Only this one of a file", default="all")] = None,
    model: Model = "cnn-small",
    task: Annotated[str | None, option("TASK", "Test metrics on backdoors planted in this")] = None,
    plugin: Plugins = None,
    full: Annotated[bool, flag("--full", "Test metrics on all built-in tasks, not three", advanced=True)] = False,
    jobs: Annotated[int, advanced("N", "Processes", default="1")] = 1,
    out: Annotated[Path, advanced("FOLDER", "Results of metrics are kept here", default="runs/check")] = Path(
        "runs/check"
    ),
) -> int:
    """Check an estimator's contract, or a metric on maps of known order.

    Exit code 1 if a clause of the contract is broken, or a metric ranks worse maps higher.
    """
    check_folder(out)
    load_plugins(plugin)
    estimators, metrics = named(what, only)
    clauses = {name: check_estimator(name, model) for name in estimators}
    broken = [name for name, rows in clauses.items() if not all(row["holds"] for row in rows)]
    if estimators:
        add_to_json(clauses=[row for rows in clauses.values() for row in rows])
    wrong = check_metrics(metrics, task, model, full, jobs, out) if metrics else []
    if broken or wrong:
        print_next("correct it, then the same command again (docs/add-an-estimator.md, docs/add-a-metric.md)")
        return 1
    files = [*(plugin or ()), *filter(is_file, what)]
    given = [word for file in files for word in ("--plugin", file)]
    compared = ",".join(dict.fromkeys([BASELINE, *estimators]))
    run = f"{command('run', *given, '--estimators', compared)} compares it with a random ranking" if estimators else ""
    scored = f"{command('score', *given, '--metrics', ','.join(metrics))} scores maps by it" if metrics else ""
    print_next(run, scored)
    return 0


def named(what: list[str], only: str | None) -> tuple[list[str], list[str]]:
    """The estimators and the metrics among what is named, those of files included."""
    from uproar.expression import parse
    from uproar.extend import declared_in
    from uproar.metrics.registry import metrics
    from uproar.protocols import PROTOCOLS

    estimators: list[str] = []
    measures: list[str] = []
    for name in what:
        if is_file(name):
            declared = declared_in(name)
            if not declared["estimator"] and not declared["metric"]:
                others = [f"the {kind} {other}" for kind, names in declared.items() for other in names]
                raise BadInput(f"{name} declares {', '.join(others)}, but no estimator and no metric to check.")
            estimators += [each for each in declared["estimator"] if only in (None, each)]
            measures += [each for each in declared["metric"] if only in (None, each)]
        elif name in PROTOCOLS or (":" not in name and parse(name).name in metrics):
            measures.append(name)
        else:
            estimators.append(name)
    if not estimators and not measures:
        raise BadInput(f"--only {only}: no estimator and no metric in {', '.join(what)} is called so.")
    return estimators, measures


def is_file(what: str) -> bool:
    """Whether a file is meant, rather than an expression such as `sg(grad)` or `maps:FILE`."""
    text = what.partition("(")[0]
    named = Path(text).suffix in (".py", ".txt") or os.sep in text or Path(text).exists()
    return named and ":" not in text


def check_estimator(name: str, model: str) -> list[dict[str, object]]:
    """The clauses of the contract, and whether an estimator keeps each."""
    from uproar.estimators.contract import try_contract

    with watched(f"checking {name} on {model}") as watch:
        checks, seconds = try_contract(name, model, watch.counting("clauses", name))
    shown = table(f"{name} on {model}, {seconds * 1e3:.1f} ms per image", "clause", "holds", "seen")
    rows: list[dict[str, object]] = []
    for clause in checks:
        holds = "[green]yes[/]" if clause.holds else "[bold red]no[/]"
        shown.add_row(clause.clause, holds if clause.asked else "–", escape(clause.message))
        facts = {"asked": clause.asked, "holds": clause.holds, "seen": clause.message}
        rows.append({"estimator": name, "clause": clause.clause, **facts})
    output.print(shown)
    failed = sum(not clause.holds for clause in checks)
    verdict = f"breaks {counted(failed, 'clause')}" if failed else "satisfies the contract"
    output.print(f"{escape(name)} {verdict}.")
    return rows


def check_metrics(names: list[str], task: str | None, model: str, full: bool, jobs: int, out: Path) -> list[str]:
    """Say how well metrics recover known orders; those that rank worse maps higher."""
    from uproar.results.recovery import disagreements, judge_recoveries, trust
    from uproar.study.check import recovery_table
    from uproar.study.judge_suite import KNOWN, ORDERS, QUICK, SUITE, local_suite

    suite = local_suite(task, model) if task is not None else SUITE if full else QUICK
    orders = ORDERS if full else KNOWN
    recoveries = recovery_table(names, suite, store=out / "store", orders=orders, jobs=jobs, say=note)
    found = judge_recoveries(recoveries)
    tasks = counted(recoveries["task"].nunique(), "task")
    columns = ("metric", ">recovery", ">95 % CI", "trusted", "blind to", "rewards")
    shown = table(f"recovery of known orders on {tasks}", *columns)
    rows = []
    for metric in found:
        tau = metric.recovery
        interval = f"{tau.low:.2f} … {tau.high:.2f}" if math.isfinite(tau.low) else "–"
        trusted = "–" if metric.single else "yes" if metric.trusted else "no"
        rewards = ["what is worse"] if metric.turned else metric.rewards
        cells = ("wrong in sign" if metric.turned else trusted, ", ".join(metric.blind), ", ".join(rewards))
        shown.add_row(metric.judge, f"{tau.value:.2f}", interval, *cells)
        row = {"metric": metric.judge, **tau.as_row("recovery", with_n=True), "trusted": metric.trusted}
        row |= {"wrong_in_sign": metric.turned, "images_needed": metric.needed, "trainings_needed": metric.replicates}
        rows.append({**row, "blind_to": metric.blind, "rewards": metric.rewards, "by_kind": metric.by_kind})
    output.print(shown)
    add_to_json(metrics=rows)
    sentences = [metric.sentence for metric in found]
    if task is not None and not found[0].single:
        known = [board for metric in found if (board := trust(metric.judge)) is not None]
        sentences += disagreements(found, known)
    for sentence in sentences:
        output.print(escape(sentence), soft_wrap=True, highlight=False)
    return [metric.judge for metric in found if metric.turned]


STARTERS = Path(__file__).with_name("starters")
"""The files; Python ones end in .txt, so that nothing imports them where they are."""


class Kind(StrEnum):
    """What can be begun."""

    study = "study"
    estimator = "estimator"
    metric = "metric"


DEFAULTS = {Kind.study: "study.toml", Kind.estimator: "my_method.py", Kind.metric: "my_metric.py"}


def new(
    kind: Annotated[Kind, argument("KIND", f"What to begin: {', '.join(Kind)}")],
    file: Annotated[Path | None, argument("FILE", f"Where to write it, e.g. {', '.join(DEFAULTS.values())}")] = None,
) -> int:
    """Write a commented study, estimator or metric to begin from."""
    target = Path(DEFAULTS[kind]) if file is None else file
    (starter,) = STARTERS.glob(f"{kind}.*")
    suffix = Path(DEFAULTS[kind]).suffix
    if target.suffix != suffix:
        raise BadInput(f"The file of a new {kind} ends in {suffix}, not {target.name!r}.")
    if target.exists():
        raise BadInput(f"{target} is there already: give another name, or remove it first.")
    if not target.parent.is_dir():
        raise BadInput(f"The folder {target.parent} is not there: make it first.")
    try:
        write_file(target, starter.read_text(encoding="utf-8").replace("FILE", str(target)).encode())
    except OSError as error:
        raise StoreError(f"Cannot write {target}: {error.strerror or error}.") from None
    add_to_json(kind=str(kind), file=target)
    print_file(f"New {kind}", target)
    steps = {
        Kind.study: f"{command('run', target, '--dry-run')} says what would run",
        Kind.estimator: f"{command('check', target)} checks it",
        Kind.metric: f"{command('score', '--plugin', target, '--metrics', 'my_metric')} scores methods by it",
    }
    print_next(steps[kind])
    return 0
