"""The numbers that a restructuring must leave alone: maps, masks, accuracies, values of single images.

    python tools/reference_numbers.py write before.npz
    python tools/reference_numbers.py compare before.npz after.npz [--tolerance 1e-6]

Every option is said, so that a changed default changes nothing here. The networks of `maps/` and `score/` are made and
trained in this file, so that a changed training shows under `training/`, `study/` and `planted/` alone. No p values,
intervals or verdicts: those are statistics of these numbers. Half a minute on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Numbers = dict[str, np.ndarray]

GRADIENTS = {
    "grad": "grad",
    "sq(grad)": "sq(grad)",
    "sg(grad)": "sg(grad, samples=15, sigma=0.15, unit=range)",
    "sg_sq(grad)": "sg_sq(grad, samples=15, sigma=0.15, unit=range)",
    "var(grad)": "var(grad, samples=15, sigma=0.15, unit=range)",
    "ig": "ig(steps=25, rule=midpoint, baseline=black, inner=signed)",
    "guided_backprop": "guided_backprop",
}
CONTROLS = {
    "random": "random(draw=0)",
    "block_random": "block_random(aspect=2.0)",
    "sobel": "sobel(axis=both)",
    "brightness": "brightness",
    "centre": "centre",
}
LAST_LAYER = "layer=features.3"
CONVOLUTIONAL = {
    **GRADIENTS,
    **CONTROLS,
    "sobel one axis": "sobel(axis=y)",
    "constant": "constant",
    "random_blurred": "random_blurred(sigma=2.0)",
    "label_cue": "label_cue(share=0.05)",
    "oracle": "oracle",
    **{f"degraded {kind}": f"degraded(kind={kind}, level=0.5)" for kind in ("noise", "missing", "shift", "encoder")},
    "sg(ig)": "sg(ig(steps=5, rule=midpoint, baseline=black, inner=signed), samples=3, sigma=0.15, unit=range)",
    "sg absolute": "sg(grad, samples=3, sigma=0.2, unit=absolute)",
    "abs(grad)": "abs(grad)",
    "neg(grad)": "neg(grad)",
    "relu(grad)": "relu(grad)",
    "gaussian": "gaussian(grad, sigma=1.0)",
    "max": "max(grad, size=3)",
    "coarse": "coarse(grad, size=5)",
    "rect": "rect(grad, share=0.25)",
    "pooling": "pooling(grad, bands=7)",
    "remove_values": "remove_values(grad, scheme=constant, amount=0.6, clip=true)",
    "introduce_values": "introduce_values(grad, scheme=constant, amount=0.6, clip=true)",
    "grad_input": "grad_input",
    "deconv": "deconv",
    "ig left": "ig(steps=10, rule=left, baseline=mean, inner=signed)",
    "blur_ig": "blur_ig(steps=10, sigma=4.0)",
    "guided_ig": "guided_ig(steps=10, fraction=0.25, distance=0.02, baseline=black)",
    "deep_lift": "deep_lift(baseline=black, pooling=rescale)",
    "deep_shap": "deep_shap(samples=5, pooling=rescale)",
    "grad_shap": "grad_shap(samples=5, sigma=0.1)",
    "lrp epsilon-plus": "lrp(composite=epsilon-plus, epsilon=1e-06)",
    "fullgrad": "fullgrad(scale=layer)",
    "xrai": "xrai(steps=5, least=none)",
    "guided_grad_cam": f"guided_grad_cam({LAST_LAYER})",
    "grad_cam": f"grad_cam({LAST_LAYER}, relu=true, variant=sum)",
    **{
        name: f"{name}({LAST_LAYER}, relu=true)"
        for name in ("grad_cam_pp", "hires_cam", "layer_cam", "xgrad_cam", "eigen_cam", "ablation_cam", "score_cam")
    },
    "occlusion": "occlusion(window=4, stride=2, fill=mean, score=probability, overlap=mean)",
    "rise": "rise(masks=64, grid=4, p=0.5, boundary=clamp, fill=mean)",
    "lime": "lime(patches=4, samples=64, width=0.25, ridge=1.0, fill=mean, score=probability)",
    "kernel_shap": "kernel_shap(patches=4, samples=64, fill=mean, score=logit)",
    "sise": "sise(fusion=otsu, fill=mean)",
    "ada_sise": "ada_sise(fusion=otsu, fill=mean)",
    "extremal_perturbation": "extremal_perturbation(areas=[0.1, 0.3], iterations=10, rate=0.1, perturbation=blur, "
    "blur=2.0, fill=mean, step=2, sigma=2.0, area_of=image, ties=shared, flip=false)",
    "iba": f"iba({LAST_LAYER}, beta=10.0, steps=5, lr=1.0, samples=4, sigma=1.0, images=64)",
    "input_iba": f"input_iba({LAST_LAYER}, beta=1.0, steps=5, lr=1.0, samples=4, sigma=1.0, feature_beta=20.0, "
    "feature_steps=5, guide=share, epochs=1, pool=16, batch=8, groups=2, noise_mean=2.0, noise_std=5.0, "
    "critic_steps=2, critic_lr=5e-05, clip=0.01, width=4, mean_lr=0.1, spread_lr=0.05, mask_lr=0.003, images=64)",
    "tame": "tame(layers=[features.1, features.3], epochs=1, lr=0.005, batch=16, momentum=0.9, weight_decay=0.0005, "
    "ce=1.5, area=2.0, variation=0.01, images=64)",
}
"""Chains on a convolutional network, by the name that their maps get in the file."""
OF_TOKENS = {
    "grad": "grad",
    "attention_rollout": "attention_rollout(heads=mean)",
    "grad_attention": "grad_attention",
    "legrad": "legrad",
    "lrp": "lrp(composite=epsilon-plus, epsilon=1e-06)",
    "deep_lift": "deep_lift(baseline=black, pooling=rescale)",
}
"""Chains on a vision transformer."""

ROAD = "fractions=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0], fill=linear, by={by}"
LEEMANN = "fractions=[0.1, 0.3, 0.5, 0.7, 0.9], fill=linear, jitter=0.0001, by=accuracy"
CURVE = "steps=32, fill=mean, unit=pixel, window=9, repeats=1"
COHERENCY = "steps=32, fill={fill}, unit=pixel, window=9, repeats=1"
CONFIDENCE = "scale=max, binarise=none"
RATIOS = "ratios=[0.1, 0.3, 0.5, 0.7, 0.9], fill=linear"
PERCENTILES = "percentiles=[10, 30, 50, 70, 90], fill=linear"
FIDELITY = "sizes=[0.1, 0.3], alpha=0.5, beta=0.1, draws=4, by=accuracy, epochs=1, lr=0.0001, batch_size=64"
SQUARES = "samples=16, perturb=squares, side=0.25, sigma=0.2, fill=mean, output=logit"
METRICS = {
    "insertion": f"insertion({CURVE})",
    "deletion": f"deletion({CURVE})",
    "insertion uniform": "insertion(steps=8, fill=uniform, unit=pixel, window=9, repeats=2)",
    "insertion:rise": "insertion:rise(step=16, fill=blur:rise)",
    "deletion:rise": "deletion:rise(step=16, fill=mean)",
    "insertion:coherency": f"insertion:coherency({COHERENCY.format(fill='blur')})",
    "deletion:coherency": f"deletion:coherency({COHERENCY.format(fill='mean')})",
    **{
        f"{name} by {by}": f"{name}({ROAD.format(by=by)})"
        for name in ("road", "road_lerf", "road_gap")
        for by in ("accuracy", "probability")
    },
    "road:leemann": f"road:leemann({LEEMANN})",
    "road_lerf:leemann": f"road_lerf:leemann({LEEMANN})",
    "road:gradcam": f"road:gradcam({PERCENTILES})",
    "road_lerf:gradcam": f"road_lerf:gradcam({PERCENTILES})",
    "road_morf:gradcam": f"road_morf:gradcam({PERCENTILES})",
    "soundness": "soundness(level=0.5, epsilon=0.01, steps=32, fill=linear, by=accuracy)",
    "soundness:soco": "soundness:soco(level=0.5, epsilon=0.01, gate=0.04, fill=linear, by=accuracy)",
    "completeness": f"completeness({RATIOS}, by=accuracy)",
    "completeness:soco": f"completeness:soco({RATIOS})",
    "average_drop": f"average_drop({CONFIDENCE})",
    "average_drop:coherency": "average_drop:coherency(threshold=none, percentile=none)",
    "average_drop:gradcam": "average_drop:gradcam",
    "average_drop:tame": "average_drop:tame(top=0.5)",
    "increase_in_confidence": f"increase_in_confidence({CONFIDENCE})",
    "increase_in_confidence:coherency": "increase_in_confidence:coherency(threshold=none, percentile=none)",
    "increase_in_confidence:gradcam": "increase_in_confidence:gradcam",
    "increase_in_confidence:tame": "increase_in_confidence:tame(top=0.5)",
    "infidelity": f"infidelity({SQUARES})",
    "infidelity:raw": f"infidelity:raw({SQUARES})",
    "pointing_game": "pointing_game(tolerance=1)",
    "pointing_game:coherency": "pointing_game:coherency",
    "pointing_game:torchray": "pointing_game:torchray(tolerance=2)",
    "grid_pointing": "grid_pointing",
    "attr_percent": "attr_percent",
    "iou": "iou(threshold=0.5, sign=relu)",
    "iou:coherency": "iou:coherency",
    "relevance_mass": "relevance_mass(sign=relu)",
    "relevance_rank": "relevance_rank",
    "complexity": "complexity(sign=relu)",
    "sparseness": "sparseness(sign=relu)",
    "total_variation": "total_variation",
    "removed_variation": "removed_variation(fraction=0.3)",
    "value_density": "value_density(bandwidth=0.05)",
    "random_logit": "random_logit(similarity=spearman, sign=abs)",
    "randomisation": "randomisation(order=cascading, similarity=spearman, sign=abs)",
    "sensitivity_max": "sensitivity_max(samples=3, radius=0.02)",
    "ffid_plus": f"ffid_plus({FIDELITY})",
    "ffid_minus": f"ffid_minus({FIDELITY})",
    "idsds": "idsds(grid=4, epochs=1, lr=0.001, batch_size=64)",
}
"""Metrics, by the name that their values get in the file."""
SCORED = {name: CONVOLUTIONAL[name] for name in ("grad", "ig", "random", "oracle", "degraded noise", "constant")}
EXPLAINING, EXPLAINED = ("random_logit", "randomisation", "sensitivity_max"), ("grad", "ig")
"""Metrics that make maps of other images or networks, and the methods that they are asked about."""

FILLS = {
    "zero": "zero",
    "mean": "mean(images=none)",
    "channel_mean": "channel_mean",
    "blur": "blur(size=11, sigma=5.0)",
    "blur:rise": "blur:rise(size=11, sigma=5.0)",
    "uniform": "uniform",
    "resample": "resample",
    "linear": "linear(noise=0.01)",
    "linear without noise": "linear(noise=0.0)",
}

RECIPE = {
    "epochs": 4,
    "batch": 64,
    "lr": 0.1,
    "momentum": 0.9,
    "nesterov": True,
    "weight_decay": 5e-4,
    "schedule": "one-cycle",
    "warmup": 0.2,
    "label_smoothing": 0.0,
    "augment": (),
    "optimizer": "sgd",
    "precision": "full",
    "init": "random",
}
STUDY: dict[str, Any] = {
    "models": ["cnn-small(width=16)"],
    "evaluator_models": ["cnn-small(width=16)"],
    "evaluator_images": 100,
    "random_rankings": 1,
    "seeds": [0, 1],
    "features": "pixel",
    "sign": "none",
    "channels": "sum",
    "output": "softmax",
    "metrics": [],
    "device": "cpu",
    "recipe": RECIPE,
}
"""Settings that both studies share."""
PLANTED = "planted(size=16, classes=4, channels=3, train=512, test=64, noise=0.5, seed=0)"


# ---- What uproar is asked by: the only place that knows its modules beside the names of `uproar` itself.


def canonical(expression: str) -> str:
    """The name of a chain in uproar's tables."""
    from uproar.estimators import read_chain

    return read_chain(expression).name


