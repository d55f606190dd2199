"""Evaluators where the important pixels are known: losses as they are, cut at the entropy, and calibrated; controls; leaks.

    python benchmarks/evaluator_calibration.py [--tasks "quadrant;relation;planted-fixed"] [--seeds 2] [--epochs 16]

Four scenes that are in no suite, and tasks of the package, each with a network (`cnn-small`) whose answers are explained by eight methods. For every task
and seed one line for each treatment of the losses: the worst mean loss under a method's own masks above the entropy; Kendall's τ of the eight methods with
the area under the ROC curve of the known pixels, and of six degraded truths with their noise, each with the same mask moved as the control and with random
masks; and the rankings whose masks leak the class: named on images of other classes more often than by chance.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from scipy.stats import kendalltau
from torch import Tensor

from uproar.data import Split, Task, load
from uproar.estimators import Context, explain_chains, read_chain
from uproar.metrics.evaluator import (
    MaskedImages,
    build_evaluator,
    calibrate,
    default_architecture,
    evaluator_epochs,
    evaluator_scores,
    fit_evaluators,
    leak,
    mask_pool,
    other_class_donors,
)
from uproar.metrics.mask_assignment import half_of, moved_to, random_places
from uproar.metrics.retraining import beside_mask
from uproar.models import ModelSpec, build
from uproar.models.copies import folded
from uproar.removal import ranks
from uproar.removal.order import removed_at
from uproar.seeds import Draws, generator
from uproar.statistics.correlation import area_under_roc
from uproar.training import Recipe, channels_last, fit, predict

FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5)
METHODS = ("abs(grad)", "grad_input", "ig", "abs(ig)", "sg_sq(grad)", "guided_backprop", "grad_cam", "occlusion")
TRUTHS = ("oracle", *(f"degraded(level={level:g})" for level in (0.2, 0.4, 0.6, 0.8, 1.0)))
OTHERS = ("random", "label_cue(share=0.5)")
TASKS = "quadrant;relation;gabor;planted-fixed;planted-place;backdoor(digits)"
SURE = 0.1
"""Share of images above chance from which a line names a leak of one evaluator, which has no test."""


def _noise(count: int, side: int, draw: torch.Generator) -> Tensor:
    return 0.45 + 0.1 * torch.rand(count, 1, side, side, generator=draw)


def quadrant(count: int, draw: torch.Generator, side: int = 24) -> tuple[Tensor, Tensor, Tensor]:
    """A grating in one of four quadrants, which tells the class."""
    x, labels = _noise(count, side, draw), torch.arange(count) % 4
    truth, half = torch.zeros(count, side, side, dtype=torch.bool), side // 2
    wave = 0.3 * torch.sin(torch.arange(half) * math.pi / 2 + 0.7)
    for i, k in enumerate(labels.tolist()):
        r, c = k // 2 * half, k % 2 * half
        x[i, 0, r : r + half, c : c + half] += wave[None]
        truth[i, r : r + half, c : c + half] = True
    return x, labels, truth


def relation(count: int, draw: torch.Generator, side: int = 24) -> tuple[Tensor, Tensor, Tensor]:
    """A cross and a ring; the class is which is further left."""
    x, labels = _noise(count, side, draw), torch.arange(count) % 2
    cross, ring = torch.zeros(7, 7, dtype=torch.bool), torch.ones(7, 7, dtype=torch.bool)
    cross[3], cross[:, 3], ring[2:5, 2:5] = True, True, False
    truth, half = torch.zeros(count, side, side, dtype=torch.bool), side // 2
    places = (torch.rand(count, 4, generator=draw) * torch.tensor([side - 6, half - 6, side - 6, half - 6])).long()
    for i, (k, p) in enumerate(zip(labels.tolist(), places.tolist(), strict=True)):
        first, second = (cross, ring) if k == 0 else (ring, cross)
        truth[i, p[0] : p[0] + 7, p[1] : p[1] + 7] |= first
        truth[i, p[2] : p[2] + 7, half + p[3] : half + p[3] + 7] |= second
    return x + 0.4 * truth[:, None], labels, truth


def parity(count: int, draw: torch.Generator, side: int = 24) -> tuple[Tensor, Tensor, Tensor]:
    """Two far dots, bright or dark; the class is whether they differ."""
    x, labels = _noise(count, side, draw), torch.arange(count) % 2
    truth, first = torch.zeros(count, side, side, dtype=torch.bool), torch.rand(count, generator=draw) < 0.5
    for i, (k, bright) in enumerate(zip(labels.tolist(), first.tolist(), strict=True)):
        for column, sign in ((5, bright), (16, bright != bool(k))):
            x[i, 0, 10:14, column : column + 4] += 0.3 if sign else -0.3
            truth[i, 10:14, column : column + 4] = True
    return x, labels, truth


def gabor(count: int, draw: torch.Generator, side: int = 24) -> tuple[Tensor, Tensor, Tensor]:
    """Four Gabor patches on a jittered grid; one may be oblique: the class is whether it leans left or right."""
    x, labels = _noise(count, side, draw), torch.arange(count) % 2
    truth, size = torch.zeros(count, side, side, dtype=torch.bool), 9
    row = torch.arange(size)[:, None] - 4.0
    envelope = torch.exp(-(row.square() + row.T.square()) / 12)
    patches = {
        a: 0.45 * envelope * torch.cos(2.2 * (row.T * math.cos(a) + row * math.sin(a))) for a in (0.0, 0.8, -0.8)
    }
    odd = torch.randint(4, (count,), generator=draw).tolist()
    jitter = torch.randint(0, 4, (count, 4, 2), generator=draw).tolist()
    for i, k in enumerate(labels.tolist()):
        for place, (dr, dc) in enumerate(jitter[i]):
            r, c = place // 2 * 12 + dr, place % 2 * 12 + dc
            angle = (0.8 if k else -0.8) if place == odd[i] else 0.0
            x[i, 0, r : r + size, c : c + size] += patches[angle]
            if place == odd[i]:
                truth[i, r : r + size, c : c + size] = True
    return x, labels, truth


SCENES = {paint.__name__: paint for paint in (quadrant, relation, parity, gabor)}


def task_named(name: str) -> Task:
    """A scene, or a task of the package."""
    if name not in SCENES:
        return load(name)
    splits = []
    for split, count in (("train", 1600), ("test", 400)):
        x, labels, truth = SCENES[name](count, generator("scene", name, split))
        splits.append(Split(split, x.clamp(0, 1), labels, truth))
    return Task(name, splits[0], splits[1], tuple(map(str, splits[0].labels.unique().tolist())))


def shown(task: Task, x: Tensor, removed: Tensor) -> Tensor:
    """Images whose removed pixels have the mean colour, beside the mask."""
    return beside_mask(torch.where(removed[:, None], task.mean.view(1, -1, 1, 1), x), removed)


def trained_evaluator(task: Task, answers: Tensor, recipe: Recipe, seed: int) -> torch.nn.Module:
    """An evaluator of the network's class alone."""
    network = build_evaluator(ModelSpec.of(default_architecture("cnn-small", task.shape)), task, 1, seed, targets=1)
    times, pool = evaluator_epochs(recipe, len(task.train)), mask_pool(task, task.shape[1:], seed)
    images = MaskedImages(task.train, pool, times, seed, lambda x, removed, _: shown(task, x, removed))
    held = torch.cat([images[part] for part in torch.arange(len(images)).split(1024)])
    fit_evaluators([network], [held], [answers[:, None].repeat(times, 1)], recipe, [seed])
    return channels_last(folded(network))


