"""`uproar explain`: maps of some images, as a picture and as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from uproar.api import explain as explain_images
from uproar.arrays import write_arrays
from uproar.cli.console import listed, output
from uproar.errors import BadInput
from uproar.store import Store
from uproar.study.spec import study_of
from uproar.study.steps import Setting, bench_for


def explain(
    estimators: Annotated[
        list[str] | None, typer.Option(metavar="A,B,…", help="Chains, e.g. grad,sg_sq(ig)")
    ] = None,
    task: Annotated[str, typer.Option(help="Data set")] = "digits",
    model: Annotated[str, typer.Option(help="Network: a name or file.py:factory")] = "cnn-small",
    weights: Annotated[str | None, typer.Option(help="Trained weights; else it is trained")] = None,
    images: Annotated[int, typer.Option(help="How many test images")] = 6,
    target: Annotated[str, typer.Option(help="Class explained: predicted or label")] = "predicted",
    seed: Annotated[int, typer.Option(help="Seed of the network and of all draws")] = 0,
    plugin: Annotated[list[str] | None, typer.Option(help="File with estimators of your own")] = None,
    out: Annotated[Path, typer.Option(help="Picture: .png, .svg or .html")] = Path("maps.png"),
    save: Annotated[Path | None, typer.Option(help="Maps as arrays: .npz or .safetensors")] = None,
    store: Annotated[Path, typer.Option(help="Folder where the network is kept")] = Path("runs/explain/store"),
) -> int:  # fmt: skip
    """Show what estimators mark in some test images, side by side."""
    names = listed(estimators) or ["grad", "guided_backprop", "ig", "sg(grad)", "sg_sq(grad)"]
    if images < 1:
        raise BadInput(f"--images must be at least 1, not {images}.")
    study = study_of(
        {"tasks": task, "models": model, "weights": weights, "estimators": names, "seeds": (seed,),
         "plugins": tuple(plugin or ()), "target": target}
    )  # fmt: skip
    bench = bench_for(Setting.all_of(study)[0], str(Store(store).root))
    net = bench.base(seed)[0]
    test = bench.task.test
    x, y = test.read(slice(0, images)), test.labels[:images]
    maps = explain_images(
        net, x, names, target=y if target == "label" else None, mean=bench.task.mean, seed=seed,
        train=bench.task.train.read(slice(None)),
    )  # fmt: skip
    titles = [bench.task.classes[k] for k in y.tolist()]
    from uproar.report.mapsheet import write_map_sheet  # plots load slowly

    write_map_sheet(out, x.numpy(), {name: a.numpy() for name, a in maps.items()}, titles)
    output.print(f"Picture: [bold]{escape(str(out))}[/]", soft_wrap=True)
    if save is not None:
        arrays = {name: a.numpy() for name, a in maps.items()}
        write_arrays(save, {**arrays, "images": x.numpy(), "labels": y.numpy()})
        output.print(f"Arrays: [bold]{escape(str(save))}[/]", soft_wrap=True)
    return 0
