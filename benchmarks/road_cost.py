"""What ROAD costs beside deletion to a blurred image: with our linear imputation, and with the sparse LU it came with.

    python benchmarks/road_cost.py            two minutes
    python benchmarks/road_cost.py --quick    a fraction of it, rougher

All show the same number of images to the same network, one thread, in turns within a run: deletion by blur in ten steps, ROAD
with ten shares, and the same ten shares filled by the solve of the published code (see `imputation.py`), one image at a
time as there, plus the bare passes. Given are medians of this process's own time per photo and map, and their ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import torch
from imputation import released
from torch import nn

from metrics import seconds
from uproar.expression import parse
from uproar.metrics import Batch
from uproar.metrics.probe import evaluate
from uproar.models import models
from uproar.removal.linear import warm_up
from uproar.seeds import Draws

SHARES = [i / 10 for i in range(1, 11)]
BLUR = "deletion(steps=10, fill=blur)"
ROAD = f"road(fractions={SHARES})"


def batch_of(model: nn.Module, n: int, side: int, smooth: bool) -> Batch:
    """Random images; maps of scattered pixels, or of blobs."""
    torch.manual_seed(0)
    x, maps = torch.rand(n, 3, side, side), torch.rand(n, side, side)
    if smooth:
        wide = side // 8 * 2 + 1
        maps = nn.functional.avg_pool2d(maps[:, None], wide, 1, wide // 2, count_include_pad=False)[:, 0]
    with torch.inference_mode():
        clean = model(x).clone()
    draws = Draws.of(0, n)
    return Batch(model, x, clean.argmax(1), maps, clean, draws, torch.full((3,), 0.5))


def published(batch: Batch) -> None:
    """The ten shares of every image filled one at a time, and shown."""
    side = batch.x.shape[-1]
    order = batch.maps.flatten(1).argsort(dim=1, descending=True)
    for share in SHARES[:-1]:
        gone = torch.zeros(order.shape, dtype=torch.bool)
        gone.scatter_(1, order[:, : round(share * side**2)], True)
        pairs = zip(batch.x, gone.view(-1, side, side), strict=True)
        filled = [torch.from_numpy(released(x.numpy(), m.numpy())).float() for x, m in pairs]
        with torch.inference_mode():
            batch.model(torch.stack(filled))


def row(name: str, side: int, smooth: bool, n: int, rounds: int) -> None:
    half = torch.full((3,), 0.5)
    model = models[name].function((3, side, side), 10, half, half).eval()
    batch = batch_of(model, n, side, smooth)
    sides = (lambda: evaluate([parse(BLUR)], batch), lambda: evaluate([parse(ROAD)], batch), lambda: published(batch))
    evaluate([parse(ROAD)], batch)
    taken = [[seconds(one) for one in sides] for _ in range(rounds)]
    blur, ours, theirs = (1000 * statistics.median(column) / n for column in zip(*taken, strict=True))
    ratios = [statistics.median(t[i] / t[0] for t in taken) for i in (1, 2)]
    print(
        f"| {name}, {side}² | {'blobs' if smooth else 'scattered'} | {blur:.0f} | {ours:.0f} | {theirs:.0f} | "
        f"{ratios[0]:.1f}× | {ratios[1]:.1f}× |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    warm_up()
    print(
        "| network | maps | deletion by blur, ms | ROAD, ms | ROAD by sparse LU, ms | ROAD / blur | sparse LU / blur |"
    )
    print("|---|---|--:|--:|--:|--:|--:|")
    for name, side, n in (("resnet20", 32, 16), ("resnet50", 224, 2)):
        for smooth in (False, True):
            row(name, side, smooth, n=max(1, n // 2) if quick else n, rounds=1 if quick else 3)


if __name__ == "__main__":
    main()
