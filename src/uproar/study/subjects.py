"""Images with the model that is explained or judged on them: those of a task, or files of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from uproar.data.user_images import count_images, read_images
from uproar.errors import BadInput, BadOption
from uproar.estimators import Context
from uproar.models import ModelSpec, make
from uproar.models.weights import load_weights
from uproar.plugins.loading import file_at
from uproar.seeds import Draws
from uproar.storage.store import Store
from uproar.study.bench import Bench, bench_for
from uproar.study.maps import Subject
from uproar.study.settings import Setting
from uproar.study.spec import study_of
from uproar.training import predict


@dataclass(frozen=True)
class ImageSet:
    """Images that are explained or judged, read before any network is made or trained for them."""

    x: Tensor
    titles: list[str]
    labels: Tensor | None
    source: str
    """What they are: the name of a task, or a file or folder."""
    classes: int | None = None
    """Number of classes, where it is known without the network."""
    bench: Bench | None = None
    """The task they are from."""
    notes: tuple[str, ...] = ()
    """What to keep in mind of them and of the network."""

    @property
    def count(self) -> int:
        """How many there are, of which `x` may have only some."""
        return count_images(self.source) if self.bench is None else len(self.bench.task.test)


def images_of_task(task: str, model: str, weights: str | None, limit: int, seed: int, store: Store) -> ImageSet:
    """The test images of a task."""
    study = study_of({"tasks": task, "models": model, "weights": weights, "seeds": (seed,)})
    study.check_files()
    bench = bench_for(Setting.all_of(study)[0], store.root)
    test, classes = bench.task.test, bench.task.classes
    x, y = test.read(slice(0, limit)), test.labels[:limit]
    return ImageSet(x, [classes[k] for k in y.tolist()], y, task, len(classes), bench, tuple(bench.task.notes))


def images_of_files(
    images: str, model: str, weights: str | None, classes: int | None, limit: int, size: int | None = None
) -> ImageSet:
    """Images of the user's own."""
    spec = ModelSpec.of(model)
    if weights is not None and not file_at(weights).is_file():
        raise BadInput(f"There is no weights file {weights}.")
    x, titles, labels = read_images(images, limit, size)
    untrained = f"{spec.name} has random weights: give --weights to explain a trained network."
    notes = (untrained,) if weights is None and not spec.from_file else ()
    return ImageSet(x, titles, labels, images, classes, notes=notes)


def check_target(target: str, images: ImageSet) -> None:
    """Refuse a class to explain that the images or their task do not have."""
    if target == "label" and images.labels is None:
        raise BadInput("--target label needs labels: give an array file with 'labels', or a task.")
    if target.isdigit() and images.classes is not None and int(target) >= images.classes:
        raise BadOption(f"--target {target}: there are {images.classes} classes, 0 to {images.classes - 1}.")


def subject_of_images(
    images: ImageSet,
    model: str,
    weights: str | None,
    target: str,
    seed: int,
    listen: Callable[[int, int], None] | None = None,
) -> Subject:
    """The images with the network: for a task its base model, which is trained if need be; `listen` counts epochs."""
    check_target(target, images)
    x, bench = images.x, images.bench
    if bench is None:
        net, made = _network(images, model, weights, seed)
        context = Context(Draws.of(seed, len(x)), x.mean((0, 2, 3)))
    else:
        task = bench.task
        net = bench.base_models.get(seed, listen=listen)[0]
        truth = task.test.truth(slice(0, len(x)))
        context = Context(Draws.of(seed, len(x)), task.mean, task.train, truth, samples=task.test)
        made = {**bench.spec.identity, "data": task.fingerprint}
    return Subject(net.eval(), x, _targets(net, x, images.labels, target), context, made)


def _network(images: ImageSet, model: str, weights: str | None, seed: int) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network for images of the user's own, and what it is made of."""
    x, spec = images.x, ModelSpec.of(model)
    c, h, w = x.shape[1:]
    net = make(spec, seed, (c, h, w), images.classes, x.mean((0, 2, 3)), x.std((0, 2, 3)))
    if weights is not None:
        load_weights(net, weights)
    return net, spec.identity


def _targets(model: torch.nn.Module, x: Tensor, labels: Tensor | None, target: str) -> Tensor:
    if target == "label" and labels is not None:
        return labels
    if target == "predicted":
        return predict(model, x).argmax(1)
    return torch.full((len(x),), int(target))