def cells(run: Any) -> Iterator[tuple[str, str, float, int, dict[str, float]]]:
    """The cells of a study: metric, estimator, fraction, seed and their numbers."""
    for row in run.cells.itertuples():
        known = {"accuracy": row.accuracy, "bits": row.bits, "images": row.images, "ties": row.ties}
        yield row.metric, row.estimator, row.fraction, row.seed, known


def evaluator_losses(run: Any) -> Iterator[tuple[str, str, str, str, np.ndarray]]:
    """Log-loss in bits per replicate and image: target, masks (own or shifted), direction, estimator, values."""
    for (_, _, target), bits in run.evaluations.items():
        for masks in ("own", "shifted"):
            for (estimator, keeps), values in getattr(bits, masks).items():
                yield target, masks, "keep" if keeps else "remove", estimator, values


def shown_maps(run: Any) -> Iterator[tuple[str, str, np.ndarray]]:
    """Maps of the first replicate that a page shows: test image, estimator, values scaled to [-1, 1]."""
    for picture in run.pictures:
        for estimator, values in picture.maps.items():
            yield picture.title.split(":")[0], estimator, values


def shown_changes(run: Any) -> Iterator[tuple[str, str, str, float, np.ndarray]]:
    """Changed images of the first replicate, as bytes: test image, metric, estimator, fraction, pixels."""
    for picture in run.pictures:
        for (metric, estimator, fraction), pixels in picture.changed.items():
            yield picture.title.split(":")[0], metric, estimator, fraction, pixels


