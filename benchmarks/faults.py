"""Faults, many at random: after each the same command must give the same numbers, or say in a sentence why not.

    python benchmarks/faults.py                                   # all sections, 100 trials each
    python benchmarks/faults.py --sections store --trials 300 --minutes 10
    python benchmarks/faults.py --sections processes --trials 100 --minutes 30   # 80 kills, 32 of them of all with SIGKILL

A section is a generator of trials. A trial says which kind of fault it was, and how it ended: "same numbers", "says why"
(an error of one sentence, or rows that are not done and a result that says so), or "WRONG" with what was seen. Printed: a
table by kind of fault, then what went wrong; the exit code is 1 if anything did. The same --seed gives the same faults.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import faulty  # noqa: E402
import hostile  # noqa: E402
import mutations  # noqa: E402
from processes import children, left_after  # noqa: E402
from uproar.errors import UproarError  # noqa: E402

SAME, SAYS, WRONG = "same numbers", "says why", "WRONG"


@dataclass(frozen=True)
class Trial:
    """One fault, and how what followed ended."""

    fault: str
    ended: str
    seen: str = ""


Section = Callable[[int, int, Path], Iterator[Trial]]
"""From a number of trials, a seed and an empty folder to trials."""


def store(trials: int, seed: int, folder: Path) -> Iterator[Trial]:
    """Files of a finished store that are flipped, cut, edited, swapped or deleted, also while a run goes on."""
    faulty.small_shards()
    whole = folder / "whole"
    expected = faulty.tables(faulty.run(whole, **faulty.EVERY_KIND))
    kinds = ["flip", "flip_header", "truncate", "delete", "swap", "swap_kinds", "edit_facts", "mark"]
    kinds += ["five at once", "deleted while running", "deleted and damaged while running"]
    for number in range(trials):
        kind, copy = kinds[number % len(kinds)], folder / f"copy-{number}"
        faulty.copied(whole, copy)
        faults = faulty.Faults(copy, seed + number)
        if kind in faulty.Faults.__dict__:
            done, during = [getattr(faults, kind)()], contextlib.nullcontext()
        elif kind == "five at once":
            done, during = faults.some(5), contextlib.nullcontext()
        else:
            # what is lost at first keeps the run busy while more is lost
            done = faults.some(3) if "damaged" in kind else [faults.delete() for _ in range(3)]
            during = _meanwhile(faults, done)
        with during:
            trial = _judged(kind, done, lambda copy=copy: faulty.run(copy, **faulty.EVERY_KIND), expected)
        yield trial
        faulty.removed(copy)


@contextlib.contextmanager
def _meanwhile(faults: faulty.Faults, done: list[str]) -> Iterator[None]:
    """Delete four more files, one now and then, while something else happens."""

    def take_away() -> None:
        for _ in range(4):
            time.sleep(faults.draw.random() * 0.5)
            with contextlib.suppress(OSError, IndexError):  # the run has moved it first
                done.append(faults.delete())

    thread = threading.Thread(target=take_away)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _judged(fault: str, done: list[str], run: Callable[[], object], expected: dict[str, str]) -> Trial:
    """How a run after some faults ended, against the tables of one without."""
    try:
        results = run()
    except UproarError as error:
        text = str(error)
        return Trial(fault, SAYS if "\n" not in text else WRONG, f"{text} after {done}")
    except Exception as error:
        return Trial(fault, WRONG, f"{error!r} after {done}")
    tables = faulty.tables(results)
    if tables == expected and not results.lost:
        return Trial(fault, SAME)
    differing = [name for name in expected if tables.get(name) != expected[name]]
    if set(results.cells["status"]) - {"done"} or results.lost:
        return Trial(fault, SAYS, f"{results.lost} lost, {differing} differ after {done}")
    return Trial(fault, WRONG, f"{differing} differ after {done}")


def _of_files(prefix: str, section: Callable[[int, int, Path], Iterator[tuple[str, str]]], summary: str) -> Section:
    """A section of files that are read or refused; each trial says its kind and what went wrong."""

    def trials_of(trials: int, seed: int, folder: Path) -> Iterator[Trial]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries, about files that are broken
            for fault, wrong in section(trials, seed, folder):
                yield Trial(f"{prefix}{fault}", WRONG if wrong else SAYS, wrong)

    trials_of.__doc__ = summary
    return trials_of


inputs = _of_files(
    "changed ",
    mutations.inputs,
    "Study files, expressions, records of runs, arrays, weights and data, changed at random.",
)
weights = _of_files("", hostile.weights, "Weights and arrays that would run code or claim more than they hold.")
archives = _of_files(
    "", hostile.archives, "Archives that would write outside their folder, link there, or fill the disk."
)
pages = _of_files("markup in the ", hostile.pages, "Names, labels, reasons and notes that are markup, on the pages.")


KILLS = ("SIGKILL to all", "SIGKILL to the parent", "SIGTERM", "SIGKILL to all", "SIGHUP")
"""How a run is killed, one way after the other, before it may end."""
SCRIPT = "import faulty, uproar; uproar.run(faulty.STUDY, store={store!r}, jobs=2)"


def processes(trials: int, seed: int, folder: Path) -> Iterator[Trial]:
    """Runs that are killed at random moments, the parent or the whole group: no orphans, and in the end the same numbers."""
    expected = faulty.tables(faulty.run(folder / "whole"))
    draw = random.Random(seed)
    for number in range(trials // (len(KILLS) + 1)):
        store = folder / f"killed-{number}"
        for way in KILLS:
            yield _killed(store, draw, way)
        yield _judged("after the kills", [f"{len(KILLS)} kills"], lambda s=store: faulty.run(s), expected)


def _killed(store: Path, draw: random.Random, way: str) -> Trial:
    """Start a run, kill it after a while, and look for processes that stayed behind; one that ended first begins anew."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(store=str(store))],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )
    try:
        run.wait(draw.uniform(0.2, 12))
    except subprocess.TimeoutExpired:
        started = children(run.pid)
    else:
        faulty.removed(store)
        return _killed(store, draw, way)
    (os.killpg if way.endswith("all") else os.kill)(run.pid, getattr(signal, way.split()[0]))
    run.wait()
    left = left_after(started, 2)
    return Trial(way, WRONG if left else SAME, f"{len(left)} processes stayed behind" if left else "")


