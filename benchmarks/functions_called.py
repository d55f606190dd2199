"""How many of our functions, in how many files, small questions call: what a reader would have to follow.

    python benchmarks/functions_called.py

Counted are functions of the package, each once, that are called by the smallest ROAR study (two methods, one fraction,
one seed, one process), by one score with deletion, and by the recommendation of a study that is there already. Each is
asked in a process of its own. Calls made while a module is imported do not count: they declare what there is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")


class Counter:
    """Collects the functions of the package that are called while it counts, in all threads."""

    def __init__(self, package: Path) -> None:
        self.below = f"{package}{os.sep}"
        self.called: set[CodeType] = set()
        self.importing = threading.local()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code, depth = frame.f_code, getattr(self.importing, "depth", 0)
        if code.co_name == "<module>" and event in ("call", "return"):
            self.importing.depth = depth + (1 if event == "call" else -1)
        ours = code.co_filename.startswith(self.below) and not code.co_name.startswith("<")
        if event == "call" and ours and not depth:
            self.called.add(code)

    def count(self, question: Callable[[], object]) -> tuple[int, int]:
        """How many functions in how many files a question calls."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            question()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return len(self.called), len({code.co_filename for code in self.called})


def run_roar(store: str, seeds: int = 1, metric: str = "roar") -> Any:
    """A study of two methods and one fraction on digits."""
    import uproar

    study = uproar.Study(
        estimators=("grad", "random"),
        baselines=(),
        metrics=(metric,),
        fractions=(0.5,),
        evaluator_fractions=(0.5,),
        seeds=tuple(range(seeds)),
        random_rankings=1,
        recipe=uproar.Recipe(epochs=2),
    )
    return uproar.run(study, store=store, jobs=1)


def smallest_study(counter: Counter, store: str) -> tuple[int, int]:
    """`uproar.run`, ROAR."""
    return counter.count(lambda: run_roar(store))


def one_score(counter: Counter, store: str) -> tuple[int, int]:
    """`uproar.score`, deletion."""
    import uproar

    task = uproar.load("digits")
    model = uproar.build("cnn-small", task, seed=0).eval()
    x, labels = task.test.read(slice(0, 32)), task.test.labels[:32]
    maps = {"grad": uproar.explain(model, x, "grad", target=labels)}
    return counter.count(lambda: uproar.score(model, x, labels, maps, ["deletion"], mean=task.mean))


def recommendation(counter: Counter, store: str) -> tuple[int, int]:
    """The answer of a study that was run, as text."""
    results = run_roar(store, seeds=5, metric="evaluator")
    return counter.count(lambda: str(results.answer))


QUESTIONS = {
    "run: ROAR, two methods, one fraction, one seed": smallest_study,
    "score: deletion": one_score,
    "recommendation of a study": recommendation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How many functions small questions call.")
    parser.add_argument("--only", choices=QUESTIONS, help="ask this in the same process and print the two numbers")
    only = parser.parse_args().only
    if only is not None:
        import uproar

        with tempfile.TemporaryDirectory() as store:
            print(*QUESTIONS[only](Counter(Path(uproar.__file__).parent), store))
        return
    print(f"{'':48} functions  files")
    for question in QUESTIONS:
        asked = [sys.executable, __file__, "--only", question]
        answer = subprocess.run(asked, capture_output=True, text=True)
        if answer.returncode:
            raise SystemExit(answer.stderr)
        functions, files = answer.stdout.split()[-2:]
        print(f"{question:48} {functions:>9} {files:>6}")


if __name__ == "__main__":
    main()