def run_study(settings: Mapping[str, Any], store: str) -> Any:
    """A study, run in this process."""
    import uproar

    return uproar.run(settings, store=store, jobs=1)


def maker(expression: str) -> Callable[..., Any]:
    """What makes maps of an estimator anew, for metrics that change the network or the image."""
    import uproar

    def make(model: Any, x: Any, target: Any, draws: Any) -> Any:
        return uproar.explain(model, x, expression, target=target, seed=0, index=range(len(x)), output="softmax")

    return make


# ---- What is asked.


def small_network(channels: int, classes: int, seed: int) -> Any:
    """A network of this file: convolutions, ReLUs, pooling, one linear layer."""
    import torch
    from torch import nn

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(channels, 12, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(12, 16, 3, padding=1),
                nn.ReLU(),
            )
            self.pool, self.classify = nn.AdaptiveMaxPool2d(2), nn.Linear(64, classes)

        def forward(self, x: Any) -> Any:
            return self.classify(self.pool(self.features(x)).flatten(1))

    torch.manual_seed(seed)
    return Small()


def trained(model: Any, x: Any, y: Any) -> Any:
    """The network after a few epochs of Adam, trained here."""
    import torch

    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    order = torch.Generator().manual_seed(0)
    for _ in range(25):
        for rows in torch.randperm(len(x), generator=order).split(64):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimiser.step()
    return model.eval()


