"""grad, sg, sg_sq and var of one batch: ours against Captum's Saliency and three NoiseTunnels, in one run.

    python benchmarks/gradient_family.py [--repeats 5]

Both explain the same images with the same number of noisy copies on one thread; runs alternate, the best of each counts.
Target: at least 3 times as fast.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from captum.attr import NoiseTunnel, Saliency

import uproar

NAMES = ["grad", "sg(grad)", "sg_sq(grad)", "var(grad)"]
TARGET = 3.0


def captum_maps(model: torch.nn.Module, x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
    saliency = Saliency(model)
    tunnel = NoiseTunnel(saliency)
    maps = [saliency.attribute(x.clone().requires_grad_(), target=target, abs=False)]
    spread = float(x.max() - x.min())
    for kind in ("smoothgrad", "smoothgrad_sq", "vargrad"):
        inputs = x.clone().requires_grad_()
        maps.append(
            tunnel.attribute(inputs, nt_type=kind, nt_samples=15, stdevs=0.15 * spread, target=target, abs=False)
        )
    return maps


def best(function: Callable[[], object], repeats: int, times: list[float]) -> None:
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print(f"{'network':14} {'images':>16} {'captum':>10} {'uproar':>10} {'ratio':>7}")
    worst = float("inf")
    cases = [
        ("cnn-small", "digits", 64),
        ("cnn-small", "planted(size=32, channels=3)", 64),
        ("resnet-small", "planted(size=32, channels=3)", 32),
    ]
    for name, data, n in cases:
        task = uproar.load(data)
        model = uproar.build(name, task).eval()
        x, target = task.test.read(slice(0, n)), task.test.labels[:n]
        theirs: list[float] = []
        ours: list[float] = []
        for _ in range(repeats):  # alternate, so that both see the same machine
            best(lambda: captum_maps(model, x, target), 1, theirs)  # noqa: B023
            best(lambda: uproar.explain(model, x, NAMES, target=target), 1, ours)  # noqa: B023
        a, b = min(theirs), min(ours)
        worst = min(worst, a / b)
        print(f"{name:14} {f'{n} of {tuple(x.shape[1:])}':>16} {a * 1e3:8.1f}ms {b * 1e3:8.1f}ms {a / b:6.1f}×")
    print(f"smallest ratio {worst:.1f}× (target {TARGET:g}×): {'reached' if worst >= TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
