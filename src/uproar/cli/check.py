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

    found: tuple[list[str], list[str]] = [], []
    for name in what:
        if is_file(name):
            declared = declared_in(name)
            others = [f"the {kind} {one}" for kind, names in declared.items() for one in names]
            if not declared["estimator"] and not declared["metric"]:
                raise BadInput(f"{name} declares {', '.join(others)}, but no estimator and no metric to check.")
            for kind, names in zip(("estimator", "metric"), found, strict=True):
                names += [one for one in declared[kind] if only in (None, one)]
        else:
            known = name in PROTOCOLS or (":" not in name and parse(name).name in metrics)
            found[known].append(name)
    if not any(found):
        raise BadInput(f"--only {only}: no estimator and no metric in {', '.join(what)} is called so.")
    return found


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
    for one in checks:
        holds = ("[green]yes[/]" if one.holds else "[bold red]no[/]") if one.asked else "–"
        shown.add_row(one.clause, holds, escape(one.message))
    output.print(shown)
    failed = sum(not one.holds for one in checks)
    verdict = f"breaks {counted(failed, 'clause')}" if failed else "satisfies the contract"
    output.print(f"{escape(name)} {verdict}.")
    return [
        {"estimator": name, "clause": one.clause, "asked": one.asked, "holds": one.holds, "seen": one.message}
        for one in checks
    ]


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
    for one in found:
        tau = one.recovery
        interval = f"{tau.low:.2f} … {tau.high:.2f}" if math.isfinite(tau.low) else "–"
        trusted = "wrong in sign" if one.turned else "–" if one.single else "yes" if one.trusted else "no"
        rewards = ["what is worse"] if one.turned else one.rewards
        shown.add_row(one.judge, f"{tau.value:.2f}", interval, trusted, ", ".join(one.blind), ", ".join(rewards))
    output.print(shown)
    add_to_json(
        metrics=[
            {
                "metric": one.judge,
                **one.recovery.as_row("recovery", with_n=True),
                "trusted": one.trusted,
                "wrong_in_sign": one.turned,
                "images_needed": one.needed,
                "trainings_needed": one.replicates,
                "blind_to": one.blind,
                "rewards": one.rewards,
                "by_kind": one.by_kind,
            }
            for one in found
        ]
    )
    sentences = [one.sentence for one in found]
    if task is not None and not found[0].single:
        known = [board for one in found if (board := trust(one.judge)) is not None]
        sentences += disagreements(found, known)
    for sentence in sentences:
        output.print(escape(sentence), soft_wrap=True, highlight=False)
    return [one.judge for one in found if one.turned]


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