FAILED: list[str] = []


@contextlib.contextmanager
def failing_alone(name: str) -> Iterator[None]:
    """Say what failed and go on: its numbers are missing."""
    try:
        yield
    except Exception as error:
        FAILED.append(name)
        print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr)


def planted_network() -> tuple[Any, Any]:
    """The made-up task, and a network that has learned it."""
    import uproar

    task = uproar.load(PLANTED)
    model = trained(small_network(3, 4, seed=0), task.train.read(slice(None)), task.train.labels)
    return task, model


def maps_and_orders() -> Numbers:
    """Maps of every estimator, and what is removed by them."""
    import uproar

    task, network = planted_network()
    x, train, rows = task.test.read(slice(0, 6)), task.train.read(slice(0, 64)), range(6)
    transformer = uproar.build("vit-small(patch=4, width=16, depth=2, heads=2, registers=0)", task, seed=0)
    given = {
        "target": task.test.labels[:6],
        "mean": train.mean((0, 2, 3)),
        "train": train,
        "truth": task.test.truth(slice(0, 6)),
        "seed": 3,
        "index": rows,
        "split": "test",
        "sign": "none",
        "channels": "sum",
        "batch_size": 6,
        "output": "softmax",
    }
    numbers: Numbers = {}
    for family, model, chains in (
        ("convolutional", network, CONVOLUTIONAL),
        ("transformer", transformer.eval(), OF_TOKENS),
    ):
        for name, expression in chains.items():
            with failing_alone(expression):
                maps = uproar.explain(model, x, expression, **given)
                numbers[f"maps/{family}/{name}"] = maps.numpy()
                for fraction in (0.1, 0.5):
                    gone = uproar.removed(maps, fraction, seed=3, index=rows, split="test")
                    numbers[f"removed/{family}/{name}/{fraction}"] = gone.numpy()
    for expression in (CONVOLUTIONAL["grad"], CONVOLUTIONAL["ig"]):
        raw = uproar.explain(network, x, expression, raw=True, **given)
        numbers[f"maps/raw/{expression.partition('(')[0]}"] = raw.numpy()
    return numbers


