"""The network and images that `choose`, `explain` and `score` are about: their options, and what these name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from uproar.cli.options import Model, Plugins, Task, advanced, argument, option
from uproar.cli.screen import note
from uproar.errors import BadInput, BadOption, BadShape
from uproar.paths import user_path

if TYPE_CHECKING:
    from torch import Tensor

    from uproar.cli.progress import Watch
    from uproar.store import Store
    from uproar.study.subjects import ImageSet, Subject

ASIDE = {"images", "labels", "targets"}
"""Arrays in a file of maps that are not maps."""


@dataclass(frozen=True)
class Network:
    """A network and images, as a command line names them."""

    images: Annotated[str | None, argument("IMAGES", "Folder of pictures or array file; else images of --task")] = None
    task: Task = "digits"
    model: Model = "cnn-small"
    weights: Annotated[str | None, option("FILE", "Its trained weights", default="train on --task")] = None
    size: Annotated[int | None, option("N", "Scale and crop pictures to N×N", default="no")] = None
    plugin: Plugins = None
    classes: Annotated[
        str | None, advanced("N|FILE|A,B,…", "Number of classes, or their names in order", default="the model's")
    ] = None
    labels: Annotated[
        str | None,
        advanced(
            "FILE",
            "Labels of the images: .csv (image,label), .npy, .npz or .safetensors",
            default="those of the images",
        ),
    ] = None
    normalise: Annotated[
        str | None,
        advanced("NAME", "How images are normalised for the network: imagenet, half or 0.5,0.25 (mean, std)"),
    ] = None
    output: Annotated[
        Literal["auto", "softmax", "sigmoid", "regression", "logit", "probability"],
        advanced(
            "KIND", "What the model returns: auto, softmax, sigmoid, regression, logit, probability", default="auto"
        ),
    ] = "auto"
    seed: Annotated[int, advanced("N", "Seed of the network and of all draws", default="0")] = 0

    def check(self, limit: int, target: str | None) -> None:
        """Refuse options that cannot be meant, before anything is imported or read."""
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads on a busy machine take six times as long as one
        for name, value in (("--size", self.size), ("--classes", self.classes), ("--limit", limit)):
            if value is not None and re.fullmatch(r"0+|-\d+", str(value)):
                raise BadInput(f"{name} must be at least 1, not {value}.")
        if self.size is not None and self.images is None:
            raise BadInput(
                f"--size scales pictures given as IMAGES; a task has an option: folder(root=…, size={self.size})."
            )
        for name, value in (("--classes", self.classes), ("--normalise", self.normalise)):
            if value is not None and self.images is None:
                raise BadInput(f"{name} goes with images of your own: a task knows its classes and colours.")
        if target not in (None, "predicted", "label") and not target.isdigit():
            raise BadOption(f"--target is predicted, label or the number of a class, not {target!r}.")

    def read(
        self,
        limit: int,
        store: Store,
        watch: Watch,
        train: str | None = None,
        mixed: bool = False,
        train_labels: bool = True,
    ) -> ImageSet:
        """The user's own images, `mixed` at random if wanted, or without any those of the task; notes are printed."""
        from uproar.study.subjects import images_of_files, images_of_task

        if train is not None and self.images is None:
            raise BadInput(f"--train is for images of your own: the task {self.task} has training images.")
        network = (self.model, self.weights)
        if self.images is None:
            watch.say(f"reading {self.task}")
            chosen = images_of_task(self.task, *network, limit, self.seed, store)
        else:
            watch.say(f"reading {self.images}")
            lot = self.seed if mixed else None
            table = self.labels if self.labels is not None and self.labels.endswith(".csv") else None
            options: dict[str, Any] = {"train": train, "mixed": lot, "normalise": self.normalise, "table": table}
            options["train_labels"] = train_labels
            chosen = images_of_files(self.images, *network, self.classes_given(), limit, self.size, **options)
        if self.labels is not None and not self.labels.endswith(".csv"):
            chosen = replace(chosen, labels=read_labels(self.labels, chosen), folders=())
        note(*chosen.notes)
        return chosen

    def classes_given(self) -> int | list[str] | None:
        """The number of classes, or their names, of a file with a line for each or of a list."""
        if self.classes is None or self.classes.isdigit():
            return None if self.classes is None else int(self.classes)
        if "," in self.classes:
            return [name.strip() for name in self.classes.split(",")]
        try:
            return user_path(self.classes).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise BadInput(
                f"--classes is a number, names a,b,c or a file with one name per line, not {self.classes!r}."
            ) from None

    def subject(self, images: ImageSet, target: str, watch: Watch) -> Subject:
        """The images with their network, which is loaded, or trained on the task; notes are printed."""
        from uproar.models import ModelSpec
        from uproar.study.subjects import draws_weights, subject_of_images, untrained_note

        if images.setting is not None:
            epochs = watch.counting("epochs", f"training {self.model} on {images.source}")
            return subject_of_images(images, self.model, self.weights, target, self.seed, epochs, self.output)
        watch.say(f"loading {self.model}")
        network = (self.model, self.weights, target, self.seed)
        subject = subject_of_images(images, *network, output=self.output, normalise=self.normalise)
        drawn = self.weights is None and ModelSpec.of(self.model).from_file
        if drawn and draws_weights(subject.model, images, self.model, self.seed):
            note(untrained_note(self.model))
        return subject

    def scored_subject(self, images: ImageSet, target: str | None, watch: Watch) -> tuple[Subject, dict[str, Any]]:
        """The images with their network, and how they are scored: by labels, where there are any, unless told."""
        chosen = target or ("predicted" if images.labels is None else "label")
        subject = self.subject(images, chosen, watch)
        kind = subject.output.kind
        if images.labels is None and chosen == "predicted" and kind != "regression":
            several = kind == "sigmoid" and not subject.output.single
            followed = "label of the highest output" if several else "class that the model predicts"
            note(f"no labels were given: scores are those of the {followed}.")
        output = kind if kind != "softmax" else self.output
        return subject, {"labelled": chosen == "label", "seed": self.seed, "output": output}

    def words(self) -> list[str]:
        """The words of a command line that name the same again, as far as they are not the defaults."""
        words = [] if self.images is None else [self.images]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            for each in value if isinstance(value, list) else [value]:
                words += [] if each == field.default else [f"--{field.name}", str(each)]
        return words


