"""What the answer of the evaluator costs beside ROAR: the same methods, fractions and replicates, in one run.

    python benchmarks/answer_cost.py [digits|fashion-mnist] [--test 2000] [--seeds 3] [--epochs 12] [--retrained 2]

Ten attribution methods and five fractions on digits, or on 6,000 training and `--test` test images of Fashion-MNIST. Both start from the same
trained base networks, whose time is given apart; the evaluator's time includes explaining, training, judging both directions, the control
and the model-free baselines; ROAR's includes explaining and retraining. Processor time of one process with one thread. `--retrained N` retrains for the
first N methods alone and multiplies by what is left out: every cell of ROAR costs the same. Before either is timed, a study of one replicate and
one epoch is run under both metrics, so that what a process does once (imports, kernels) is counted to neither.

The evaluator takes seconds, ROAR minutes, and other processes lengthen processor time too. ROAR is therefore run replicate by replicate, and the
evaluator for all replicates before the first, between them and after the last, each time in a new folder that has the base networks alone. The
median of its times is compared with the sum of ROAR's; the single times are printed too. Target: a tenth. What the checks of sanity and stability
add, which raise flags and change no score, is measured after each run of the evaluator, and the ratio with them is printed too.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch

import uproar
from uproar.metrics.registry import CHECKS
from uproar.store import Store
from uproar.study.graph import obtain
from uproar.study.grid import settings_of
from uproar.study.run import run_study

METHODS = (
    "grad",
    "guided_backprop",
    "ig",
    "sq(grad)",
    "sq(ig)",
    "sg(grad)",
    "sg_sq(grad)",
    "var(grad)",
    "grad_input",
    "grad_cam",
)
TASKS = {"digits": "digits", "fashion-mnist": "fashion-mnist(train=6000, test={test})"}
TARGET = 10.0


def study_for(task: str, seeds: int, epochs: int, metric: str, test: int = 2000, **more) -> uproar.Study:
    """Ten methods under one metric."""
    recipe = {"epochs": epochs}
    return uproar.study_of(
        {
            "name": "cost",
            "task": TASKS[task].format(test=test),
            "estimators": METHODS,
            "metrics": [metric],
            "seeds": seeds,
            "recipe": recipe,
            **more,
        }
    )


def processor_seconds(work) -> float:
    """Processor time of a call in this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=TASKS, default="digits")
    parser.add_argument("--test", type=int, default=2000, help="test images of Fashion-MNIST")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--retrained", type=int, default=None)
    given = parser.parse_args()
    torch.set_num_threads(1)
    judged, retrained = (
        study_for(given.task, given.seeds, given.epochs, name, given.test) for name in ("evaluator", "roar")
    )
    share = 1.0
    if given.retrained is not None:
        few = retrained.with_changes(estimators=METHODS[: given.retrained], random_rankings=1)
        share, retrained = len(few.all_chains) / len(retrained.all_chains), few
    with tempfile.TemporaryDirectory() as folder:
        for name in ("evaluator", "roar"):
            run_study(study_for("digits", 1, 1, name, fractions=[0.5]), Path(folder) / "warm-up", 1)
        networks = Path(folder) / "networks"
        Store(networks).begin()
        (setting,) = settings_of(judged)
        base = processor_seconds(lambda: [obtain(setting.base_model(seed), Store(networks)) for seed in judged.seeds])
        evaluator, checks, roar = interleaved(judged, retrained, networks)
    report(given, base, evaluator, checks, [seconds / share for seconds in roar])


def interleaved(
    judged: uproar.Study, retrained: uproar.Study, networks: Path
) -> tuple[list[float], list[float], list[float]]:
    """Times of the evaluator and of its checks, one more than replicates, and of each replicate of ROAR.

    All begin with the same base networks.
    """

    def again(name: str, *studies: uproar.Study) -> list[float]:
        store = shutil.copytree(networks, networks.with_name(name))
        return [processor_seconds(lambda study=study: run_study(study, store, 1)) for study in studies]

    checked = judged.with_changes(metrics=(*judged.metrics, *CHECKS))
    answers, roar = [again("evaluator", judged, checked)], []
    for seed in retrained.seeds:
        roar += again(f"roar-{seed}", retrained.with_changes(seeds=[seed]))
        answers.append(again(f"evaluator-{seed}", judged, checked))
    evaluator, checks = zip(*answers, strict=True)
    return [*evaluator], [*checks], roar


def report(
    given: argparse.Namespace, base: float, evaluator: list[float], checks: list[float], roar: list[float]
) -> None:
    """Print the times and their ratio."""
    once, total, more = statistics.median(evaluator), sum(roar), statistics.median(checks)
    print(f"{given.task}, {len(METHODS)} methods, 5 fractions, {given.seeds} replicates; seconds of processor time")
    print(
        f"base networks {base:.1f}, evaluator {once:.1f} (median of {listed(evaluator)}), ROAR {total:.1f} ({listed(roar)})"
    )
    print(
        f"ROAR / evaluator {total / once:.1f} (target {TARGET:g}), base networks included {(base + total) / (base + once):.1f}"
    )
    print(
        f"checks {more:.1f} more (median of {listed(checks)}); ROAR / (evaluator and checks) {total / (once + more):.1f}"
    )


def listed(seconds: list[float]) -> str:
    """Single times in the order in which they were measured."""
    return ", ".join(f"{one:.1f}" for one in seconds)


if __name__ == "__main__":
    main()
