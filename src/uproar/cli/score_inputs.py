"""What `uproar score` judges: images with their model and labels, and maps from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from uproar.arrays import read_arrays
from uproar.cli.console import note
from uproar.cli.progress import Watch
from uproar.cli.subjects import make_subject
from uproar.errors import BadInput, BadShape
from uproar.estimators.map_files import name_of
from uproar.models.output_kind import Output
from uproar.study.maps import Subject
from uproar.study.subjects import ImageSet

if TYPE_CHECKING:
    pass

ASIDE = {"images", "labels", "targets"}
"""Arrays in a file of maps that are not maps."""


def check_labels(labels: Tensor, file: str, images: ImageSet) -> Tensor:
    """One label for each image that is asked for; the file has them for these, or for all there are."""
    n = len(images.x)
    if len(labels) != n and len(labels) != images.count:
        there = f"{n} images" if n == images.count else f"{images.count} images, of which {n} are used"
        raise BadShape(f"{file} has {len(labels)} labels, but there are {there}: give one for each.")
    low, high = int(labels.min()), int(labels.max())
    several = labels.dim() > 1
    if low < 0 or (not several and images.classes is not None and high >= images.classes):
        last = "" if images.classes is None else f" to {images.classes - 1}"
        raise BadInput(f"The labels in {file} run from {low} to {high}, but classes from 0{last}.")
    return labels[:n]


def labelled_subject(
    images: ImageSet,
    labels: Tensor | None,
    model: str,
    weights: str | None,
    seed: int,
    watch: Watch,
    output: Output = "auto",
    target: str | None = None,
) -> tuple[Subject, bool]:
    """The images with their model, and whether the classes they are scored by are labels.

    `target` is what maps and scores follow: `label`, which is the default where there are labels, `predicted`, or a
    number.
    """
    known = images.labels if labels is None else labels
    chosen = target or ("predicted" if known is None else "label")
    subject = make_subject(replace(images, labels=known), model, weights, chosen, seed, watch, output)
    if known is None and chosen == "predicted" and subject.output.kind != "regression":
        several = subject.output.kind == "sigmoid" and not subject.output.single
        followed = "label of the highest output" if several else "class that the model predicts"
        note(f"no labels were given: scores are those of the {followed}.")
    return subject, chosen == "label"


def said_output(subject: Subject, output: Output) -> Output:
    """What is said of a network's outputs from here on: their kind, where they are no softmax."""
    return subject.output.kind if subject.output.kind != "softmax" else output


def read_labels(file: str) -> Tensor:
    """The labels in an array file."""
    arrays = read_arrays(file)
    a = arrays.get("labels", next(iter(arrays.values()), None))
    if a is None or a.ndim not in (1, 2) or a.dtype.kind not in "iu":
        got = "nothing" if a is None else f"{a.dtype} of shape {a.shape}"
        raise BadInput(
            f"The labels in {file} are whole numbers, one per image, or 0 and 1 for each of several labels, not {got}."
        )
    return torch.from_numpy(a.astype("int64"))


def read_maps(files: list[str] | None) -> dict[str, dict[str, Tensor]]:
    """The maps of each file by name."""
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


def cut(given: dict[str, dict[str, Tensor]], x: Tensor) -> dict[str, Tensor]:
    """As many maps of each as there are images, of the images' size."""
    if not given:
        return {}
    from uproar.scoring import checked_maps  # tables load slowly

    n = len(x)
    for file, arrays in given.items():
        for name, a in arrays.items():
            if len(a) < n:
                raise BadInput(f"{file} has {len(a)} maps in {name!r}, but there are {n} images; lower --limit.")
    return {name: checked_maps(a[:n], x, name) for arrays in given.values() for name, a in arrays.items()}
