"""Peak memory of explaining and ranking few and many photographs: it must not grow with the data set.

    python benchmarks/memory.py                 # 2,000 and 20,000 images of 224×224
    python benchmarks/memory.py --sizes 500 2000

Each size runs in a process of its own. The images are made when they are read, explained by gradients of a small network,
ranked, kept as levels in a store, and some are read back as a metric changes them. Printed: the process's peak resident
memory, what it had before the first image, and the rates per second of processor time, which other work on
the machine slows less than the clock's.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from uproar.data import Source, Split, Task, load, tasks
from uproar.estimators import read_chain
from uproar.metrics.retraining import Masks
from uproar.models import ModelSpec, build
from uproar.store import Store
from uproar.study.graph import obtain, stored
from uproar.study.grid import settings_of
from uproar.study.inputs import Removal
from uproar.study.spec import study_of
from uproar.study.steps import Changes

SIZE, CLASSES, TEST = 224, 4, 200
FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
MODEL = "cnn-small(width=4)"
LIMIT = 0.10
"""How much more memory ten times as many images may take."""


class Made(Source):
    """Images made from their row numbers: soft blobs with noise."""

    def __init__(self, n: int, split: str) -> None:
        self.n, self.split = n, split

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.n, 3, SIZE, SIZE

    def read(self, rows: torch.Tensor) -> torch.Tensor:
        pixels = np.empty((len(rows), 3, SIZE, SIZE), np.uint8)
        for place, row in enumerate(rows.tolist()):
            draw = np.random.default_rng([row, len(self.split)])
            blobs = draw.integers(0, 192, (3, 14, 14), dtype=np.uint8)
            noise = draw.integers(0, 64, (3, SIZE, SIZE), dtype=np.uint8)
            pixels[place] = blobs.repeat(16, 1).repeat(16, 2) + noise
        return torch.from_numpy(pixels)

    def digest(self) -> str:
        return f"made {self.n} {self.split}"


def declare(n: int) -> None:
    def made() -> Task:
        """Images made when they are read."""
        splits = [
            Split(name, Made(count, name), torch.arange(count) % CLASSES)
            for name, count in (("train", n), ("test", TEST))
        ]
        return Task("made", *splits, classes=tuple("abcd"))

    tasks.declare()(made)


def peak() -> float:
    """The most memory this process has had so far, in megabytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 if sys.platform != "darwin" else 1024**2)


def one_size(n: int, estimator: str) -> dict[str, float]:
    torch.set_num_threads(1)
    declare(n)
    with tempfile.TemporaryDirectory() as folder:
        study = study_of(
            {
                "tasks": "made",
                "models": MODEL,
                "estimators": [estimator],
                "fractions": FRACTIONS,
                "evaluator_fractions": FRACTIONS,
                "weights": saved_weights(folder),
            }
        )
        (setting,), store, (chain, *_) = settings_of(study), Store(f"{folder}/store"), [read_chain(estimator)]
        obtain(setting.base_model(0), store)
        before, began = peak(), time.process_time()
        for split in ("train", "test"):
            for part in setting.ranking(chain, 0, split):
                obtain(part, store)
        seconds = time.process_time() - began
        rows = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:256]
        began = time.process_time()
        changes = Changes(setting.data, Removal("roar"), setting.fill, "pixel", 0.5, 0)
        parts = tuple(stored(part, store) for part in setting.ranking(chain, 0, "train"))
        changes.images(Masks(), parts, setting.data.task.train)[rows]
        reading = time.process_time() - began
        files = list(Path(folder, "store", "ranking").rglob("*.safetensors"))
        return {
            "images": n,
            "peak": peak(),
            "before": before,
            "rate": (n + TEST) / seconds,
            "read": 1e3 * reading / len(rows),
            "files": len(files),
            "stored": sum(p.stat().st_size for p in files) / 1e6,
        }


def saved_weights(folder: str) -> str:
    """A file of the network's weights."""
    from safetensors.torch import save_file

    file, model = f"{folder}/weights.safetensors", build(ModelSpec.of(MODEL), load("made"), 0)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, file)
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[2000, 20000])
    parser.add_argument("--estimator", default="grad")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one_size(given.one, given.estimator)))
        return
    print("  images   peak MB   before MB   explained and ranked/s   read back ms   files   stored MB")
    peaks = []
    for size in given.sizes:
        command = [sys.executable, __file__, "--one", str(size), "--estimator", given.estimator]
        content = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        peaks.append(content["peak"])
        print(
            f"{size:8,} {content['peak']:9.0f} {content['before']:11.0f} {content['rate']:24.1f}"
            f" {content['read']:14.2f} {content['files']:7} {content['stored']:11.1f}",
            flush=True,
        )
    growth = peaks[-1] / peaks[0] - 1
    print(f"growth of the peak: {growth:+.1%} (allowed {LIMIT:.0%})")
    sys.exit(growth >= LIMIT)


if __name__ == "__main__":
    main()
