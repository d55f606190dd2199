"""How long commands take before they begin to work, beside `import torch`; and a study again that has nothing to compute.

    python benchmarks/start_up.py             commands alone, about two minutes
    python benchmarks/start_up.py --demo      the study of `make demo` too, twice

Each command runs in a process of its own, in turns with `import torch` within a run; given are medians of the processor
time of the process, which a busy machine changes less than the clock, and their ratios. Commands that need torch are given
a name that does not exist: they end where their work would begin. Both read compiled modules, as an installed package does,
also where PYTHONDONTWRITEBYTECODE is set: they are compiled once, into a folder of this run. The study is timed by the
clock, first and again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

TORCH = [sys.executable, "-c", "import torch"]
PROGRAM = [sys.executable, "-m", "uproar"]
WITHOUT_TORCH = ["--help", "--version", "run --help", "ls estimators", "ls tasks"]
WITH_TORCH = [
    "run --estimators nonsense",
    "validate --estimators nonsense",
    "explain --estimators nonsense",
    "score --estimators nonsense",
    "try nonsense",
    "run --audits nonsense",
]


def processor_seconds(command: list[str]) -> float:
    """The processor time of a command, with that of what it starts."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=False)
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def measure(rounds: int) -> None:
    """Print each command's time and its ratio to that of `import torch`."""
    lines = {"import torch": TORCH, "import uproar": [sys.executable, "-c", "import uproar"]}
    lines |= {f"uproar {words}": [*PROGRAM, *words.split()] for words in (*WITHOUT_TORCH, *WITH_TORCH)}
    for command in lines.values():
        processor_seconds(command)  # files are read from the disk and compiled
    seconds: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds):
        for name, command in lines.items():
            seconds[name].append(processor_seconds(command))
    torch = statistics.median(seconds["import torch"])
    for name, times in seconds.items():
        middle = statistics.median(times)
        print(f"{name:40s} {middle:6.2f} s  {middle / torch:5.2f} × import torch")


def measure_demo() -> None:
    """Print how long the study of `make demo` takes, and how long the same command again."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*PROGRAM, "run", "--seeds", "3", "--out", str(Path(folder) / "demo")]
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            seconds.append(time.perf_counter() - began)
    again = min(seconds[1:])
    print(f"the demonstration {seconds[0]:.1f} s, again {again:.1f} s: 1/{seconds[0] / again:.1f}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5, help="times that each is started")
    arguments.add_argument("--demo", action="store_true", help="also the study of make demo, twice")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as compiled:
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        measure(options.rounds)
        if options.demo:
            measure_demo()


if __name__ == "__main__":
    main()
