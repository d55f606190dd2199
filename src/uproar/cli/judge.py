"""`uproar judge`: does a metric or protocol put maps in the order that is known to be right?"""

from __future__ import annotations

import math
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from uproar.cli.checks import check_file, check_folder
from uproar.cli.completion import complete_names
from uproar.cli.console import note, output, table
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import print_next
from uproar.cli.options import HOW, WHAT, WHERE, Plugins, option
from uproar.errors import BadInput
from uproar.storage.urls import public_command
from uproar.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from uproar.results.recovery import JudgeRecovery

SAID = 5
"""Judges of which everything is said; of more, a table that fits a terminal."""


def judge(
    judges: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="METRIC|PROTOCOL|FILE",
            help="Names, or a file that declares metrics; without any, what the board says",
            show_default=False,
            autocompletion=complete_names("metrics", "protocols"),
        ),
    ] = None,
    task: Annotated[
        str | None,
        option(panel=WHAT, takes="TASK", text="Plant backdoors in this task instead", default="the built-in suite"),
    ] = None,
    model: Annotated[
        str,
        option(panel=WHAT, takes="MODEL", text="The network of --task: a name or file.py:factory", default="cnn-small"),
    ] = "cnn-small",
    plugin: Plugins = None,
    full: Annotated[
        bool, typer.Option("--full", help="All tasks and kinds of the suite, not three tasks", rich_help_panel=HOW)
    ] = False,
    jobs: Annotated[int, option(panel=HOW, takes="N", text="Processes", default="1")] = 1,
    board: Annotated[
        Path | None,
        option(
            panel=WHERE,
            takes="FILE",
            text="Judge everything on the whole suite and write the board here",
            default="none",
        ),
    ] = None,
    out: Annotated[
        Path, option(panel=WHERE, takes="FOLDER", text="Results are kept here", default="runs/judge")
    ] = Path("runs/judge"),
) -> int:
    """Judge a judge: maps whose order of quality is known, and whether a metric or protocol finds that order."""
    if task is not None and board is not None:
        raise BadInput("--board is made of the built-in suite: leave out --task.")
    if not judges and board is None and task is None:
        return _print_board()
    check_folder(out)
    if board is not None:
        check_file(board)
    from uproar.extend import load_plugin  # torch loads slowly

    for file in plugin or ():
        load_plugin(file)
    names = _names(judges or [])
    return _judge(names, task, model, full or board is not None, jobs, board, out)


def _judge(names: list[str], task: str | None, model: str, full: bool, jobs: int, board: Path | None, out: Path) -> int:
    from uproar.results.recovery import judge_recoveries
    from uproar.runs.judge import Durations, recovery_table
    from uproar.scoring.score import DEFAULT
    from uproar.study.judge_suite import KNOWN, ORDERS, QUICK, SUITE, every_judge, local_suite

    everything = board is not None and not names
    asked = every_judge() if everything else names or list(DEFAULT)
    suite = local_suite(task, model) if task is not None else SUITE if full else QUICK
    orders, durations = ORDERS if full else KNOWN, Durations(out / "durations.json")
    recoveries = recovery_table(
        asked, suite, store=out / "store", orders=orders, jobs=jobs, say=note, spent=durations.add
    )
    every = judge_recoveries(recoveries)
    _print(every, f"recovery of known orders on {counted(recoveries['task'].nunique(), 'task')}")
    for one in every:
        if len(every) <= SAID or one.turned:
            output.print(escape(one.sentence), soft_wrap=True, highlight=False)
    if task is not None:
        for sentence in _compared(every):
            output.print(escape(sentence), soft_wrap=True, highlight=False)
    if board is not None:
        _write_board(recoveries, board, durations.by_task)
    print_next("uproar judge --board metric-board.md compares all judges")
    return 1 if any(one.turned for one in every) and not everything else 0