def fills() -> Numbers:
    """Images with holes, filled."""
    import uproar

    task = uproar.load(PLANTED)
    x, train = task.test.read(slice(0, 4)), task.train.read(slice(0, 64))
    noise = uproar.explain(small_network(3, 4, 0), x, CONTROLS["random"], target=0, seed=1, index=range(4))
    blocks = uproar.explain(small_network(3, 4, 0), x, CONTROLS["block_random"], target=0, seed=1, index=range(4))
    numbers: Numbers = {}
    for name, expression in FILLS.items():
        for shape, maps in (("pixels", noise), ("block", blocks)):
            for fraction in (0.1, 0.5, 0.9):
                gone = uproar.removed(maps, fraction, seed=1, index=range(4), split="test")
                full = uproar.fill(
                    x, gone, expression, value=train.mean((0, 2, 3)), train=train, seed=1, index=range(4), split="test"
                )
                numbers[f"fill/{name}/{shape}/{fraction}"] = full.numpy()
    return numbers


def scores() -> Numbers:
    """Values of every metric for single images, of a network trained here."""
    import torch

    import uproar

    task, network = planted_network()
    x, y = task.test.read(slice(0, 64)), task.test.labels[:64]
    train, truth = task.train.read(slice(None)), task.test.truth(slice(0, 64))
    given = {"mean": train.mean((0, 2, 3)), "train": train, "output": "softmax", "seed": 5, "index": range(64)}
    maps = {
        name: uproar.explain(network, x, expression, target=y, truth=truth, split="test", batch_size=64, **given)
        for name, expression in SCORED.items()
    }
    with torch.no_grad():
        numbers = {"score/network/logits": network(x).numpy()}
    beside = {
        "train_labels": task.train.labels,
        "truth": truth,
        "boxes": task.test.boxes[:64],
        "explain": {method: maker(SCORED[method]) for method in EXPLAINED},
        "batch_size": 64,
    }
    for name, expression in METRICS.items():
        with failing_alone(expression):
            asked = {method: maps[method] for method in (EXPLAINED if name in EXPLAINING else maps)}
            table = uproar.score(network, x, y, asked, [expression], per_image=True, **given, **beside)
            for method, rows in table.groupby("method"):
                numbers[f"score/{name}/{method}"] = rows.sort_values("image")["value"].to_numpy(float)
    points = uproar.curve(network, x[:8], maps["ig"][:8], METRICS["deletion"], target=y[:8], mean=given["mean"], seed=5)
    numbers["score/curve/deletion/ig"] = points.values.numpy()
    return numbers


def training() -> Numbers:
    """What a training gives."""
    import uproar

    task = uproar.load("digits(test=0.2)")
    numbers: Numbers = {}
    for name in ("cnn-small(width=16)", "resnet-half(width=4)"):
        model = uproar.build(name, task, seed=1)
        uproar.fit(model, task.train.read(slice(0, 512)), task.train.labels[:512], uproar.Recipe(**RECIPE), 1)
        numbers[f"training/{name}/logits"] = uproar.predict(model, task.test.read(slice(0, 64))).numpy()
    return numbers


def study_numbers(prefix: str, settings: Mapping[str, Any], chains: Mapping[str, str]) -> Numbers:
    """Accuracies and bits of all cells, losses of evaluators for single images, maps and changed images."""
    short = {canonical(expression): name for name, expression in chains.items()}
    numbers: Numbers = {}
    with tempfile.TemporaryDirectory() as store:
        run = run_study(settings, store)
        for metric, estimator, fraction, seed, known in cells(run):
            place = f"{prefix}/{metric}/{short.get(estimator, estimator)}/{fraction:g}/seed{seed}"
            numbers |= {f"{place}/{name}": np.array(value, float) for name, value in known.items()}
        for image, estimator, values in shown_maps(run):
            numbers[f"{prefix}/maps/{short.get(estimator, estimator)}/{image}"] = values
        for image, metric, estimator, fraction, pixels in shown_changes(run):
            place = f"{prefix}/changed/{metric}/{short.get(estimator, estimator)}/{fraction:g}"
            numbers[f"{place}/{image}"] = pixels
        for fraction in settings["fractions"]:  # what there is already is read
            alone = run_study({**settings, "fractions": [fraction], "evaluator_fractions": [fraction]}, store)
            for target, masks, direction, estimator, values in evaluator_losses(alone):
                place = (
                    f"{prefix}/evaluator/{target}/{direction}/{masks}/{short.get(estimator, estimator)}/{fraction:g}"
                )
                for seed, losses in zip(settings["seeds"], values, strict=True):
                    numbers[f"{place}/seed{seed}/bits"] = losses
    return numbers


