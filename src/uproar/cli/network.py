"""The network and images that `choose`, `explain` and `score` are about: their options, and what these name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.cli.options import (
    OUTPUTS,
    Classes,
    DataRoot,
    Images,
    Labels,
    Model,
    Normalise,
    OutputOption,
    PictureSize,
    Plugins,
    Seed,
    Task,
    Weights,
)
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

    images: Images = None
    task: Task = "digits"
    model: Model = "cnn-small"
    weights: Weights = None
    size: PictureSize = None
    plugin: Plugins = None
    classes: Classes = None
    labels: Labels = None
    normalise: Normalise = None
    answers: OutputOption = "auto"
    seed: Seed = 0
    data_root: DataRoot = None

    def check(self, limit: int, target: str | None) -> None:
        """Refuse options that cannot be meant, before anything is imported or read."""
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads on a busy machine take six times as long as one
        classes = int(self.classes) if self.classes is not None and self.classes.isdigit() else None
        for name, value in (("--size", self.size), ("--classes", classes), ("--limit", limit)):
            if value is not None and value < 1:
                raise BadInput(f"{name} must be at least 1, not {value}.")
        if self.size is not None and self.images is None:
            there = f"a task has an option: folder(root=…, size={self.size})"
            raise BadInput(f"--size scales pictures given as IMAGES; {there}.")
        own = {"--classes": self.classes, "--normalise": self.normalise}
        given = next((name for name, value in own.items() if value is not None), "")
        if given and self.images is None:
            raise BadInput(f"{given} goes with images of your own: a task knows its classes and colours.")
        if self.answers not in OUTPUTS:
            raise BadInput(f"--output is {', '.join(OUTPUTS)}, not {self.answers!r}.")
        if target not in (None, "predicted", "label") and not target.isdigit():
            raise BadOption(f"--target is predicted, label or the number of a class, not {target!r}.")

    def read(self, limit: int, store: Store, watch: Watch, train: str | None = None, mixed: bool = False) -> ImageSet:
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
            own: dict[str, Any] = {"train": train, "mixed": lot, "normalise": self.normalise, "table": table}
            chosen = images_of_files(self.images, *network, self.classes_given(), limit, self.size, **own)
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

        output: Any = self.answers
        if images.setting is not None:
            epochs = watch.counting("epochs", f"training {self.model} on {images.source}")
            return subject_of_images(images, self.model, self.weights, target, self.seed, epochs, output)
        watch.say(f"loading {self.model}")
        network = (self.model, self.weights, target, self.seed)
        subject = subject_of_images(images, *network, output=output, normalise=self.normalise)
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
        output = kind if kind != "softmax" else self.answers
        return subject, {"labelled": chosen == "label", "seed": self.seed, "output": output}

    def words(self) -> list[str]:
        """The words of a command line that name the same again, as far as they are not the defaults."""
        words = [] if self.images is None else [self.images]
        for name, value in (
            ("--task", None if self.images is not None or self.task == "digits" else self.task),
            ("--model", None if self.model == "cnn-small" else self.model),
            ("--weights", self.weights),
            ("--classes", self.classes),
            ("--labels", self.labels),
            ("--normalise", self.normalise),
            ("--output", None if self.answers == "auto" else self.answers),
            ("--size", self.size),
            ("--seed", self.seed or None),
            ("--data-root", self.data_root),
            *(("--plugin", file) for file in self.plugin or ()),
        ):
            words += [] if value is None else [name, str(value)]
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
        watch.say("making the linear imputer ready (compiled once per installation)")
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
        there = f"{n} images" if n == images.count else f"{images.count} images, of which {n} are used"
        raise BadShape(f"{file} has {len(labels)} labels, but there are {there}: give one for each.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or (labels.dim() == 1 and images.classes is not None and high >= images.classes):
        last = "" if images.classes is None else f" to {images.classes - 1}"
        raise BadInput(f"The labels in {file} run from {low} to {high}, but classes from 0{last}.")
    return labels[:n]


def read_maps(files: list[str] | None) -> dict[str, dict[str, Tensor]]:
    """The maps of each file by name."""
    import torch

    from uproar.data.arrays import read_arrays
    from uproar.estimators.adapters import name_of

    maps: dict[str, dict[str, Tensor]] = {}
    for file in files or ():
        arrays = {name: a for name, a in read_arrays(file).items() if name not in ASIDE}
        if {"train", "test"} <= set(arrays):
            raise BadInput(f"{file} holds maps of a whole task: give it as --estimators {name_of(Path(file))}.")
        if not arrays:
            raise BadInput(f"There are no maps in {file}.")
        for name, a in arrays.items():
            if a.ndim < 3 or a.dtype.kind not in "fiub":
                raise BadInput(f"The maps {name!r} in {file} are numbers (n, h, w), not {a.dtype} of shape {a.shape}.")
            if any(name in others for others in maps.values()):
                raise BadInput(f"Two files have maps called {name!r}: give one of them another name.")
        maps[file] = {name: torch.from_numpy(a) for name, a in arrays.items()}
    return maps


def cut_maps(given: dict[str, dict[str, Tensor]], x: Tensor) -> dict[str, Tensor]:
    """As many maps of each as there are images, of the images' size."""
    from uproar.scoring import checked_maps  # tables load slowly

    for file, arrays in given.items():
        for name, a in arrays.items():
            if len(a) < len(x):
                raise BadInput(f"{file} has {len(a)} maps in {name!r}, but there are {len(x)} images; lower --limit.")
    return {name: checked_maps(a[: len(x)], x, name) for arrays in given.values() for name, a in arrays.items()}
