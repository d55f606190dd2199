"""The images and the network of `uproar explain` and `uproar score`, with their progress shown."""

from __future__ import annotations

from uproar.cli.console import note
from uproar.cli.progress import Watch
from uproar.errors import BadInput
from uproar.models import ModelSpec
from uproar.models.output_kind import Output
from uproar.storage.store import Store
from uproar.study.maps import Subject
from uproar.study.subjects import (
    ImageSet,
    draws_weights,
    images_of_files,
    images_of_task,
    subject_of_images,
    untrained_note,
)


def read_image_set(
    images: str | None,
    task: str,
    model: str,
    weights: str | None,
    classes: int | None,
    limit: int,
    size: int | None,
    seed: int,
    store: Store,
    watch: Watch,
    train: str | None = None,
    mixed: bool = False,
) -> ImageSet:
    """The user's own images, `mixed` by lot if wanted, or without any those of a task; notes on them are printed."""
    if train is not None and images is None:
        raise BadInput(f"--train is for images of your own: the task {task} has training images.")
    watch.say(f"reading {task if images is None else images}")
    chosen = (
        images_of_task(task, model, weights, limit, seed, store)
        if images is None
        else images_of_files(images, model, weights, classes, limit, size, train, seed if mixed else None)
    )
    note(*chosen.notes)
    return chosen


def make_subject(
    images: ImageSet, model: str, weights: str | None, target: str, seed: int, watch: Watch, output: Output = "auto"
) -> Subject:
    """The images with their network, which is loaded, or trained on the task; `output` is what it answers with."""
    if images.bench is None:
        watch.say(f"loading {model}")
        subject = subject_of_images(images, model, weights, target, seed, output=output)
        if weights is None and ModelSpec.of(model).from_file and draws_weights(subject.model, images, model, seed):
            note(untrained_note(model))
        return subject
    epochs = watch.counting("epochs", f"training {model} on {images.source}")
    return subject_of_images(images, model, weights, target, seed, epochs, output)
