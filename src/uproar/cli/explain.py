"""`uproar explain`: maps of some images, as a picture and as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.markup import escape
from rich.progress import Progress
from torch import Tensor

from uproar.arrays import write_arrays
from uproar.cli.console import errors, listed, output
from uproar.cli.data import DataRoot
from uproar.data.pictures import read_images
from uproar.errors import BadInput, BadOption
from uproar.estimators import Context, read_chain
from uproar.extend import load_plugin
from uproar.models import ModelSpec, make
from uproar.models.weights import load_weights
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study.maps import Subject, stored_maps
from uproar.study.spec import study_of
from uproar.study.steps import Setting, bench_for
from uproar.training import predict

DEFAULT = ("grad", "guided_backprop", "ig", "sg(grad)", "sg_sq(grad)")
PICTURES = (".png", ".svg", ".html")
SHOWN = 8
"""Images in the picture; the array file has them all."""


def explain(
    images: Annotated[
        str | None,
        typer.Argument(
            metavar="[IMAGES]", help="Folder of pictures, picture or array file; else a task"
        ),
    ] = None,
    estimators: Annotated[
        list[str] | None, typer.Option(metavar="A,B,…", help="Chains, e.g. grad,sg_sq(ig)")
    ] = None,
    task: Annotated[str, typer.Option(help="Data set whose test images are explained")] = "digits",
    model: Annotated[str, typer.Option(help="Network: a name or file.py:factory")] = "cnn-small",
    weights: Annotated[
        str | None, typer.Option(help="Trained weights; for a task, else it is trained")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="Number of classes, for images of your own")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many images")] = 64,
    target: Annotated[
        str, typer.Option(help="Class explained: predicted, label or a number")
    ] = "predicted",
    seed: Annotated[int, typer.Option(help="Seed of the network and of all draws")] = 0,
    plugin: Annotated[
        list[str] | None, typer.Option(help="File with estimators of your own")
    ] = None,
    out: Annotated[Path, typer.Option(help="Picture: .png, .svg or .html")] = Path("maps.png"),
    save: Annotated[Path | None, typer.Option(help="Maps as arrays: .npz or .safetensors")] = None,
    store: Annotated[
        str, typer.Option(help="Where finished maps are kept: folder or URL")
    ] = "runs/explain/store",
    data_root: DataRoot = None,
) -> int:
    """Show what estimators mark in images, side by side; the same command again goes on where it was stopped."""
    if out.suffix not in PICTURES:
        raise BadInput(f"A picture ends in {', '.join(PICTURES)}, not {out.name!r}.")
    if limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}.")
    for file in plugin or ():
        load_plugin(file)
    chains = [read_chain(name) for name in listed(estimators) or DEFAULT]
    place = Store(store)
    subject, titles, labels = (
        subject_of_task(task, model, weights, limit, target, seed, place)
        if images is None
        else subject_of_files(images, model, weights, classes, limit, target, seed)
    )
    with bar("explaining") as listen:
        maps = stored_maps(subject, chains, place, listen)
    arrays = {name: a.numpy() for name, a in maps.items()}
    from uproar.report.mapsheet import write_map_sheet  # plots load slowly

    few = {name: a[:SHOWN] for name, a in arrays.items()}
    write_map_sheet(out, subject.x[:SHOWN].numpy(), few, titles[:SHOWN])
    output.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if save is not None:
        extra: dict[str, Any] = {"images": subject.x.numpy(), "targets": subject.target.numpy()}
        if labels is not None:
            extra["labels"] = labels.numpy()
        write_arrays(save, {**arrays, **extra})
        output.print(f"Arrays: [bold]{escape(str(save))}[/]", soft_wrap=True)
    return 0


def subject_of_task(
    task: str, model: str, weights: str | None, limit: int, target: str, seed: int, store: Store
) -> tuple[Subject, list[str], Tensor]:
    """The test images of a task with its base model, their names and labels."""
    study = study_of({"tasks": task, "models": model, "weights": weights, "seeds": (seed,)})
    bench = bench_for(Setting.all_of(study)[0], store.root)
    test = bench.task.test
    x, y = test.read(slice(0, limit)), test.labels[:limit]
    net = bench.base(seed)[0]
    context = Context(
        Draws.of(seed, len(x)), bench.task.mean, bench.task.train, test.truth(slice(0, limit))
    )
    subject = Subject(net, x, _targets(net, x, y, target), context)
    return subject, [bench.task.classes[k] for k in y.tolist()], y


def subject_of_files(
    images: str,
    model: str,
    weights: str | None,
    classes: int | None,
    limit: int,
    target: str,
    seed: int,
) -> tuple[Subject, list[str], Tensor | None]:
    """Images of the user's own with a model, their names, and labels where there are any."""
    x, titles, labels = read_images(images)
    x, labels = x[:limit], None if labels is None else labels[:limit]
    mean, std = x.mean((0, 2, 3)), x.std((0, 2, 3))
    c, h, w = x.shape[1:]
    net = make(ModelSpec.of(model), seed, (c, h, w), classes, mean, std)
    if weights is not None:
        load_weights(net, weights)
    context = Context(Draws.of(seed, len(x)), mean)
    return Subject(net.eval(), x, _targets(net, x, labels, target), context), titles, labels


def _targets(model: torch.nn.Module, x: Tensor, labels: Tensor | None, target: str) -> Tensor:
    if target == "label":
        if labels is None:
            raise BadInput(
                "--target label needs labels: give an array file with 'labels', or a task."
            )
        return labels
    if target == "predicted":
        return predict(model, x).argmax(1)
    if not target.isdigit():
        raise BadOption(f"--target is predicted, label or the number of a class, not {target!r}.")
    return torch.full((len(x),), int(target))


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for `listen(done, total)` on a terminal; nothing elsewhere."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as shown:
        line = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(line, completed=done, total=total)
