"""Test every metric on the board's networks: docs/board.md and the data that the package reads.

    python tools/metric_board.py [--jobs N] [--only evaluator --only evaluator:model] [--page]

Stopped, it resumes from runs/board. `--page` writes the page anew from the data that are there.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from uproar.report.metric_board import board_figure, board_json, board_page
from uproar.results.board import BOARD, COLUMNS, PARTS, agreement, board_table
from uproar.study.board import Network, board, networks
from uproar.study.choose import METRICS

PAGE = Path("docs/board.md")
FIGURE = Path("docs/images/board.png")
SEEDS = 5
NEIGHBOURS = "(by=probability, fractions=[0, 0.25, 0.5])"
ASKED = (
    "evaluator",
    "evaluator:model",
    "roar",
    "kar",
    "roar:no-retrain",
    "kar:no-retrain",
    "insertion",
    "deletion",
    "road",
    "road_gap",
    "road_lerf",
    *METRICS,
    f"road_lerf{NEIGHBOURS}",
    "ffid_plus(draws=10, sizes=[0.1, 0.3, 0.5])",
    "ffid_minus(draws=10, sizes=[0.1, 0.3, 0.5])",
    "idsds",
    "average_drop",
    "increase_in_confidence",
    "completeness",
    "infidelity",
    "soundness(epsilon=0.05, fill=mean, level=0.9, steps=64)",
)
"""The metrics with the settings in which they are used: those of studies, the defaults of `score`, those of `choose`;
others at their defaults, or more cheaply where those cost too much."""
TOGETHER = (METRICS, (f"road{NEIGHBOURS}", f"road_lerf{NEIGHBOURS}"), ("insertion", "road"), ("insertion", "deletion"))
"""Metrics that need no training and decide together, by the mean rank of a map."""


def rows_of_network(network: Network, asked: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[str], float]:
    """The rows of one network, what could not be measured, and the processor seconds of this process."""
    torch.set_num_threads(1)
    problems: list[str] = []
    table = board(
        asked,
        [network],
        Path("runs/board/store"),
        SEEDS,
        problems.append,
        combined={agreement(names): names for names in TOGETHER},
    )
    print(network.name, file=sys.stderr, flush=True)
    return table.to_dict("records"), problems, sum(os.times()[:2])


def main() -> None:
    """Run what is missing and write the page and the data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", help="a metric to test again; the rows of all others stay")
    parser.add_argument("--page", action="store_true", help="write the page anew from the data")
    given = parser.parse_args()
    if not given.page:
        which = [network for part in PARTS for network in networks(part)]
        ask = functools.partial(rows_of_network, asked=tuple(given.only or ASKED))
        with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            results = list(pool.map(ask, which))
        table = pd.DataFrame([row for rows, _, _ in results for row in rows], columns=[*COLUMNS])
        if given.only:
            known = board_table()
            table = pd.concat([known[~known["metric"].isin(given.only)], table], ignore_index=True)
        facts = {
            "command": "make board",
            "version": version("uproar"),
            "torch": version("torch"),
            "python": platform.python_version(),
            "minutes": round(sum(seconds for _, _, seconds in results) / 60),
            "problems": [sentence for _, problems, _ in results for sentence in problems],
        }
        BOARD.write_text(board_json(table, facts), encoding="utf-8")
    board_table.cache_clear()
    facts = {k: v for k, v in json.loads(BOARD.read_text(encoding="utf-8")).items() if k not in ("columns", "rows")}
    head = PAGE.read_text(encoding="utf-8").partition("\n## What the board says\n")[0]
    PAGE.write_text(f"{head}\n## What the board says\n\n{board_page(board_table(), facts)}", encoding="utf-8")
    board_figure(board_table()).savefig(FIGURE, dpi=110)
    print(f"{PAGE}, {FIGURE}, {BOARD}")


if __name__ == "__main__":
    main()
