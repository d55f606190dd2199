"""`uproar layers`: the layers of a network that methods can look at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from uproar.cli.checks import check_classes
from uproar.cli.completion import complete_names
from uproar.cli.console import check_size, note, output, table
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next, same_subject
from uproar.cli.options import Classes, PictureSize, Plugins, Task, Weights


def layers(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="vit-small, net.py:build, timm:NAME, ...",
            show_default=False,
            autocompletion=complete_names("models"),
        ),
    ],
    images: Annotated[
        str | None,
        typer.Argument(
            metavar="IMAGES",
            help="What it sees: a folder of pictures, picture or array file; without it, images of --task",
            show_default=False,
        ),
    ] = None,
    task: Task = "digits",
    classes: Classes = None,
    size: PictureSize = None,
    plugin: Plugins = None,
    weights: Weights = None,
) -> int:
    """List the layers of a network with their shapes, and which of them methods take where none is named."""
    check_size(size, images)
    check_classes(classes, images)
    from uproar.estimators.layer_candidates import layer_candidates  # torch loads slowly
    from uproar.extend import load_plugin
    from uproar.study.subjects import example_images

    for file in plugin or ():
        load_plugin(file)
    network, x = example_images(images, task, model, weights, classes, size)
    candidates, refusals = layer_candidates(network.eval(), x)
    add_to_json(layers=[asdict(each) for each in candidates], refusals=refusals)
    shown = table(
        f"Layers of {model} on {images or task}", "layer", "module", "output of an image", "places", "default of"
    )
    for each in candidates:
        shape, places = " × ".join(map(str, each.shape)), " × ".join(map(str, each.grid))
        shown.add_row(escape(each.name), each.module, shape, places, ", ".join(each.default_of))
    output.print(shown)
    note(*(f"{family} has no default here: {reason}." for family, reason in refusals.items()))
    taken = next((each.name for each in candidates if "CAM" in each.default_of), "NAME")
    again = same_subject(images, task, model, weights, classes, plugin, size=size)
    print_next(command("explain", *again, "--estimators", f"grad_cam(layer={taken})"))
    return 0
