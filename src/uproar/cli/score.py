"""`uproar score`: all metrics of maps you have, or of estimators, on a fixed model; no retraining."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.markup import escape
from torch import Tensor

from uproar.arrays import read_arrays
from uproar.cli.console import errors, output, some, table
from uproar.cli.data import DataRoot
from uproar.cli.explain import bar, subject_of_files, subject_of_task
from uproar.cli.imputer import ready
from uproar.errors import BadInput
from uproar.estimators import Chain, explain_chains, read_chain
from uproar.estimators.stored import name_of
from uproar.extend import load_plugin
from uproar.metrics.base import read_metric
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study.maps import Subject, stored_maps

ASIDE = {"images", "labels", "targets"}
"""Arrays in a file of maps that are not maps."""
OUTPUTS = ("auto", "logit", "probability")
DEFAULT_METRICS = ("insertion", "deletion", "road", "average_drop")
DEFAULT_ESTIMATORS = ("random", "grad", "ig", "sg_sq(grad)")


def score(
    images: Annotated[
        str | None,
        typer.Argument(metavar="IMAGES", help="Folder of pictures or array file; else a task"),
    ] = None,
    maps: Annotated[
        list[str] | None, typer.Option(help="Your maps: .npz, .npy or .safetensors")
    ] = None,
    estimators: Annotated[
        list[str] | None, typer.Option(metavar="A,B,…", help="Estimators to run")
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option(metavar="A,B,…", help="See uproar ls metrics")
    ] = None,
    task: Annotated[str, typer.Option(help="Data set whose test images are scored")] = "digits",
    model: Annotated[str, typer.Option(help="Network: a name or file.py:factory")] = "cnn-small",
    weights: Annotated[
        str | None, typer.Option(help="Trained weights; for a task, else it is trained")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="Number of classes, for images of your own")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Labels: .npy file; else those of the images")
    ] = None,
    answers: Annotated[
        str, typer.Option("--output", help="What the model returns: auto, logit, probability")
    ] = "auto",
    limit: Annotated[int, typer.Option(help="At most so many images")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of all draws")] = 0,
    plugin: Annotated[
        list[str] | None, typer.Option(help="File with estimators of your own")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report")] = Path("runs/score"),
    data_root: DataRoot = None,
) -> int:
    """Score maps by metrics that need no retraining: a table, per-image values, paired comparisons, a report."""
    for file in plugin or ():
        load_plugin(file)
    asked = some("--metrics", metrics, DEFAULT_METRICS)
    for name in asked:
        read_metric(name)
    if answers not in OUTPUTS:
        raise BadInput(f"--output is {', '.join(OUTPUTS)}, not {answers!r}.")
    place = Store(out / "store")
    given = _read(maps)
    classes_given = None if labels is None else _labels(labels)
    subject, y = _subject(images, task, model, weights, classes, limit, seed, place, classes_given)
    names = some("--estimators", estimators, () if maps else DEFAULT_ESTIMATORS)
    chains = [read_chain(name) for name in names]
    found = _cut(given, len(subject.x))
    with bar("explaining") as listen:
        found |= stored_maps(subject, chains, place, listen)
    ready("mean", asked)
    from uproar.report import write_scores  # tables and plots load slowly
    from uproar.scoring import score_all

    explain = {chain.name: _explainer(chain, subject) for chain in chains if not chain.files}
    with bar("scoring") as listen:
        scores = score_all(
            subject.model, subject.x, y, found, asked, mean=subject.context.mean,
            truth=subject.context.truth, boxes=_boxes(subject), explain=explain,
            output=answers, seed=seed, listen=listen,  # type: ignore[arg-type]
        )  # fmt: skip
    command = shlex.join(["uproar", *sys.argv[1:]])
    page = write_scores(replace(scores, provenance={"command": command, "seed": seed}), out)
    for notice in scores.notices:
        errors.print(f"[yellow]Note:[/] {escape(notice)}", soft_wrap=True)
    _print(scores)
    output.print(f"{scores.forwards} images shown to the model.")
    output.print(f"Report: [bold]{escape(str(page))}[/]", soft_wrap=True)
    return 0


def _subject(
    images: str | None, task: str, model: str, weights: str | None, classes: int | None, limit: int, seed: int,
    store: Store, labels: Tensor | None,
) -> tuple[Subject, Tensor]:  # fmt: skip
    if limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}.")
    subject, _, y = (
        subject_of_task(task, model, weights, limit, "label", seed, store)
        if images is None
        else subject_of_files(images, model, weights, classes, limit, "predicted", seed)
    )
    if labels is not None:
        y = labels[:limit]
    if y is None:
        errors.print(
            "[yellow]Note:[/] no labels were given: the class the model predicts is followed."
        )
        y = subject.target
    return replace(subject, target=y), y


def _boxes(subject: Subject) -> Tensor | None:
    """The boxes of the images, where their task has any."""
    samples = subject.context.samples
    return None if samples is None or samples.boxes is None else samples.boxes[: len(subject.x)]


def _labels(file: str) -> Tensor:
    arrays = read_arrays(file)
    a = arrays.get("labels", next(iter(arrays.values()), None))
    if a is None or a.ndim != 1 or a.dtype.kind not in "iu":
        got = "nothing" if a is None else f"{a.dtype} of shape {a.shape}"
        raise BadInput(f"The labels in {file} are whole numbers, one per image, not {got}.")
    return torch.from_numpy(a.astype("int64"))


def _read(files: list[str] | None) -> dict[str, dict[str, Tensor]]:
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


def _cut(given: dict[str, dict[str, Tensor]], n: int) -> dict[str, Tensor]:
    """As many maps of each as there are images."""
    for file, arrays in given.items():
        for name, a in arrays.items():
            if len(a) < n:
                raise BadInput(
                    f"{file} has {len(a)} maps in {name!r}, but there are {n} images; lower --limit."
                )
    return {name: a[:n] for arrays in given.values() for name, a in arrays.items()}


def _explainer(chain: Chain, subject: Subject) -> Any:
    def again(model: torch.nn.Module, x: Tensor, target: Tensor, draws: Draws) -> Tensor:
        context = replace(subject.context, draws=draws, truth=None, samples=None)
        return explain_chains(model, x, target, context, [chain])[0]

    return again


def _print(scores: Any) -> None:
    for metric, group in scores.table.groupby("metric", sort=False):
        higher = bool(group["higher_is_better"].iloc[0])
        better = "higher is better" if higher else "lower is better"
        columns = ("method", ">value", ">95 % interval", ">images", ">undefined", "note")
        shown = table(f"{metric} ({better})", *columns)
        for row in group.sort_values("value", ascending=not higher).itertuples():
            value, low, high = (
                "–" if v != v else f"{v:.3f}" for v in (row.value, row.low, row.high)
            )
            note = escape(row.note)
            shown.add_row(
                escape(row.method), value, f"{low} … {high}", str(row.n), str(row.nan), note
            )
        output.print(shown)
