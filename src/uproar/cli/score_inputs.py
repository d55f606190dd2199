"""What `uproar score` judges: images with their model and labels, and maps from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uproar.arrays import read_arrays
from uproar.cli.console import errors
from uproar.cli.progress import Watch
from uproar.cli.subjects import subject_of_files, subject_of_task
from uproar.errors import BadInput
from uproar.estimators import Chain, explain_chains
from uproar.estimators.stored import name_of
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study.maps import Subject

ASIDE = {"images", "labels", "targets"}
"""Arrays in a file of maps that are not maps."""


def subject_of(
    images: str | None, task: str, model: str, weights: str | None, classes: int | None, limit: int, seed: int,
    store: Store, labels: Tensor | None, watch: Watch, size: int | None = None,
) -> tuple[Subject, Tensor, bool]:  # fmt: skip
    """The images with their model, the class each is judged by, and whether these are labels."""
    if limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}.")
    subject, _, y = (
        subject_of_task(task, model, weights, limit, "label", seed, store, watch)
        if images is None
        else subject_of_files(
            images, model, weights, classes, limit, "predicted", seed, watch, size
        )
    )
    if labels is not None:
        y = labels[:limit]
    labelled = y is not None
    if y is None:
        errors.print(
            "[yellow]Note:[/] no labels were given: the class the model predicts is followed."
        )
        y = subject.target
    return replace(subject, target=y), y, labelled


def boxes_of(subject: Subject) -> Tensor | None:
    """The boxes of the images, where their task has any."""
    samples = subject.context.samples
    return None if samples is None or samples.boxes is None else samples.boxes[: len(subject.x)]


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
    found: dict[str, dict[str, Tensor]] = {}
    for file in files or ():
        arrays = {name: a for name, a in read_arrays(file).items() if name not in ASIDE}
        if {"train", "test"} <= set(arrays):
            raise BadInput(
                f"{file} holds maps of a whole task: give it as --estimators {name_of(Path(file))}."
            )
        if not arrays:
            raise BadInput(f"There are no maps in {file}.")
        for name, a in arrays.items():
            if a.ndim < 3 or a.dtype.kind not in "fiub":
                raise BadInput(
                    f"The maps {name!r} in {file} are numbers (n, h, w), not {a.dtype} of shape {a.shape}."
                )
            if any(name in others for others in found.values()):
                raise BadInput(
                    f"Two files have maps called {name!r}: give one of them another name."
                )
        found[file] = {name: torch.from_numpy(a) for name, a in arrays.items()}
    return found


def cut(given: dict[str, dict[str, Tensor]], n: int) -> dict[str, Tensor]:
    """As many maps of each as there are images."""
    for file, arrays in given.items():
        for name, a in arrays.items():
            if len(a) < n:
                raise BadInput(
                    f"{file} has {len(a)} maps in {name!r}, but there are {n} images; lower --limit."
                )
    return {name: a[:n] for arrays in given.values() for name, a in arrays.items()}


def explainer(chain: Chain, subject: Subject) -> Any:
    """What explains other models or images as the chain explains those of the subject."""

    def again(model: torch.nn.Module, x: Tensor, target: Tensor, draws: Draws) -> Tensor:
        context = replace(subject.context, draws=draws, truth=None, samples=None)
        return explain_chains(model, x, target, context, [chain])[0]

    return again
