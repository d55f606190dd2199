"""Scores of the evaluator where the truth is known: own masks against the same masks moved.

    python benchmarks/evaluator_controls.py [--seeds 2] [--epochs 30]

Bits of log-loss that removing the most important pixels costs beyond the control, and keeping them saves, on tasks whose evidence lies at a
fixed place, at a random place, at a place that tells the class, and twice. The oracle must be far above 0, in the order of the noise added to
it; random pixels, random blocks and a patch that tells the class by its place at 0 or below.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
from scipy.stats import kendalltau

import uproar

TASKS = {
    "fixed place": "planted-fixed",
    "moving glyph": "planted",
    "moving glyph, 32×32": "planted(size=32, train=2048)",
    "class by place": "planted-place",
    "redundant": "planted-redundant",
}
LEVELS = (0.2, 0.4, 0.6, 0.8, 1.0)
TRUTH = ("oracle", *(f"degraded(level={level:g})" for level in LEVELS))
OTHERS = ("label_cue(share=0.5)", "random", "block_random")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    given = parser.parse_args()
    for title, task in TASKS.items():
        study = {
            "name": "controls",
            "task": task,
            "estimators": [*TRUTH, *OTHERS],
            "protocols": ["evaluator"],
            "target": "label",
            "seeds": given.seeds,
            "recipe": {"epochs": given.epochs},
        }
        with tempfile.TemporaryDirectory() as folder:
            images = uproar.run(study, store=folder, jobs=1).views[0].evaluators["label"].per_image
        images["score"] = (images["removing"] + images["keeping"]) / 2
        result = images.groupby(["estimator", "replicate"])["score"].mean().unstack()
        ordered = [kendalltau(result.loc[list(TRUTH), seed], np.arange(len(TRUTH))[::-1])[0] for seed in result]
        line = " ".join(f"{name} {result.loc[name].mean():+.2f}" for name in (*TRUTH, *OTHERS))
        print(f"{title}: {line}; τ with the known order {min(ordered):.2f}", flush=True)


if __name__ == "__main__":
    main()
