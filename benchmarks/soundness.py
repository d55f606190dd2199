"""Soundness in 99 steps on 1,000 CIFAR-10 test images with a trained ResNet-20, and how long the released way would take.

    python benchmarks/soundness.py WEIGHTS --data-root FOLDER     a few minutes

WEIGHTS are those of a ResNet-20 (`resnet20-12fca82f.th`), FOLDER holds CIFAR-10. The maps are integrated gradients.
Each of the 99,000 changed images is imputed and shown to the network. The released code of ROAD, whose imputation soundness uses,
solves one sparse system per image and step: that is re-derived in `imputation.py`, timed on a sample of the same images and masks,
and multiplied. Both are given in seconds of the process's own time on one thread, so that a busy machine does not count.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from imputation import released

import uproar
from uproar.metrics.soundness import _hidden
from uproar.models.weights import load_weights
from uproar.removal.linear import warm_up

STEPS = 99


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """The process's own time, and the time on the clock."""
    own, clock = time.process_time(), time.perf_counter()
    function()
    return time.process_time() - own, time.perf_counter() - clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--sample", type=int, default=3, help="images whose 99 systems are solved")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warm_up()
    if given.data_root:
        os.environ["UPROAR_DATA"] = given.data_root
    task = uproar.load(f"cifar10(train=1000, test={given.images})")
    model = load_weights(uproar.build("resnet20", task), given.weights).eval()
    x, y = task.test.read(slice(None)), task.test.labels
    right = float((uproar.predict(model, x).argmax(1) == y).double().mean())
    maps = uproar.explain(model, x, "ig(steps=10)", target=y)
    result = []
    own, clock = seconds(lambda: result.append(uproar.score(model, x, y, maps, ["soundness"], mean=task.mean)))
    row = result[0].iloc[0]
    shown = STEPS * given.images
    print(
        f"{given.images} images, accuracy {right:.3f}, soundness {row['value']:.3f} ({row['low']:.3f} to "
        f"{row['high']:.3f}), {shown} changed images"
    )
    print(
        f"ours: {own:.0f} s of one core ({clock:.0f} s on the clock), {1e3 * own / shown:.2f} ms per changed image, "
        "network and bootstrap included"
    )

    def solve() -> None:
        for image in range(given.sample):
            for hidden in _hidden(tuple(x.shape[1:]), STEPS):
                gone = ~uproar.removed(maps[image : image + 1], 1 - hidden / maps[0].numel())
                released(x[image].numpy(), gone[0].numpy())

    theirs, _ = seconds(solve)
    each = theirs / (given.sample * STEPS)
    print(
        f"released imputation: {1e3 * each:.1f} ms per changed image on {given.sample * STEPS} of them, so {each * shown:.0f} s "
        f"for all, without the network: {each * shown / own:.0f} times as long"
    )


if __name__ == "__main__":
    main()
