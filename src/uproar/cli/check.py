"""`uproar check`: does my estimator keep the contract, does my metric order methods rightly? `uproar new`: a commented
file to begin from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from uproar.cli.options import Model, Plugins, advanced, argument, check_folder, flag, load_plugins, option
from uproar.cli.progress import watched
from uproar.cli.screen import add_to_json, command, note, output, print_file, print_next, print_table, styled
from uproar.errors import BadInput, StoreError
from uproar.paths import write_file
from uproar.statistics.design import BASELINE
from uproar.wording import counted


def check(
    what: Annotated[
        list[str], argument("FILE|NAME…", "my_method.py, my_metric.py, 'sg(grad)', deletion", "estimators", "metrics")
    ],
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
    from uproar.extend import declared_in  # torch loads slowly
    from uproar.study.check import is_estimator

    names: list[str] = []
    files = [word for word in what if is_file(word)]
    for word in what:
        declared = declared_in(word) if word in files else {"estimator": [word], "metric": []}
        if not declared["estimator"] + declared["metric"]:
            raise BadInput(f"{word} declares no estimator and no metric to check.")
        names += declared["estimator"] + declared["metric"]
    estimators = [name for name in names if is_estimator(name)]
    metrics = [name for name in names if name not in estimators]
    clauses = {name: check_estimator(name, model) for name in estimators}
    if estimators:
        add_to_json(clauses=[row for rows in clauses.values() for row in rows])
    plugins = [*(plugin or ()), *files]
    wrong = check_metrics(metrics, plugins, task, model, full, jobs, out) if metrics else []
    if wrong or not all(row["holds"] for rows in clauses.values() for row in rows):
        print_next("correct it, then the same command again (docs/add-an-estimator.md, docs/add-a-metric.md)")
        return 1
    options = [word for file in plugins for word in ("--plugin", file)]
    compared = ",".join(dict.fromkeys([BASELINE, *estimators]))
    run = (
        f"{command('run', *options, '--estimators', compared)} compares it with a random ranking" if estimators else ""
    )
    scored = f"{command('score', *options, '--metrics', ','.join(metrics))} scores maps by it" if metrics else ""
    print_next(run, scored)
    return 0


def is_file(what: str) -> bool:
    """Whether a file is meant, rather than an expression such as `sg(grad)` or `maps:FILE`."""
    text = what.partition("(")[0]
    return ":" not in text and (Path(text).suffix in (".py", ".txt") or os.sep in text or Path(text).exists())


def check_estimator(name: str, model: str) -> list[dict[str, object]]:
    """The clauses of the contract, and whether an estimator keeps each."""
    from uproar.estimators.contract import try_contract

    with watched(f"checking {name} on {model}") as watch:
        checks, seconds = try_contract(name, model, watch.counting("clauses", name))
    words = {True: styled(("yes", "green")), False: styled(("no", "bold red"))}
    rows = [(each.clause, words[each.holds] if each.tested else "–", each.message) for each in checks]
    print_table(f"{name} on {model}, {seconds * 1e3:.1f} ms per image", ("clause", "holds", "seen"), rows)
    failed = sum(not each.holds for each in checks)
    verdict = f"breaks {counted(failed, 'clause')}" if failed else "satisfies the contract"
    output.say(f"{name} {verdict}.")
    return [
        {"estimator": name, "clause": each.clause, "asked": each.tested, "holds": each.holds, "seen": each.message}
        for each in checks
    ]


def check_metrics(
    names: list[str], files: list[str], task: str | None, model: str, full: bool, jobs: int, out: Path
) -> list[str]:
    """Say how well metrics order methods whose right order is known; those that rank worse maps higher."""
    from uproar.results.board import PARTS, cards
    from uproar.study.board import OPTIMISED, board, networks
    from uproar.study.check import quick_networks

    which = [network for group in PARTS for network in networks(group)] if full else quick_networks(task, model)
    optimised = OPTIMISED if full else OPTIMISED[:2]
    tested = f"{', '.join(names)} on {counted(len(which), 'network')} whose use of the input is known"
    with watched(f"testing {tested}"):
        table = board(
            names, which, out / "store", 5 if full else 1, note, jobs=jobs, optimised=optimised, plugins=files
        )
    checked, rows, facts = cards(table), [], []
    for card in checked:
        taus = {f"tau_{by}": card.tau(by).value for by in ("order", "top", "degraded")}
        fooled = {**card.fooled_by(impostors=True), **card.fooled_by(impostors=False)}
        rows.append((card.metric, *(f"{tau:.2f}" for tau in taus.values()), ", ".join(fooled) or "–"))
        facts.append({"metric": card.metric, **taus, "reversed": card.reversed, "fooled_by": fooled})
    columns = ("metric", ">τ whole order", ">τ top k", ">τ degraded", "fooled by")
    print_table(f"Agreement with the known order on {counted(len(which), 'network')}", columns, rows)
    add_to_json(metrics=facts)
    for card in checked:
        doubts = ["it ranks worse maps higher: turn higher_is_better round"] if card.reversed else card.against
        output.say(
            f"Against {card.metric}: {'; '.join(doubts)}." if doubts else f"Nothing speaks against {card.metric}."
        )
    return [card.metric for card in checked if card.reversed]


STARTERS = Path(__file__).with_name("starters")
"""The files; Python ones end in .txt, so that nothing imports them where they are."""


DEFAULTS = {"study": "study.toml", "estimator": "my_method.py", "metric": "my_metric.py"}


def new(
    kind: Annotated[
        Literal["study", "estimator", "metric"], argument("KIND", "What to begin: study, estimator, metric")
    ],
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
    add_to_json(kind=kind, file=target)
    print_file(f"New {kind}", target)
    steps = {
        "study": f"{command('run', target, '--dry-run')} says what would run",
        "estimator": f"{command('check', target)} checks it",
        "metric": f"{command('score', '--plugin', target, '--metrics', 'my_metric')} scores methods by it",
    }
    print_next(steps[kind])
    return 0
