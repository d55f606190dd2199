"""Known orders: which judge puts maps in the order of their quality where that is known.

On made-up tasks the important pixels are known. They are degraded by six levels of noise, which is a known order, and
stand beside maps that must not win: one that only tells the class by its place (`encoder`), random blocks, a random
ranking. Each judge is run by itself on one store, and its processor time taken.

    python benchmarks/known_order.py --write known-orders.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import torch

import uproar
from uproar.metrics.registry import sign_of

LARGE = 6
"""How many times as many training images the task of 32 × 32 pixels has: with fewer its glyphs are not learned."""
TASKS = {
    "moving glyph, 16²": "planted(size=16, train={train}, test={test})",
    "moving glyph, 32²": "planted(size=32, train={more}, test={test})",
    "fixed place": "planted-fixed(size=16, train={train}, test={test})",
    "class by place, one empty": "planted-place(size=16, train={train}, test={test})",
    "redundant evidence": "planted-redundant(size=16, train={train}, test={test})",
}
LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
ORACLES = tuple(f"degraded(level={level:g})" if level else "oracle" for level in LEVELS)
IMPOSTORS = {"encoder": "degraded(kind=encoder, level=1)", "blocks": "block_random", "random": "random"}
PROTOCOLS = ("roar", "kar", "decoupled")
METRICS = {
    "ROAD": "road",
    "insertion": "insertion",
    "deletion": "deletion",
    "soundness": "soundness",
    "completeness": "completeness",
    "FFid+": "ffid_plus(draws=10)",
    "FFid−": "ffid_minus(draws=10)",
    "IDSDS": "idsds(lr=0.01, batch_size=64)",
}


@dataclass(frozen=True)
class Row:
    """What one judge says on one task."""

    task: str
    judge: str
    tau: float
    above: dict[str, int]
    """By impostor: of the six degraded truths, how many it is placed above."""
    seconds: float
    scores: dict[str, float]
    """By estimator, turned so that higher is better."""


def row_of(task: str, judge: str, scores: dict[str, float], seconds: float) -> Row:
    """Kendall's τ of a judge with the levels, and where the impostors are placed."""
    truth = [scores[name] for name in ORACLES]
    tau = scipy.stats.kendalltau([-level for level in LEVELS], truth).statistic
    above = {name: sum(scores[chain] > value for value in truth) for name, chain in IMPOSTORS.items()}
    return Row(task, judge, float(tau), above, seconds, scores)


def rows_of(title: str, task: str, store: Path, epochs: int, seeds: int) -> Iterator[Row]:
    """All judges on one task, each run by itself."""
    study = {
        "task": task,
        "model": "cnn-small",
        "estimators": [*ORACLES, *IMPOSTORS.values()],
        "fractions": [0.1],
        "seeds": seeds,
        "random_rankings": 1,
        "recipe": {"epochs": epochs},
        "protocols": [],
    }
    _run({**study, "metrics": ["sparseness"]}, store)  # the base networks are nobody's cost
    results, seconds = _run({**study, "protocols": ["evaluator"]}, store)
    table = results.views[0].evaluator.table.set_index("estimator")["score"]
    yield row_of(title, "evaluator", table.to_dict(), seconds)
    for name in PROTOCOLS:
        results, seconds = _run({**study, "protocols": [name]}, store)
        mean = results.cells.groupby("estimator")["accuracy"].mean()
        sign = 1 if name == "kar" else -1
        yield row_of(title, name, (sign * mean).to_dict(), seconds)
    for label, name in METRICS.items():
        results, seconds = _run({**study, "metrics": [name]}, store)
        values = sign_of(name) * results.scores.groupby("estimator")["value"].mean()
        yield row_of(title, label, values.to_dict(), seconds)


def _run(study: dict, store: Path) -> tuple[uproar.Results, float]:
    began = time.process_time()
    results = uproar.run(study, store=store, jobs=1)
    return results, time.process_time() - began


def table_of(rows: list[Row]) -> str:
    """A table: judges by tasks, with τ and how many of the six the encoder, blocks and random are placed above."""
    judges = list(dict.fromkeys(row.judge for row in rows))
    tasks = list(dict.fromkeys(row.task for row in rows))
    result = {(row.judge, row.task): row for row in rows}
    lines = [f"| judge | {' | '.join(tasks)} | seconds |", "|---|" + "---|" * (len(tasks) + 1)]
    for judge in judges:
        own = [result[judge, task] for task in tasks]
        seconds = sum(row.seconds for row in own)
        lines.append(f"| {judge} | {' | '.join(map(_cell, own))} | {seconds:.0f} |")
    return "\n".join(lines)


def _cell(row: Row) -> str:
    placed = "/".join(str(count) for count in row.above.values())
    return f"{_number(row.tau)} ({placed})"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}".replace("-", "−").replace("0.", ".", 1)


OPEN, CLOSE = "<!-- measured -->", "<!-- end of measured -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the page whose measured part is written anew")
    parser.add_argument("--train", type=int, default=512)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Row] = []
    sizes = {"train": given.train, "more": LARGE * given.train, "test": given.test}
    for title, task in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            for row in rows_of(title, task.format(**sizes), Path(folder), given.epochs, given.seeds):
                rows.append(row)
                scores = " ".join(f"{name}={value:.3f}" for name, value in row.scores.items())
                print(f"{title} | {row.judge} | {_cell(row)} | {row.seconds:.0f} s | {scores}", flush=True)
    table = table_of(rows)
    print(table)
    if given.write is not None:
        page = given.write.read_text()
        before, after = page.partition(OPEN)[0], page.partition(CLOSE)[2]
        given.write.write_text(f"{before}{OPEN}\n{table}\n{CLOSE}{after}")


if __name__ == "__main__":
    main()
