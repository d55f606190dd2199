"""Test every metric on known orders and write the board: docs/metric-board.md and the data the package reads.

    python tools/metric_board.py [--jobs N] [--out docs/metric-board.md] [--only evaluator --only evaluator:model]

About an hour on two cores; stopped, it resumes from runs/check.
"""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from uproar.report.metric_board import board_json, board_page
from uproar.results.recovery import BOARD, board_table
from uproar.study.check import Durations, recovery_table
from uproar.study.judge_suite import FRACTION, ORDERS, REPLICATES, SUITE, every_judge


def main() -> None:
    """Run what is missing and write the page and the data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/metric-board.md"))
    parser.add_argument("--only", action="append", help="a metric to test again; the rows of all others stay")
    given = parser.parse_args()
    kept = Path("runs/check")
    durations = Durations(kept / "durations.json")
    recoveries = recovery_table(
        given.only or every_judge(),
        SUITE,
        store=kept / "store",
        orders=ORDERS,
        jobs=given.jobs,
        say=lambda text: print(text, file=sys.stderr),
        spent=durations.add,
    )
    if given.only:
        known = board_table()
        recoveries = pd.concat([known[~known["judge"].isin(given.only)], recoveries], ignore_index=True)
    facts = {
        "command": "python tools/metric_board.py",
        "version": version("uproar"),
        "torch": version("torch"),
        "fraction": FRACTION,
        "replicates": REPLICATES,
        "python": platform.python_version(),
        "seconds": {task: round(durations.by_task.get(task, 0.0)) for task in recoveries["task"].unique()},
    }
    given.out.write_text(board_page(recoveries, facts), encoding="utf-8")
    BOARD.write_text(board_json(recoveries, facts), encoding="utf-8")
    print(f"{given.out}, {BOARD}")


if __name__ == "__main__":
    main()