def compile_imputer(fill: str, metric_names: Iterable[str], watch: Watch) -> None:
    """Compile the linear imputer if anything asked for needs it: once per installation, 10 to 20 seconds."""
    from uproar.expression import parse
    from uproar.metrics.registry import metrics
    from uproar.removal.linear import warm_up

    fills = [fill]
    for call in map(parse, metric_names):
        default = metrics[call.name].options.get("fill")
        fills.append(str(dict(call.options).get("fill", default.default if default else "mean")))
    if any(parse(name).name == "linear" for name in fills):
        watch.say("compiling the linear imputer, once per installation")
        warm_up()


def read_labels(file: str, images: ImageSet) -> Tensor:
    """The labels in an array file: one for each image that is asked for, or for all there are."""
    import torch

    from uproar.data.arrays import read_arrays

    arrays = read_arrays(file)
    a = arrays.get("labels", next(iter(arrays.values()), None))
    if a is None or a.ndim not in (1, 2) or a.dtype.kind not in "iu":
        got = "nothing" if a is None else f"{a.dtype} of shape {a.shape}"
        raise BadInput(
            f"The labels in {file} are whole numbers, one per image, or 0 and 1 for each of several labels, not {got}."
        )
    labels, n = torch.from_numpy(a.astype("int64")), len(images.x)
    if len(labels) != n and len(labels) != images.count:
        count = f"{n} images" if n == images.count else f"{images.count} images, of which {n} are used"
        raise BadShape(f"{file} has {len(labels)} labels, but there are {count}: give one for each.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or (labels.dim() == 1 and images.classes is not None and high >= images.classes):
        last = "" if images.classes is None else f" to {images.classes - 1}"
        raise BadInput(f"The labels in {file} run from {low} to {high}, but classes from 0{last}.")
    return labels[:n]


def read_maps(files: list[str] | None) -> dict[str, Any]:
    """The arrays of maps in some files, by name."""
    from uproar.data.arrays import read_arrays
    from uproar.estimators.adapters import name_of

    maps: dict[str, Any] = {}
    for file in files or ():
        arrays = {name: a for name, a in read_arrays(file).items() if name not in ASIDE}
        if {"train", "test"} <= set(arrays):
            raise BadInput(f"{file} holds maps of a whole task: give it as --estimators {name_of(Path(file))}.")
        if not arrays:
            raise BadInput(f"There are no maps in {file}.")
        if twice := maps.keys() & arrays.keys():
            raise BadInput(f"Two files have maps called {min(twice)!r}: give one of them another name.")
        maps |= arrays
    return maps


def cut_maps(maps: dict[str, Any], x: Tensor) -> dict[str, Tensor]:
    """As many maps of each as there are images, of the images' size."""
    from uproar.scoring import checked_maps  # tables load slowly

    return {name: checked_maps(a[: len(x)], x, name) for name, a in maps.items()}
