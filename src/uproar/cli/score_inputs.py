"""What `uproar score` judges: images with their model and labels, and maps from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from uproar.arrays import read_arrays
from uproar.cli.console import note
from uproar.cli.progress import Watch
from uproar.cli.subjects import make_subject
from uproar.errors import BadInput, BadShape
from uproar.estimators import Chain, explain_chains
from uproar.estimators.map_files import name_of
from uproar.models.output_kind import Output, model_output_kind, sum_tolerance
from uproar.seeds import Draws
from uproar.study.maps import Subject
from uproar.study.subjects import ImageSet
from uproar.training import predict

if TYPE_CHECKING:
    from uproar.results.scores import Scores

ASIDE = {"images", "labels", "targets"}
"""Arrays in a file of maps that are not maps."""


def check_labels(labels: Tensor, file: str, images: ImageSet) -> Tensor:
    """One label for each image that is asked for; the file has them for these, or for all there are."""
    n = len(images.x)
    if len(labels) != n and len(labels) != images.count:
        there = f"{n} images" if n == images.count else f"{images.count} images, of which {n} are used"
        raise BadShape(f"{file} has {len(labels)} labels, but there are {there}: give one for each.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or (images.classes is not None and high >= images.classes):
        last = "" if images.classes is None else f" to {images.classes - 1}"
        raise BadInput(f"The labels in {file} run from {low} to {high}, but classes from 0{last}.")
    return labels[:n]


def labelled_subject(
    images: ImageSet, labels: Tensor | None, model: str, weights: str | None, seed: int, watch: Watch
) -> tuple[Subject, bool]:
    """The images with their model, and whether the classes they are scored by are labels."""
    known = images.labels if labels is None else labels
    target = "predicted" if known is None else "label"
    subject = make_subject(replace(images, labels=known), model, weights, target, seed, watch)
    if known is None:
        note("no labels were given: scores are those of the class that the model predicts.")
    return subject, known is not None


def check_answers(subject: Subject, output: Output) -> None:
    """Refuse a model that has no class probabilities before its images are explained, which takes longer."""
    model, x = subject.model, subject.x
    model_output_kind(model, x, predict(model, x), output, sum_tolerance(model))


def read_labels(file: str) -> Tensor:
    """The labels in an array file."""
    arrays = read_arrays(file)
    a = arrays.get("labels", next(iter(arrays.values()), None))
    if a is None or a.ndim != 1 or a.dtype.kind not in "iu":
        got = "nothing" if a is None else f"{a.dtype} of shape {a.shape}"
        raise BadInput(f"The labels in {file} are whole numbers, one per image, not {got}.")
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


def subject_scores(
    subject: Subject, maps: dict[str, Tensor], chains: Sequence[Chain], metrics: Sequence[str], **options: Any
) -> Scores:
    """The scores of the first images of a subject: of all that have maps."""
    from uproar.scoring import score_all  # tables load slowly

    n = min(len(a) for a in maps.values()) if maps else 0
    truth, samples = subject.context.truth, subject.context.samples
    boxes = None if samples is None else samples.boxes
    return score_all(
        subject.model,
        subject.x[:n],
        subject.target[:n],
        {name: a[:n] for name, a in maps.items()},
        metrics,
        mean=subject.context.mean,
        truth=None if truth is None else truth[:n],
        boxes=None if boxes is None else boxes[:n],
        explain={chain.name: _explainer(chain, subject) for chain in chains if not chain.files},
        **options,
    )


def _explainer(chain: Chain, subject: Subject) -> Any:
    """What explains other models or images as the chain explains those of the subject."""

    def again(model: torch.nn.Module, x: Tensor, target: Tensor, draws: Draws) -> Tensor:
        context = replace(subject.context, draws=draws, truth=None, samples=None)
        return explain_chains(model, x, target, context, [chain])[0]

    return again