def digits_study() -> Numbers:
    """Retrained, not retrained and judged by evaluators, on digits."""
    chains = {name: GRADIENTS[name] for name in GRADIENTS if name != "sg(grad)"} | CONTROLS
    settings = {
        **STUDY,
        "name": "reference",
        "tasks": ["digits(test=0.2)"],
        "estimators": list(chains.values()),
        "metrics": ["roar", "kar", "roar:no-retrain", "kar:no-retrain", "evaluator", "evaluator:model"],
        "fractions": [0.3, 0.7],
        "evaluator_fractions": [0.3, 0.7],
        "fill": "mean",
        "target": "predicted",
    }
    return study_numbers("study", settings, chains)


def planted_study() -> Numbers:
    """Evaluators about known truths and worse ones, with random fill, as networks learn it from few images."""
    names = ("oracle", "degraded noise", "degraded missing", "degraded encoder", "ig")
    chains = {name: CONVOLUTIONAL[name] for name in names} | CONTROLS
    settings = {
        **STUDY,
        "name": "planted",
        "tasks": ["planted-fixed(classes=4, size=16, channels=1, train=512, test=100, noise=0.5, seed=0)"],
        "estimators": list(chains.values()),
        "metrics": ["evaluator", "evaluator:model"],
        "fractions": [0.15],
        "evaluator_fractions": [0.15],
        "fill": "linear(noise=0.01)",
        "target": "label",
        "recipe": {**RECIPE, "epochs": 8},
    }
    return study_numbers("planted", settings, chains)


PARTS = (maps_and_orders, fills, scores, training, digits_study, planted_study)


# ---- Writing and comparing.


def write(path: Path) -> int:
    """Make all numbers and write them; 1 where something failed, whose numbers are then missing."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    numbers: Numbers = {}
    for part in PARTS:
        began = time.process_time()
        with failing_alone(part.__name__):
            made = part()
            numbers |= made
            print(f"{part.__name__}: {len(made)} leaves, {time.process_time() - began:.0f} s", file=sys.stderr)
    with path.open("wb") as file:
        np.savez_compressed(file, **numbers)
    print(f"{len(numbers)} leaves, {sum(a.size for a in numbers.values())} values in {path}")
    return int(bool(FAILED))


def read(path: Path) -> Numbers:
    """The leaves of a file."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def differences(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], tolerance: float) -> list[str]:
    """A line for every leaf that is missing, new, of another shape, or differs by more than a tolerance.

    The tolerance is absolute for values up to 1 and relative above; NaN equals NaN.
    """
    lines = [f"missing   {name}" for name in before if name not in after]
    lines += [f"new       {name}" for name in after if name not in before]
    for name in before:
        if name not in after:
            continue
        old, new = np.asarray(before[name], float), np.asarray(after[name], float)
        if old.shape != new.shape:
            lines.append(f"shape     {name}: {old.shape} before, {new.shape} after")
            continue
        apart = ~np.isclose(new, old, rtol=tolerance, atol=tolerance, equal_nan=True)
        if apart.any():
            gaps = np.abs(new - old)[apart]
            largest = "NaN on one side" if np.isnan(gaps).all() else f"largest difference {np.nanmax(gaps):.3g}"
            lines.append(f"differs   {name}: {apart.sum()} of {apart.size} values, {largest}")
    return lines


def compare(before: Path, after: Path, tolerance: float) -> int:
    """Print what differs between two files; 1 where anything does."""
    old, new = read(before), read(after)
    lines = differences(old, new, tolerance)
    print("\n".join(lines))
    print(f"{len(old)} leaves before, {len(new)} after, {len(lines)} of them not the same (tolerance {tolerance:g}).")
    return int(bool(lines))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description="The numbers that a restructuring must leave alone.")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="make all numbers and write them into a file (.npz)")
    writing.add_argument("file", type=Path)
    comparing = commands.add_parser("compare", help="list what differs between two files; exit code 1 if anything does")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--tolerance", type=float, default=1e-6)
    given = parser.parse_args(arguments)
    return write(given.file) if given.command == "write" else compare(given.before, given.after, given.tolerance)


if __name__ == "__main__":
    sys.exit(main())
