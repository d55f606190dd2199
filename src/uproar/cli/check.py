"""`uproar check`: does my estimator keep the contract, does my metric order methods rightly? `uproar new`: a commented
file to begin from."""

from __future__ import annotations

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
    full: Annotated[bool, flag("--full", "Test metrics on the whole board, five seeds", advanced=True)] = False,
    jobs: Annotated[int, advanced("N", "Processes", default="1")] = 1,
    out: Annotated[Path, advanced("FOLDER", "Results of metrics are kept here", default="runs/check")] = Path(
        "runs/check"
    ),
) -> int:
    """Check an estimator's contract, or a metric on networks whose use of the input is known.

    Exit code 1 if a clause of the contract is broken, or a metric ranks worse maps higher.
    """
    check_folder(out)
    load_plugins(plugin)
    estimators, metrics = named(what, only)
    clauses = {name: check_estimator(name, model) for name in estimators}
    broken = [name for name, rows in clauses.items() if not all(row["holds"] for row in rows)]
    if estimators:
        add_to_json(clauses=[row for rows in clauses.values() for row in rows])
    files = [*(plugin or ()), *filter(is_file, what)]
    wrong = check_metrics(metrics, files, task, model, full, jobs, out) if metrics else []
    if broken or wrong:
        print_next("correct it, then the same command again (docs/add-an-estimator.md, docs/add-a-metric.md)")
        return 1
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
    from uproar.study.spec import EVALUATORS

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
        elif name in {*PROTOCOLS, *EVALUATORS} or (":" not in name and parse(name).name in metrics):
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


def check_metrics(
    names: list[str], files: list[str], task: str | None, model: str, full: bool, jobs: int, out: Path
) -> list[str]:
    """Say how well metrics order methods whose right order is known; those that rank worse maps higher."""
    from uproar.results.board import PARTS, cards
    from uproar.study.board import OPTIMISED, board, networks
    from uproar.study.check import quick_networks

    which = [network for part in PARTS for network in networks(part)] if full else quick_networks(task, model)
    optimised = OPTIMISED if full else OPTIMISED[:2]
    rows = board(names, which, out / "store", 5 if full else 1, note, jobs=jobs, optimised=optimised, plugins=files)
    columns = ("metric", ">τ whole order", ">τ top k", ">τ degraded", "fooled by")
    shown = table(f"agreement with the known order on {counted(len(which), 'network')}", *columns)
    found, facts = cards(rows), []
    for card in found:
        taus = {f"tau_{by}": card.tau(by).value for by in ("order", "top", "degraded")}
        fooled = {**card.fooled_by(impostors=True), **card.fooled_by(impostors=False)}
        shown.add_row(card.metric, *(f"{tau:.2f}" for tau in taus.values()), escape(", ".join(fooled) or "–"))
        facts.append({"metric": card.metric, **taus, "reversed": card.reversed, "fooled_by": fooled})
    output.print(shown)
    add_to_json(metrics=facts)
    for card in found:
        doubts = ["it ranks worse maps higher: turn higher_is_better round"] if card.reversed else card.against
        against = (
            f"against {card.metric}: {'; '.join(doubts)}." if doubts else f"{card.metric}: nothing speaks against it."
        )
        output.print(escape(against[0].upper() + against[1:] if doubts else against), soft_wrap=True, highlight=False)
    return [card.metric for card in found if card.reversed]


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
