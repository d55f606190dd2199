"""Images with the model that is explained or judged on them: those of a task, or files of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from uproar.data import load
from uproar.data.task import Split, Task, channel_moments
from uproar.data.user_images import count_classes, count_images, read_images, read_training_images
from uproar.errors import BadInput, BadOption
from uproar.estimators import Context
from uproar.models import ModelSpec, make
from uproar.models.output_kind import (
    Output,
    OutputKind,
    assuming_output,
    predicted_target,
    recognise_output,
    sum_tolerance,
)
from uproar.models.registry import needs_classes
from uproar.models.weights import load_weights
from uproar.plugins import file_at
from uproar.seeds import Draws
from uproar.storage.store import Store
from uproar.study.bench import Bench, bench_for
from uproar.study.maps import Subject
from uproar.study.settings import Setting
from uproar.study.spec import study_of
from uproar.study.targets import followed_targets
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
    train: Split | None = None
    """Training images of the user's own, where they were given."""
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
    titles = [title_of(bench.task, label) for label in y]
    known = y if bench.task.kind == "softmax" else y[:, 0].long() if bench.inputs.output.single else None
    count = 2 if bench.inputs.output.single else len(classes)
    return ImageSet(x, titles, known, task, count, bench=bench, notes=tuple(bench.task.notes))


def title_of(task: Task, label: Tensor) -> str:
    """What the label of an image says: its class, the labels it has, or its values."""
    if task.kind == "softmax":
        return task.classes[int(label)]
    values = label.reshape(-1).tolist()
    if task.kind == "regression":
        return ", ".join(f"{name} {value:.3g}" for name, value in zip(task.classes, values, strict=True))
    return ", ".join(name for name, there in zip(task.classes, values, strict=True) if there) or "no label"


def images_of_files(
    images: str,
    model: str,
    weights: str | None,
    classes: int | None,
    limit: int,
    size: int | None = None,
    train: str | None = None,
    mixed: int | None = None,
) -> ImageSet:
    """Images of the user's own, with those that the network was trained on where they are given (`train`).

    `mixed` is a seed by which images come in an order drawn by lot; see `read_images`.
    """
    spec = ModelSpec.of(model)
    if weights is not None and not file_at(weights).is_file():
        raise BadInput(f"There is no weights file {weights}.")
    x, titles, labels = read_images(images, limit, size, mixed)
    notes = (untrained_note(model),) if weights is None and not spec.from_file else ()
    c, h, w = x.shape[1:]
    known = None if train is None else read_training_images(train, (c, h, w))
    return ImageSet(x, titles, labels, images, classes or count_classes(images), known, notes=notes)


def untrained_note(model: str) -> str:
    """What to keep in mind of a network that nobody has trained."""
    return f"{ModelSpec.of(model).name} has random weights: give --weights to explain a trained network."


def draws_weights(net: torch.nn.Module, images: ImageSet, model: str, seed: int) -> bool:
    """Whether a network of the user's own file, made with `seed`, has random weights: another seed gives others."""
    other, _ = _network(images, model, None, seed + 1)
    pairs = zip(net.parameters(), other.parameters(), strict=False)
    return any(a.shape == b.shape and not torch.equal(a.detach().cpu(), b.detach().cpu()) for a, b in pairs)


def example_images(
    images: str | None, task: str, model: str, weights: str | None, classes: int | None, size: int | None
) -> tuple[torch.nn.Module, Tensor]:
    """A network, not trained here and with outputs of any number, and two images that it may be shown."""
    if images is not None:
        chosen = images_of_files(images, model, weights, classes, 2, size)
        return _network(chosen, model, weights, 0)[0], chosen.x
    known = load(task)
    net = make(ModelSpec.of(model), 0, known.shape, len(known.classes), known.mean, known.std)
    return net if weights is None else load_weights(net, weights), known.test.read(slice(0, 2))


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
    output: Output = "auto",
) -> Subject:
    """The images with the network: for a task its base model, which is trained if need be; `listen` counts epochs.

    `output` says what the network answers with.
    """
    check_target(target, images)
    x, bench = images.x, images.bench
    if bench is None:
        net, made = _network(images, model, weights, seed)
        mean = x.mean((0, 2, 3)) if images.train is None else channel_moments(images.train)[0]
        context = Context(Draws.of(seed, len(x)), mean, images.train)
    else:
        task = bench.task
        net = bench.base_models.get(seed, listen=listen)[0]
        truth = task.test.truth(slice(0, len(x)))
        context = Context(Draws.of(seed, len(x)), task.mean, task.train, truth, samples=task.test)
        made = {**bench.spec.identity, "data": task.fingerprint}
    answers = predict(net.eval(), x)
    if bench is not None and bench.task.kind != "softmax":
        kind = bench.inputs.output
    else:
        kind = recognise_output(net, x, answers, output, sum_tolerance(net))
    if bench is None and images.labels is not None:
        _check_folders(images.source, 2 if kind.single else answers.shape[1])
    return Subject(net, x, _targets(answers, kind, images.labels, target), context, made, kind)


def _check_folders(source: str, outputs: int) -> None:
    """Refuse class folders that are not as many as the network's outputs: labels would be those of other classes."""
    folders = count_classes(source)
    if folders is not None and folders != outputs:
        raise BadInput(
            f"{source} has {folders} class folders, and the network {outputs} outputs: give a folder for each class, "
            "also an empty one, or put all pictures into one folder to do without labels."
        )


def _network(images: ImageSet, model: str, weights: str | None, seed: int) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network for images of the user's own, and what it is made of."""
    x, spec = images.x, ModelSpec.of(model)
    c, h, w = x.shape[1:]
    net = make(spec, seed, (c, h, w), _classes(images, spec), x.mean((0, 2, 3)), x.std((0, 2, 3)))
    if weights is not None:
        load_weights(net, weights)
    return net, spec.identity


def _classes(images: ImageSet, spec: ModelSpec) -> int | None:
    """How many classes a network is made for: as given; for one that must be told, as many as training images have."""
    if images.classes is None and images.train is not None and images.train.labels.dim() == 1 and needs_classes(spec):
        return int(images.train.labels.max()) + 1
    return images.classes


def _targets(answers: Tensor, kind: OutputKind, labels: Tensor | None, target: str) -> Tensor:
    if target not in ("predicted", "label"):
        return torch.full((len(answers),), int(target))
    with assuming_output(kind):
        outputs = kind.read(answers, len(answers))
        if target == "label" and labels is not None:
            return followed_targets(target, outputs, labels)
        return predicted_target(outputs)