def measure(name: str, seed: int, recipe: Recipe) -> None:
    """Print the lines of one task and seed."""
    task = task_named(name)
    base, x_train, x = (
        build(ModelSpec.of("cnn-small"), task, seed),
        task.train.read(slice(None)),
        task.test.read(slice(None)),
    )
    fit(base, x_train, task.train.labels, recipe, seed)
    classes = predict(base, x).argmax(1)
    accuracy = float((classes == task.test.labels).double().mean())
    evaluator = trained_evaluator(task, predict(base, x_train).argmax(1), recipe, seed)
    truth, names, draws = task.test.truth(slice(None)), (*METHODS, *TRUTHS, *OTHERS), Draws.of(seed, len(x), "test")
    context = Context(draws, task.mean, task.train, truth=truth)
    maps = explain_chains(base, x, classes, context, [read_chain(n) for n in names], 128)
    orders = [ranks(one.flatten(1), draws) for one in maps]
    areas = [float(np.nanmean(area_under_roc(-one.numpy(), truth.flatten(1).numpy()))) for one in orders]
    donors, places, half = other_class_donors(classes, seed), random_places(task.test, seed), half_of(task.test, seed)

    def answers(removed: Tensor) -> Tensor:
        return torch.cat([evaluator_scores(evaluator, part)[..., 0] for part in shown(task, x, removed).split(256)])

    scores, leaks = [], {}
    for chain, order in zip(names, orders, strict=True):
        own = [removed_at(order, t, task.shape[1:]) for t in FRACTIONS]
        masks = [[m, ~m, moved_to(m, places), ~moved_to(m, places)] for m in own]
        scores.append(torch.stack([torch.stack([answers(m) for m in four]) for four in masks]))
        named = torch.stack([answers(m[donors]).argmax(1) for mask in own for m in (mask, ~mask)])
        leaks[chain] = float(leak(named, classes[donors]).mean(1).max())
    every, entropy = torch.stack(scores), entropy_of(classes)
    raw = -every.log_softmax(-1).gather(-1, classes[:, None].expand(*every.shape[:-1], 1))[..., 0] / math.log(2)
    leaking = [chain for chain, above in leaks.items() if above > SURE]
    print(
        f"{name}, seed {seed}: network {accuracy:.2f}, entropy {entropy:.2f} bits, leaking: {', '.join(leaking) or 'none'}"
    )
    treated = {"as it is": raw, "cut": raw.clamp_max(entropy), "calibrated": calibrate(every, classes, half)}
    for title, bits in treated.items():
        mean = bits.mean(-1)  # method, fraction, (own, kept, moved, moved and kept)
        moved = (mean[..., 0] - mean[..., 2] + mean[..., 3] - mean[..., 1]).mean(1) / 2
        random = mean[names.index("random")]
        common = (mean[..., 0] - random[..., 0] + random[..., 1] - mean[..., 1]).mean(1) / 2
        worst = float((mean[..., :2] - entropy).max())
        print(f"  {title:10s} worst loss above the entropy {worst:+.2f}; " + "; ".join(
            f"{control}: methods {tau(score[:8], areas[:8]):.2f}, truths {tau(score[8:14], range(6, 0, -1)):.2f}"
            for control, score in (("moved masks", moved), ("random masks", common))
        ), flush=True)  # fmt: skip


def entropy_of(classes: Tensor) -> float:
    """Bits."""
    shares = torch.bincount(classes).double() / len(classes)
    return -float(torch.special.xlogy(shares, shares).sum()) / math.log(2)


def tau(scores, known) -> float:
    return float(kendalltau(scores, list(known))[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=TASKS, help="separated by ;")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=16)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.tasks.split(";"):
        for seed in range(given.seeds):
            measure(name, seed, Recipe(epochs=given.epochs))


if __name__ == "__main__":
    main()
