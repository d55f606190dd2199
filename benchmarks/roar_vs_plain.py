"""The same ROAR grid twice in one run: uproar, and the script one would write by hand.

    python benchmarks/roar_vs_plain.py [--seeds 3] [--epochs 12]

Ten estimators, five fractions, the same network, epochs, batch size, optimiser and schedule. The plain script uses Captum for the
maps, a DataLoader, argsort, and a loop over estimators and fractions, with torch's default threads; uproar uses two processes.
Wall time includes everything: imports and start of the worker processes, base training, explaining, retraining, evaluation.
One replicate alone is half start-up: the default is the demonstration's three. Target: at least 4 times as fast at equal accuracies within seed noise.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

import numpy as np

FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
ESTIMATORS = (
    "random",
    "block_random",
    "sobel",
    "grad",
    "guided_backprop",
    "ig",
    "sq(grad)",
    "sg(grad)",
    "sg_sq(grad)",
    "var(grad)",
)
TARGET = 4.0

OURS = """
import sys, uproar
seeds, epochs, store, methods = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4].split(";")
study = uproar.Study(
    estimators=methods, random_rankings=1, seeds=seeds, metrics=("roar",), recipe=uproar.Recipe(epochs=epochs)
)
table = uproar.run(study, store=store, jobs=2).cells
for row in table[table.fraction > 0].itertuples():
    print(row.estimator, row.fraction, row.seed, row.accuracy, sep="|")
"""

PLAIN = """
import sys
import numpy as np
import scipy.ndimage
import torch
import torch.nn.functional as F
from captum.attr import GuidedBackprop, IntegratedGradients, NoiseTunnel, Saliency
from torch.utils.data import DataLoader, TensorDataset
import uproar  # only for the same images and the same network

seeds, epochs = int(sys.argv[1]), int(sys.argv[2])
FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
task = uproar.load("digits")
train_x, train_y = task.train.images, task.train.labels
test_x, test_y = task.test.images, task.test.labels
mean = train_x.mean()

def train(x, y, seed):
    torch.manual_seed(seed)
    model = uproar.build("cnn-small", task, seed)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    total = epochs * len(loader)
    rate = lambda s: min((s / total) / 0.2, (1 - s / total) / 0.8)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    model.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            scheduler.step()
    return model.eval()

def accuracy(model, x, y):
    correct = 0
    with torch.no_grad():
        for images, labels in DataLoader(TensorDataset(x, y), batch_size=64):
            correct += int((model(images).argmax(1) == labels).sum())
    return correct / len(y)

def block(h, w):
    cy, cx = np.random.rand(2) * (h, w)
    wide = np.exp(np.random.uniform(-1, 1) * np.log(2) / 2)
    y, x = np.mgrid[:h, :w] + 0.5
    return -np.maximum(abs(y - cy) * wide, abs(x - cx) / wide)

def explain(model, x, name):
    saliency, maps = Saliency(model), []
    tunnel = NoiseTunnel(saliency)
    kinds = {"sg(grad)": "smoothgrad", "sg_sq(grad)": "smoothgrad_sq", "var(grad)": "vargrad"}
    for (images,) in DataLoader(TensorDataset(x), batch_size=64):
        target = model(images).argmax(1)
        images = images.requires_grad_()
        if name == "random":
            a = torch.rand_like(images)
        elif name == "block_random":
            a = torch.stack([torch.from_numpy(block(8, 8))[None] for _ in images])
        elif name == "sobel":
            grey = images.detach().mean(1).numpy()
            a = torch.stack([torch.from_numpy(np.hypot(scipy.ndimage.sobel(g, 0), scipy.ndimage.sobel(g, 1)))[None] for g in grey])
        elif name in ("grad", "sq(grad)"):
            a = saliency.attribute(images, target=target, abs=False)
            a = a ** 2 if name == "sq(grad)" else a
        elif name == "guided_backprop":
            a = GuidedBackprop(model).attribute(images, target=target)
        elif name == "ig":
            a = IntegratedGradients(model).attribute(images, target=target, n_steps=25, method="riemann_middle")
        else:
            a = tunnel.attribute(images, nt_type=kinds[name], nt_samples=15, stdevs=0.15, target=target, abs=False)
        maps.append(a.detach().sum(1))
    return torch.cat(maps)

def remove(x, maps, fraction):
    order = np.argsort(-maps.flatten(1).numpy(), axis=1)
    k = round(fraction * order.shape[1])
    x = x.flatten(1).clone()
    for i, row in enumerate(order):
        x[i, row[:k]] = mean
    return x.view(-1, 1, 8, 8)

import warnings
warnings.filterwarnings("ignore")
for seed in range(seeds):
    base = train(train_x, train_y, seed)
    for name in sys.argv[3].split(";"):
        train_maps, test_maps = explain(base, train_x, name), explain(base, test_x, name)
        for fraction in FRACTIONS:
            model = train(remove(train_x, train_maps, fraction), train_y, seed)
            print(name, fraction, seed, accuracy(model, remove(test_x, test_maps, fraction), test_y), sep="|")
"""


def timed(code: str, *arguments: str) -> tuple[float, dict[tuple[str, float], list[float]]]:
    began = time.perf_counter()
    process = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(process.stderr)
    table: dict[tuple[str, float], list[float]] = {}
    for line in process.stdout.splitlines():
        name, fraction, _, accuracy = line.split("|")
        table.setdefault((name, float(fraction)), []).append(float(accuracy))
    return seconds, table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    common = (str(options.seeds), str(options.epochs))
    plain, ours = [], []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            seconds, a = timed(OURS, *common, folder, ";".join(ESTIMATORS))
            ours.append(seconds)
        seconds, b = timed(PLAIN, *common, ";".join(ESTIMATORS))
        plain.append(seconds)
        print(f"uproar {ours[-1]:.1f} s, plain script {plain[-1]:.1f} s", flush=True)
    print(f"\n{'estimator':16} mean accuracy over the fractions: uproar, plain")
    gaps = []
    for name in ESTIMATORS:
        x, y = (np.mean([v for t in FRACTIONS for v in table[name, t]]) for table in (a, b))
        gaps.append(x - y)
        print(f"{name:16} {x:.3f} {y:.3f}")
    ratio = min(plain) / min(ours)
    print(f"largest difference {max(map(abs, gaps)):.3f}")
    print(f"ratio {ratio:.1f}× (target {TARGET:g}×): {'reached' if ratio >= TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
