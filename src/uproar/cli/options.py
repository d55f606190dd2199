"""Options that several commands share, and how `--help` shows them.

Nothing here imports torch: help is printed without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from uproar.cli.completion import complete_names, complete_runs

WHAT = "What to run"
HOW = "How to run it"
WHERE = "Where things are"


def option(*names: str, panel: str, takes: str, text: str, default: str | None = None, **more: Any) -> Any:
    """An option with the word for what it takes, what it does, and what holds without it."""
    shown = "" if default is None else f"  [dim]\\[default: {escape(default)}][/]"
    help_text = escape(text) + shown
    return typer.Option(*names, metavar=takes, help=help_text, rich_help_panel=panel, show_default=False, **more)


def flag(name: str, *, panel: str, text: str, **more: Any) -> Any:
    """An option that takes no value."""
    return typer.Option(name, metavar="", help=escape(text), rich_help_panel=panel, **more)


def names(*names: str, kind: str, panel: str = WHAT, text: str, default: str | None = None) -> Any:
    """An option that lists names of a kind (as `uproar ls` has them), separated by commas or given several times."""
    offered = complete_names(kind)
    return option(*names, panel=panel, takes="A,B,…", text=text, default=default, autocompletion=offered)


class _PlainHelp:
    """Help without the names of Python types: `<bool>` and `<str>` say nothing to who reads them."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: None
        return parameters


class Command(_PlainHelp, TyperCommand):
    """A command with plain help."""


class Group(_PlainHelp, TyperGroup):
    """A group of commands with plain help."""


RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="Folder of a run, e.g. runs/digits", show_default=False, autocompletion=complete_runs
    ),
]
Images = Annotated[
    str | None,
    typer.Argument(
        metavar="IMAGES", help="Folder of pictures or array file; without it, the images of --task", show_default=False
    ),
]
Weights = Annotated[
    str | None,
    option(
        panel=WHERE,
        takes="FILE",
        text="Trained weights of the network",
        default="it is trained on the task; with images of your own, as it is built",
    ),
]
BaseWeights = Annotated[
    str | None, option(panel=WHERE, takes="FILE", text="Trained weights of the base model", default="it is trained")
]
Moved = Annotated[
    str | None,
    option(
        "--weights",
        panel=WHERE,
        takes="FILE",
        text="The run's file of trained weights, where it has moved",
        default="where it was",
    ),
]
Stored = Annotated[
    str | None,
    option(
        "--store",
        panel=WHERE,
        takes="FOLDER|URL",
        text="The run's results, where they have moved, or with the password of their URL",
        default="where they were",
    ),
]
Trust = Annotated[
    bool,
    flag(
        "--trust", panel=WHERE, text="Run the code that the folder names, though somebody else made it or it was moved"
    ),
]
Plugins = Annotated[
    list[str] | None,
    option(panel=WHAT, takes="FILE.py", text="A file that declares estimators, metrics, … of your own"),
]
Task = Annotated[
    str,
    option(
        panel=WHAT,
        takes="NAME",
        text="Data set, see uproar ls tasks",
        default="digits",
        autocompletion=complete_names("tasks"),
    ),
]
NETWORK = "Network, see uproar ls models, or FILE.py:FACTORY"
Model = Annotated[
    str, option(panel=WHAT, takes="NAME", text=NETWORK, default="cnn-small", autocompletion=complete_names("models"))
]
Classes = Annotated[
    int | None,
    option(panel=WHAT, takes="N", text="Number of classes, for images of your own", default="what the model has"),
]
OUTPUTS = ("auto", "softmax", "sigmoid", "regression", "logit", "probability")
OutputOption = Annotated[
    str,
    option("--output", panel=WHAT, takes="KIND", default="auto", text=f"What the model returns: {', '.join(OUTPUTS)}"),
]
ScoredTarget = Annotated[
    str | None,
    option(
        "--target",
        panel=WHAT,
        takes="predicted|label|N",
        text="The class, label or component that maps and scores follow",
        default="label, where there are labels",
    ),
]
PictureSize = Annotated[
    int | None,
    option(
        "--size",
        panel=WHAT,
        takes="N",
        text="Scale pictures of your own and keep the middle N×N pixels",
        default="as they are",
    ),
]
Seed = Annotated[int, option(panel=HOW, takes="N", text="Seed of the network and of all draws", default="0")]
Jobs = Annotated[int | None, option(panel=HOW, takes="N", text="Processes at a time", default="one per core")]
Slurm = Annotated[
    str | None,
    option(
        panel=HOW,
        takes="auto|KEY=VALUE,…",
        text="Run on this SLURM cluster: partition, account, qos, constraint, exclude, time, memory, cpus, gpus, "
        "workers, logs",
        default="this machine",
    ),
]
RayAddress = Annotated[
    str | None, option(panel=HOW, takes="auto|HOST:PORT", text="Run on this Ray cluster", default="this machine")
]
