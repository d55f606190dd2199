"""`uproar layers`: the layers of a network that methods can look at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from uproar.cli.completion import complete_names
from uproar.cli.console import note, output, table
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import Plugins


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
    task: Annotated[
        str,
        typer.Option(
            "--task", metavar="NAME", help="The task whose images it sees", autocompletion=complete_names("tasks")
        ),
    ] = "digits",
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="FILE", help="Weights, safetensors or a table of tensors")
    ] = None,
    plugin: Plugins = None,
) -> int:
    """List the layers of a network with their shapes, and which of them methods take where none is named."""
    from uproar.data import load  # torch loads slowly
    from uproar.estimators.layer_candidates import layer_candidates
    from uproar.extend import load_plugin
    from uproar.models import ModelSpec, build
    from uproar.models.weights import load_weights

    for file in plugin or ():
        load_plugin(file)
    chosen = load(task)
    network = build(ModelSpec.of(model), chosen, 0)
    network = network if weights is None else load_weights(network, weights)
    candidates, refusals = layer_candidates(network.eval(), chosen.test.read(slice(0, 2)))
    add_to_json(layers=[asdict(each) for each in candidates], refusals=refusals)
    shown = table(f"Layers of {model} on {task}", "layer", "module", "output of an image", "places", "default of")
    for each in candidates:
        shape, places = " × ".join(map(str, each.shape)), " × ".join(map(str, each.grid))
        shown.add_row(escape(each.name), each.module, shape, places, ", ".join(each.default_of))
    output.print(shown)
    note(*(f"{family} has no default here: {reason}." for family, reason in refusals.items()))
    taken = next((each.name for each in candidates if "CAM" in each.default_of), "NAME")
    words = ("--weights", weights) if weights else ()
    print_next(command("explain", "--task", task, "--model", model, *words, "--estimators", f"grad_cam(layer={taken})"))
    return 0
