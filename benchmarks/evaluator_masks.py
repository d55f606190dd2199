"""Is an evaluator fair to estimators whose masks it has never seen, and how much do evaluators differ?

    python benchmarks/evaluator_masks.py [--task digits] [--explained cnn-small] [--models resnet-half,vgg-small] [--seeds 3] [--fixed]

Evaluators trained with the fixed families of masks, and with the masks of all estimators judged here (of other images), judge the same maps of
one base network (`--explained`). Kendall's τ between their orders of the estimators: over seeds, over architectures, and between the two kinds of masks. Where
the last is as high as the first, nothing is gained by showing an evaluator the masks that it will judge (`--fixed` leaves those out). A study has one
evaluator per replicate and judges by their mean: the last lines are τ between the means of several evaluators of each architecture, and between
means of evaluators of all architectures, as a study with `evaluator_models` has them. The first lines say where the maps point on the grid that the
first stride of a network leaves: shares of the first tenth of the pixels in even and odd rows and columns, .25 each where the network has no say in it.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np
import torch
from scipy.stats import kendalltau

import uproar
from uproar.data import load
from uproar.models import ModelSpec, build
from uproar.models.copies import folded
from uproar.protocols.evaluator import (
    MaskedImages,
    build_evaluator,
    evaluator_epochs,
    evaluator_scores,
    fit_evaluators,
    mask_pool,
)
from uproar.protocols.mask_assignment import moved_to, random_places
from uproar.protocols.protocol import beside_mask
from uproar.removal import ranks
from uproar.removal.order import removed_at
from uproar.seeds import Draws
from uproar.training import Recipe, channels_last, fit, predict
from uproar.training.stack import stackable

ESTIMATORS = (
    "random",
    "block_random",
    "sobel",
    "brightness",
    "centre",
    "grad",
    "guided_backprop",
    "ig",
    "sq(grad)",
    "sq(ig)",
    "sg(grad)",
    "sg_sq(grad)",
    "var(grad)",
    "grad_cam",
    "grad_input",
    "sg(ig)",
)
FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
POOL = 512


def places(model, split, rows, name, mean):
    """The ranking of the pixels of some images under an estimator."""
    x = split.read(rows)
    maps = uproar.explain(model, x, name, target=predict(model, x).argmax(1), seed=0, index=rows, mean=mean)
    return ranks(maps.flatten(1), Draws.of(0, rows, split.name)).view(len(rows), *split.shape[1:])


def trained(task, spec, pool, recipe, seed):
    """An evaluator whose masks come from a pool of rankings; removed pixels have the mean colour."""
    colour = task.mean.view(1, -1, 1, 1)
    times = evaluator_epochs(recipe, len(task.train))
    images = MaskedImages(
        task.train, pool, times, seed, lambda x, gone, _: beside_mask(torch.where(gone[:, None], colour, x), gone)
    )
    network = build_evaluator(spec, task, 1, seed)
    labels = task.train.labels
    shown = images[:] if stackable(network.body, task.shape) else images
    fit_evaluators([network], [shown], [torch.stack([labels, labels], 1).repeat(times, 1)], recipe, [seed])
    return channels_last(folded(network))


def score(network, task, order):
    """Bits, own masks against the same masks moved, both directions."""
    test, colour = task.test, task.mean.view(1, -1, 1, 1)
    x, total = test.read(slice(None)), 0.0
    for fraction in FRACTIONS:
        own = removed_at(order.flatten(1), fraction, order.shape[1:])
        for keeps, mask, sign in itertools.product((False, True), (own, moved_to(own, random_places(test, 0))), (1,)):
            gone = ~mask if keeps else mask
            shown = beside_mask(torch.where(gone[:, None], colour, x), gone)
            logs = torch.cat([evaluator_scores(network, part)[:, :, 0] for part in shown.split(512)]).log_softmax(1)
            bits = -float(logs.gather(1, test.labels[:, None]).mean()) / math.log(2)
            total += sign * bits * (1 if (mask is own) != keeps else -1)
    return total / 2 / len(FRACTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--explained", default="cnn-small")
    parser.add_argument("--models", default="resnet-half,vgg-small", help="architectures of the evaluators")
    parser.add_argument("--epochs", type=int, default=Recipe().epochs)
    parser.add_argument("--estimators", default=";".join(ESTIMATORS), help="separated by ;")
    parser.add_argument("--fixed", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    task, recipe, models = load(given.task), Recipe(epochs=given.epochs), given.models.split(",")
    base = build(ModelSpec.of(given.explained), task, 0)
    fit(base, task.train.read(slice(None)), task.train.labels, recipe, 0)
    orders = {
        name: places(base, task.test, torch.arange(len(task.test)), name, task.mean)
        for name in given.estimators.split(";")
    }
    for name, order in orders.items():
        print(f"{name}: {grid_shares(order)}", flush=True)
    rows = torch.arange(min(POOL, len(task.train)))
    judged = None if given.fixed else torch.cat([places(base, task.train, rows, name, task.mean) for name in orders])
    result = {}
    for seed in range(given.seeds):
        fixed = mask_pool(task, task.shape[1:], seed)
        runs = {("fixed", m): (ModelSpec.of(m), fixed) for m in models}
        runs |= {} if judged is None else {("judged", models[0]): (ModelSpec.of(models[0]), judged)}
        for kind, (spec, pool) in runs.items():
            network = trained(task, spec, pool, recipe, seed)
            result[*kind, seed] = [score(network, task, order) for order in orders.values()]
            print(
                *kind,
                seed,
                " ".join(f"{name} {value:+.3f}" for name, value in zip(orders, result[*kind, seed], strict=True)),
                flush=True,
            )
    for what, values in agreements(result).items():
        print(f"τ between {what}: mean {sum(values) / len(values):.2f}, least {min(values):.2f}, {len(values)} pairs")


def grid_shares(order: torch.Tensor) -> str:
    """Shares of the first tenth of the pixels: rows even or odd, columns even or odd."""
    first = removed_at(order.flatten(1), 0.1, order.shape[1:]).double().mean(0)
    shares = {
        f"{('even', 'odd')[i]} {('even', 'odd')[j]}": first[i::2, j::2].sum() / first.sum()
        for i in (0, 1)
        for j in (0, 1)
    }
    return ", ".join(f"{place} {share:.2f}" for place, share in shares.items())


def agreements(result: dict[tuple[str, str, int], list[float]]) -> dict[str, list[float]]:
    """Kendall's τ between the orders by single evaluators, and by means of several, by what they differ in."""
    groups: dict[str, list[float]] = {}
    for one, other in itertools.combinations(result, 2):
        if one[:2] == other[:2]:
            what = f"seeds, {' '.join(one[:2])}"
        elif one[0] == other[0]:
            what = f"architectures, {' and '.join(sorted((one[1], other[1])))}"
        elif one[1] == other[1]:
            what = "masks"
        else:
            continue
        groups.setdefault(what, []).append(kendalltau(result[one], result[other])[0])
    by_model: dict[str, list[list[float]]] = {}
    for (masks, model, _), values in result.items():
        if masks == "fixed":
            by_model.setdefault(model, []).append(values)
    for one, other in itertools.combinations(sorted(by_model), 2):
        for size in range(2, len(by_model[one]) + 1):
            sets = (itertools.combinations(by_model[model], size) for model in (one, other))
            taus = [kendalltau(np.mean(a, 0), np.mean(b, 0))[0] for a, b in itertools.product(*sets)]
            groups[f"architectures, {one} and {other}, means of {size} evaluators"] = taus
    return groups | _mixed_agreements(list(by_model.values()))


def _mixed_agreements(by_model: list[list[list[float]]]) -> dict[str, list[float]]:
    """The same between disjoint sets of evaluators of all architectures, as many of each."""
    groups = {}
    mixed = [np.mean(values, 0) for values in zip(*by_model, strict=True)]  # one of each architecture
    for size in range(1, len(mixed) // 2 + 1) if len(by_model) > 1 else ():
        sets = list(itertools.combinations(range(len(mixed)), size))
        disjoint = [(a, b) for a, b in itertools.combinations(sets, 2) if not set(a) & set(b)]
        means = {chosen: np.mean([mixed[i] for i in chosen], 0) for chosen in sets}
        what = f"disjoint sets of {size} evaluator{'s' * (size > 1)} of each architecture"
        groups[what] = [kendalltau(means[a], means[b])[0] for a, b in disjoint]
    return groups


if __name__ == "__main__":
    main()
