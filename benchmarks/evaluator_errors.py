"""How often rankings that know nothing are called better than the best network-free ranking.

    python benchmarks/evaluator_errors.py [--rankings 200] [--seeds 3] [--task digits]

Half of them are independent random rankings, half the same smoothed with a Gaussian. They are judged in studies of ten, as methods would be:
Holm's correction over ten. Target: at most 5 % of them.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace

import uproar
from uproar.results.evaluator import EvaluatorScores

TARGET = 0.05
FAMILY = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rankings", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--task", default="digits")
    given = parser.parse_args()
    draws = range(100, 100 + given.rankings // 2)
    names = [name for draw in draws for name in (f"random(draw={draw})", f"gaussian(random(draw={draw}))")]
    study = {
        "name": "errors",
        "task": given.task,
        "estimators": ["random", *names],
        "protocols": ["evaluator"],
        "fractions": [0.1, 0.3, 0.7],
        "random_rankings": 3,
        "seeds": given.seeds,
    }
    with tempfile.TemporaryDirectory() as folder:
        bits = uproar.run(study, store=folder, jobs=1).views[0].evaluator.bits
    wrong, smooth = {1: 0, 2: 0, -1: 0}, 0
    table = EvaluatorScores(bits).table.set_index("estimator")["score"]
    controls = {name: kind for name, kind in bits.kinds.items() if name not in names}
    for first in range(0, len(names), FAMILY):
        family = dict.fromkeys(names[first : first + FAMILY], "method")
        sides = EvaluatorScores(replace(bits, kinds={**controls, **family})).verdicts.set_index("estimator")["side"]
        for side in wrong:
            wrong[side] += int((sides == side).sum())
        smooth += sum(name.startswith("gaussian") for name in sides.index[sides == -1])
    print(f"{given.task}, {len(names)} rankings that know nothing, {given.seeds} replicates")
    print(f"called better than the best network-free ranking: {wrong[2]} (target: at most {TARGET * len(names):g})")
    print(f"called better than random: {wrong[1] + wrong[2]}, worse than random: {wrong[-1]}, of which smooth {smooth}")
    for what, chosen in (("random", names[::2]), ("smooth", names[1::2])):
        print(
            f"mean score of the {what} ones: {table[chosen].mean():+.3f} bits, {table[chosen].std():.3f} between them"
        )


if __name__ == "__main__":
    main()
