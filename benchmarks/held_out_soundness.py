"""Soundness on tasks that its setting on the board was not chosen on.

The setting `soundness(epsilon=0.05, fill=mean, level=0.9, steps=64)` was found on the ten tasks of the board. Here it is asked, beside
the default and completeness, on other scenes, triggers, seeds, sizes and colours (Fashion-MNIST must be there):

    python benchmarks/held_out_soundness.py runs/held-out-soundness     some minutes of processor time, resumable
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from uproar.statistics.intervals import mean_interval
from uproar.study.check import recovery_table
from uproar.study.judge_suite import SOUND, SuiteTask

SCENES = (
    "planted(train=1024, test=48)",
    "planted-redundant(train=512, test=48)",
    "planted-texture(train=768, test=48)",
    "planted-fixed(train=512, test=48, seed=1, channels=3, size=32)",
    "planted-place(train=512, test=50, seed=1, size=24)",
    "planted-absence(train=512, test=48, seed=1, channels=3)",
    "planted-conjunction(train=768, test=48, moving=false, seed=1, size=24)",
    "backdoor(digits(test=0.03), place=random, seed=1)",
    "backdoor(fashion-mnist, trigger=frame, train=1024, test=48)",
    "backdoor(fashion-mnist, trigger=square, strength=0.5, train=1024, test=48)",
)
SUITE = tuple(map(SuiteTask, SCENES))
JUDGES = (SOUND, "soundness", "completeness")
KINDS = ("extra", "missing", "random")


def main() -> None:
    folder = sys.argv[1]
    table = recovery_table(JUDGES, SUITE, store=folder, orders=KINDS, jobs=1, say=print)
    table.to_csv(f"{folder}/recovery.csv", index=False)
    for judge, rows in table.groupby("judge", sort=False):
        by_task = rows.pivot(index="task", columns="kind", values="tau")[[*KINDS]]
        print(f"\n{judge}\n{by_task.round(2).to_string()}")
        for kind in KINDS:
            found = mean_interval(by_task[kind].to_numpy())
            print(f"{kind}: {found.value:.2f} ({found.low:.2f} to {found.high:.2f}), {found.n} tasks")


if __name__ == "__main__":
    main()