def _compared(every: list[JudgeRecovery]) -> list[str]:
    """Whether judges are trusted here as in the suite, in sentences."""
    from uproar.results.recovery import disagreements, trust

    suite = [known for one in every if (known := trust(one.judge)) is not None]
    if not suite:
        return ["The board has none of these: trust here is all there is."]
    if every[0].single:
        return ["One task is too little to say whether trust here and in the suite agree."]
    return disagreements(every, suite) or ["Trust here and in the suite agree."]


def _names(judges: list[str]) -> list[str]:
    """Names as they are, files as the metrics that they declare."""
    from uproar.extend import declared_in

    names: list[str] = []
    for one in judges:
        if not one.endswith(".py"):
            names.append(one)
            continue
        declared = declared_in(one)
        if not declared["metric"]:
            raise BadInput(f"{one} declares no metric: that is what uproar judge judges (docs/add-a-metric.md).")
        names += declared["metric"]
    return list(dict.fromkeys(names))


def _print_board() -> int:
    from uproar.results.recovery import board_table, judge_recoveries

    known = board_table()
    if known.empty:
        raise BadInput(
            "There is no board yet: uproar judge --board metric-board.md makes it."
            " uproar judge deletion judges one metric."
        )
    _print(judge_recoveries(known), f"recovery of known orders on {known['task'].nunique()} tasks, from the board")
    print_next("uproar judge NAME judges one anew")
    return 0


def _print(every: list[JudgeRecovery], title: str) -> None:
    """A row per judge; of many, the kinds that each is blind to or rewards are counted, not named."""
    add_to_json(judges=[_row(one) for one in every])
    many = ">" if len(every) > SAID else ""
    shown = table(title, "judge", ">recovery", ">95 % interval", "trusted", f"{many}blind to", f"{many}rewards")
    for one in every:
        r = one.recovery
        interval = f"{r.low:.2f} … {r.high:.2f}" if math.isfinite(r.low) else "–"
        trusted = "wrong in sign" if one.turned else "–" if one.single else "yes" if one.trusted else "no"
        rewards = ["what is worse"] if one.turned and not many else one.rewards
        kinds = [str(len(own)) if many else ", ".join(own) for own in (one.blind, rewards)]
        shown.add_row(one.judge, f"{r.value:.2f}", interval, trusted, *kinds)
    output.print(shown)
    if many:
        output.print("blind to, rewards: how many kinds of worse maps; --json names them.", soft_wrap=True)


def _row(one: JudgeRecovery) -> dict[str, object]:
    """What is known of a judge, for programs."""
    return {
        "judge": one.judge,
        **one.recovery.as_row("recovery", with_n=True),
        "trusted": one.trusted,
        "wrong_in_sign": one.turned,
        "wrong": one.wrong,
        "images_needed": one.needed,
        "trainings_needed": one.replicates,
        "blind_to": one.blind,
        "rewards": one.rewards,
        "by_kind": one.by_kind,
    }


def _write_board(recoveries: pd.DataFrame, board: Path, durations: Mapping[str, float]) -> None:
    from importlib.metadata import version

    from uproar.report.metric_board import board_json, board_page
    from uproar.results.recovery import BOARD
    from uproar.storage.backends import write_file
    from uproar.study.judge_suite import FRACTION, REPLICATES

    facts = {
        "command": public_command(["uproar", *sys.argv[1:]]),
        "version": version("uproar"),
        "torch": version("torch"),
        "fraction": FRACTION,
        "replicates": REPLICATES,
        "python": platform.python_version(),
        "seconds": {task: round(durations.get(task, 0.0)) for task in recoveries["task"].unique()},
    }
    write_file(board, board_page(recoveries, facts).encode())
    write_file(board.with_suffix(".json"), board_json(recoveries, facts).encode())
    output.print(
        f"Board: {board}, data: {board.with_suffix('.json')} (the package reads {BOARD.name}).", soft_wrap=True
    )
