"""Time of metrics that show changed images to a model, against bare forward passes of the same images.

    python benchmarks/metrics.py            five minutes
    python benchmarks/metrics.py --quick    less than a minute, rougher

Both sides use one thread, the same network and the same rows per pass, and take turns within a run, so that a busy
machine slows both. The bare side only calls the network on images that were made before. Given are medians of the
ratio within a round. Other packages are timed where they can be imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor, nn

from uproar.expression import Call, parse
from uproar.metrics import Batch, metrics
from uproar.metrics.probe import ROWS, evaluate
from uproar.removal.linear import warm_up
from uproar.seeds import Draws
from uproar.tensors import spans

TARGETS = {
    ("insertion", "deletion"): 1.15,
    ("road", "road_lerf"): 2.0,
    ("soundness",): 2.0,
    ("soundness", "completeness", "road_gap", "insertion", "deletion", "average_drop"): 2.0,
}


def network(classes: int = 10, channels: int = 3) -> nn.Module:
    """A small convolutional network for 32×32 images."""
    layers: list[nn.Module] = []
    for before, after in ((channels, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last).eval()


def batch_of(n: int, side: int, smooth: bool, seed: int = 0, channels: int = 3) -> Batch:
    """Random images; maps of scattered pixels, or of blobs."""
    torch.manual_seed(seed)
    model, x = network(channels=channels), torch.rand(n, channels, side, side)
    maps = torch.rand(n, side, side)
    if smooth:
        maps = nn.functional.avg_pool2d(maps[:, None], 7, 1, 3, count_include_pad=False)[:, 0]
    with torch.inference_mode():
        clean = model(x).clone()
    return Batch(model, x, clean.argmax(1), maps, clean, Draws.of(0, n), torch.full((channels,), 0.5))


def shown_images(calls: list[Call], batch: Batch) -> list[Tensor]:
    """The images of all passes, in the groups in which `evaluate` shows them."""
    ready, shape = batch, tuple(batch.x.shape[1:])
    changes: dict = {}
    for call in calls:
        entry = metrics[call.name]
        changes |= dict.fromkeys(entry.facts["asks"](shape, **entry.bind(**dict(call.options))))
    fresh = [change for change in changes if type(change).__name__ != "Unchanged"]
    groups = spans(len(fresh), max(1, ROWS // len(batch.x)))
    return [torch.cat([change.images(ready) for change in fresh[some]]) for some in groups]


def seconds(function: Callable[[], object]) -> float:
    """Seconds of this process's own time: with one thread that is the time it takes on an idle machine."""
    start = time.process_time()
    function()
    return time.process_time() - start


def row(names: tuple[str, ...], smooth: bool, n: int, rounds: int) -> None:
    batch, calls = batch_of(n, 32, smooth), [parse(name) for name in names]
    images = shown_images(calls, batch)

    def bare() -> None:
        with torch.inference_mode():
            for group in images:
                batch.model(group)

    bare()
    pairs = [(seconds(lambda: evaluate(calls, batch)), seconds(bare)) for _ in range(rounds)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    target = TARGETS[names]
    verdict = "ok" if ratio <= target else "MISSED"
    each = statistics.median(theirs for _, theirs in pairs) / sum(map(len, images)) * 1e6
    print(
        f"{' + '.join(names):74s} {'blobs' if smooth else 'scattered':9s} {ratio:5.2f}x  target {target:.2f}x  "
        f"{verdict:6s} ({sum(map(len, images))} images, bare {each:.0f} µs each)"
    )


def other_packages(n: int) -> None:
    """Deletion and ROAD by Quantus, ROAD by grad-cam, where they are installed."""
    for package, peers in PEERS.items():
        if importlib.util.find_spec(package) is None:
            print(f"{package}: skipped, it is not installed")
            continue
        for peer in peers:
            peer(n)


def quantus_flipping(n: int) -> None:
    import quantus

    batch = batch_of(n, 32, smooth=False)
    flipping = quantus.PixelFlipping(features_in_step=8, perturb_baseline="mean", disable_warnings=True)
    maps = batch.maps[:, None].numpy()
    theirs = seconds(
        lambda: flipping(model=batch.model, x_batch=batch.x.numpy(), y_batch=batch.target.numpy(), a_batch=maps)
    )
    ours = seconds(lambda: evaluate([parse("deletion(steps=128)")], batch))
    print(f"Quantus PixelFlipping, 128 steps, takes {theirs / ours:.1f} times as long as deletion")


def quantus_road(n: int) -> None:
    """On grey images: its imputation takes one channel."""
    import quantus

    batch = batch_of(n, 32, smooth=False, channels=1)
    road = quantus.ROAD(percentages=list(range(10, 100, 10)), disable_warnings=True)
    theirs = seconds(
        lambda: road(
            model=batch.model,
            x_batch=batch.x.numpy(),
            y_batch=batch.target.numpy(),
            a_batch=batch.maps[:, None].numpy(),
        )
    )
    fractions = ", ".join(f"{i / 10:g}" for i in range(1, 10))
    ours = seconds(lambda: evaluate([parse(f"road(fractions=[{fractions}])")], batch))
    print(f"Quantus ROAD, grey, 9 shares, takes {theirs / ours:.1f} times as long as road")


def gradcam_road(n: int) -> None:
    from pytorch_grad_cam.metrics.road import ROADMostRelevantFirstAverage
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputSoftmaxTarget

    batch = batch_of(n, 32, smooth=False)
    road = ROADMostRelevantFirstAverage(percentiles=list(range(10, 100, 10)))
    targets = [ClassifierOutputSoftmaxTarget(int(t)) for t in batch.target]
    theirs = seconds(lambda: road(batch.x, np.asarray(batch.maps), targets, batch.model))
    ours = seconds(lambda: evaluate([parse("road_morf:gradcam")], batch))
    print(f"grad-cam ROAD takes {theirs / ours:.1f} times as long as road_morf:gradcam")


PEERS = {"quantus": (quantus_flipping, quantus_road), "pytorch_grad_cam": (gradcam_road,)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    warm_up()
    for names in TARGETS:
        for smooth in (False, True):
            row(names, smooth, n=16 if quick else 64, rounds=2 if quick else 5)
    other_packages(8 if quick else 16)


if __name__ == "__main__":
    main()
