"""How well a registered network learns all of a data set, and the processor time of one thread that it takes.

    python benchmarks/train_network.py vit-small cifar10 '{"name": "vit-small", "epochs": 4, "batch": 128, "lr": 0.002}'

The recipe is written as in a study, in JSON. Data sets are looked for in $UPROAR_DATA.
"""

from __future__ import annotations

import argparse
import time

import torch

import uproar
from uproar.training import accuracy, predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("recipe", type=uproar.Recipe.model_validate_json)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    task = uproar.load(given.task)
    model = uproar.build(given.model, task, given.seed)
    images = task.train.read(slice(None))
    began = time.process_time()

    def took() -> str:
        return f"{(time.process_time() - began) / 60:.1f} min of processor time"

    def progress(done: int, epochs: int) -> None:
        print(f"epoch {done} of {epochs}: {took()}", flush=True)

    uproar.fit(model, images, task.train.labels, given.recipe, given.seed, progress)
    training = took()
    right = accuracy(predict(model, task.test.read(slice(None))), task.test.labels)
    print(f"{given.model} on {given.task}: {right:.2%} of {len(task.test):,} test images, after {training}")


if __name__ == "__main__":
    main()
