"""Images with the model that is explained or judged on them: those of a task, or files of the user's own."""

from __future__ import annotations

import torch
from rich.markup import escape
from torch import Tensor

from uproar.cli.console import errors
from uproar.cli.progress import Watch
from uproar.data.pictures import read_images
from uproar.errors import BadInput
from uproar.estimators import Context
from uproar.models import ModelSpec, make
from uproar.models.weights import load_weights
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study.maps import Subject
from uproar.study.setting import Setting
from uproar.study.spec import study_of
from uproar.study.steps import bench_for
from uproar.training import predict


def subject_of_task(
    task: str, model: str, weights: str | None, limit: int, target: str, seed: int, store: Store, watch: Watch
) -> tuple[Subject, list[str], Tensor]:  # fmt: skip
    """The test images of a task with its base model, their names and labels."""
    watch.say(f"reading {task}")
    study = study_of({"tasks": task, "models": model, "weights": weights, "seeds": (seed,)})
    bench = bench_for(Setting.all_of(study)[0], store.root)
    for note in bench.task.notes:
        errors.print(f"[yellow]Note:[/] {escape(note)}", soft_wrap=True)
    test = bench.task.test
    x, y = test.read(slice(0, limit)), test.labels[:limit]
    net = bench.base(seed, listen=watch.counting("epochs", f"training {model} on {task}"))[0]
    watch.say("asking the network for its answers")
    truth = test.truth(slice(0, limit))
    draws = Draws.of(seed, len(x))
    context = Context(draws, bench.task.mean, bench.task.train, truth, samples=test)
    made = {**bench.spec.identity, "data": bench.task.fingerprint}
    subject = Subject(net, x, _targets(net, x, y, target), context, made)
    return subject, [bench.task.classes[k] for k in y.tolist()], y


def subject_of_files(
    images: str,
    model: str,
    weights: str | None,
    classes: int | None,
    limit: int,
    target: str,
    seed: int,
    watch: Watch,
    size: int | None = None,
) -> tuple[Subject, list[str], Tensor | None]:
    """Images of the user's own with a model, their names, and labels where there are any."""
    watch.say(f"reading {images}")
    if classes is not None and classes < 1:
        raise BadInput(f"--classes must be at least 1, not {classes}.")
    x, titles, labels = read_images(images, limit, size)
    mean, std = x.mean((0, 2, 3)), x.std((0, 2, 3))
    c, h, w = x.shape[1:]
    spec = ModelSpec.of(model)
    watch.say(f"loading {spec.name}")
    net = make(spec, seed, (c, h, w), classes, mean, std)
    if weights is not None:
        load_weights(net, weights)
    elif not spec.from_file:
        errors.print(
            f"[yellow]Note:[/] {escape(spec.name)} has random weights: give --weights to explain a trained network.",
            soft_wrap=True,
        )
    watch.say("asking the network for its answers")
    context = Context(Draws.of(seed, len(x)), mean)
    explained = _targets(net, x, labels, target)
    return Subject(net.eval(), x, explained, context, spec.identity), titles, labels


def _targets(model: torch.nn.Module, x: Tensor, labels: Tensor | None, target: str) -> Tensor:
    if target == "label":
        if labels is None:
            raise BadInput(
                "--target label needs labels: give an array file with 'labels', or a task."
            )
        return labels
    if target == "predicted":
        return predict(model, x).argmax(1)
    return torch.full((len(x),), int(target))