SECTIONS: dict[str, Section] = {
    "store": store,
    "input": inputs,
    "weights": weights,
    "archives": archives,
    "pages": pages,
    "processes": processes,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sections", nargs="+", choices=sorted(SECTIONS), default=sorted(SECTIONS))
    parser.add_argument("--trials", type=int, default=100, help="of each section, at most")
    parser.add_argument("--minutes", type=float, default=10.0, help="of each section, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    random.seed(given.seed)
    wrong = 0
    for name in given.sections:
        with tempfile.TemporaryDirectory() as folder:
            result = _within(given.minutes, SECTIONS[name](given.trials, given.seed, Path(folder)))
        _print(name, result)
        wrong += sum(trial.ended == WRONG for trial in result)
    return 1 if wrong else 0


def _within(minutes: float, trials: Iterator[Trial]) -> list[Trial]:
    """The trials that end before the time is over, and the one under way."""
    result, end = [], time.monotonic() + 60 * minutes
    for trial in trials:
        result.append(trial)
        if time.monotonic() > end:
            break
    return result


def _print(section: str, trials: list[Trial]) -> None:
    counts = Counter((trial.fault, trial.ended) for trial in trials)
    print(f"\n{section}: {len(trials)} trials\n")
    print(f"| fault | trials | {SAME} | {SAYS} | {WRONG} |\n|---|---|---|---|---|")
    for fault in dict.fromkeys(trial.fault for trial in trials):
        ends = [counts[fault, ended] for ended in (SAME, SAYS, WRONG)]
        print(f"| {fault.replace('_', ' ')} | {sum(ends)} | {' | '.join(map(str, ends))} |")
    for trial in trials:
        if trial.ended != SAME and trial.seen:
            print(f"\n{trial.ended}, {trial.fault}: {trial.seen}")


if __name__ == "__main__":
    sys.exit(main())
