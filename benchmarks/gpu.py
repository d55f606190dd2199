"""The main paths on the device that there is, beside the CPU: do they agree, and how much faster is it?

    python benchmarks/gpu.py                      the first of cuda, mps, xpu; the CPU twice where there is none
    python benchmarks/gpu.py --device cuda:1 --images 64

Prints a table to paste into an issue. Maps are compared by Spearman's rank correlation of their pixels (mean over
images, at least .99), scores by their largest difference (at most .01).
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

import uproar

METHODS = ("grad", "ig", "smoothgrad", "grad_cam", "lrp", "occlusion")
METRICS = ("deletion(steps=16)", "insertion(steps=16)", "road(by=probability)")


def device_there() -> str:
    """The first accelerator of this machine, or the CPU."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "xpu": torch.xpu.is_available(),
    }
    return next((name for name, available in there.items() if available), "cpu")


def timed(work: Callable[[], Any], device: str) -> tuple[Any, float]:
    """The result of the second of two runs, and its seconds; work on a device is waited for."""
    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        result = work()
        if device != "cpu":
            torch.accelerator.synchronize()
        seconds = time.perf_counter() - began
    return result, seconds


def rows(device: str, images: int, size: int) -> list[tuple[str, float, float, float]]:
    """What was done, seconds on the CPU and on the device, and how far both agree."""
    task = uproar.load(f"planted(size={size}, classes=4, train=64, test={max(images, 8)})")
    network = uproar.build("resnet-tiny", task, seed=0).eval()
    x, labels = task.test.read(slice(0, images)), task.test.labels[:images]
    table: list[tuple[str, float, float, float]] = []
    on_cpu: dict[str, Tensor] = {}

    def both(name: str, work: Callable[[nn.Module, Tensor], Any], agreement: Callable[[Any, Any], float]) -> Any:
        here, seconds = timed(lambda: work(network.cpu(), x), "cpu")
        there, more = timed(lambda: work(network.to(device), x.to(device)), device)
        table.append((name, seconds, more, agreement(here, there)))
        network.cpu()
        return here

    for method in METHODS:
        explain = lambda model, x, method=method: uproar.explain(  # noqa: E731
            model, x, method, target=labels.to(x.device), mean=task.mean.to(x.device)
        )
        on_cpu[method] = both(f"explain: {method}", explain, correlation)
    for metric in METRICS:
        score = lambda model, x, metric=metric: uproar.score(  # noqa: E731
            model, x, labels, on_cpu, [metric], mean=task.mean
        )
        both(f"score: {metric.partition('(')[0]}", score, lambda a, b: float((a["value"] - b["value"]).abs().max()))
    choose = lambda model, x: uproar.choose(  # noqa: E731
        model, x, labels, methods=["grad", "grad_cam"], budget=None
    )
    both("choose", choose, lambda a, b: float(set(a.recommended) == set(b.recommended)))
    return table


def correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's correlation of two maps' pixels, mean over images."""
    pairs = zip(a.cpu().flatten(1), b.cpu().flatten(1), strict=True)
    return sum(float(spearmanr(*pair).statistic) for pair in pairs) / len(a)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=device_there())
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--size", type=int, default=32)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    name = torch.cuda.get_device_name() if given.device.startswith("cuda") else platform.processor() or given.device
    print(f"uproar {uproar.__version__}, torch {torch.__version__}, {given.device}: {name}\n")
    print(
        f"| what ({given.images} images, {given.size}x{given.size}) | CPU s | {given.device} s | times as fast | agreement |"
    )
    print("|---|---|---|---|---|")
    for what, cpu, device, agreement in rows(given.device, given.images, given.size):
        right = agreement <= 0.01 if what.startswith("score") else agreement >= 0.99
        print(
            f"| {what} | {cpu:.2f} | {device:.2f} | {cpu / device:.1f} | {agreement:.4f}{'' if right else ' **differs**'} |"
        )


if __name__ == "__main__":
    main()
