"""Options that several commands share, and how `--help` shows them: the usual ones first, the others as "Advanced".

Nothing here imports torch: help is printed without it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from uproar.cli.completion import complete_names, complete_runs
from uproar.data.locations import use_root
from uproar.errors import BadInput

ADVANCED = "Advanced"


def option(
    *names: str, takes: str, text: str, default: str | None = None, advanced: bool = False, kind: str = "", **more: Any
) -> Any:
    """An option: the word for what it takes, what it does, what holds without it, names of which `kind` complete it."""
    shown = "" if default is None else f"  [dim]\\[default: {escape(default)}][/]"
    panel = ADVANCED if advanced else None
    more |= {"autocompletion": complete_names(kind)} if kind else {}
    more |= {"parser": _path} if takes == "FOLDER" else {}
    return typer.Option(
        *names, metavar=takes, help=escape(text) + shown, rich_help_panel=panel, show_default=False, **more
    )


def _path(given: Any) -> Path:
    """A path that was given; the empty one, which Python takes for the current folder, is refused."""
    if not str(given):
        raise BadInput('A file or folder has a name, not "".')
    return Path(given)


def flag(name: str, *, text: str, advanced: bool = False) -> Any:
    """An option that takes no value."""
    return typer.Option(name, metavar="", help=escape(text), rich_help_panel=ADVANCED if advanced else None)


def names(*names: str, kind: str, text: str, default: str | None = None, advanced: bool = False) -> Any:
    """An option that lists names of a kind (as `uproar ls` has them), separated by commas or given several times."""
    return option(*names, takes="A,B,…", text=text, default=default, advanced=advanced, kind=kind)


def with_options(**groups: type) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A command with the fields of dataclasses as options, each in place of the parameter of that name."""

    def changed(command: Callable[..., int]) -> Callable[..., int]:
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            group = groups.get(parameter.name)
            hints = {} if group is None else get_type_hints(group, include_extras=True)
            if group is None:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            for field in () if group is None else fields(group):
                given = {"default": field.default, "annotation": hints[field.name]}
                parameters.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, **given))

        @functools.wraps(command)
        def called(**given: Any) -> int:
            made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
            return command(**made, **given)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return changed


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


def _use(folder: Path | None) -> Path | None:
    if folder is not None:
        use_root(folder)
    return folder


DataRoot = Annotated[
    Path | None,
    option(
        "--data-root",
        takes="FOLDER",
        text="Data sets are in this folder",
        default="UPROAR_DATA, then ./data, then ~/.cache/uproar/data; downloads go to UPROAR_DATA or that cache",
        advanced=True,
        callback=_use,
    ),
]
"""Where data sets are looked for first; worker processes get it through the environment."""
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="Folder of a run, e.g. runs/digits", show_default=False, autocompletion=complete_runs
    ),
]
Images = Annotated[
    str | None,
    typer.Argument(
        metavar="IMAGES", help="Folder of pictures or array file; else images of --task", show_default=False
    ),
]
Weights = Annotated[str | None, option(takes="FILE", text="Its trained weights", default="train on --task")]
Moved = Annotated[
    str | None, option("--weights", takes="FILE", text="The run's weights, where they have moved", advanced=True)
]
Stored = Annotated[
    str | None,
    option(
        "--store",
        takes="FOLDER|URL",
        text="The run's results, where they have moved, or with the password of their URL",
        advanced=True,
    ),
]
Trust = Annotated[bool, flag("--trust", text="Run the Python files that the folder's study names", advanced=True)]
Plugins = Annotated[list[str] | None, option(takes="FILE.py", text="Python file of your own estimators, metrics")]
Task = Annotated[str, option(takes="NAME", text="uproar ls tasks", default="digits", kind="tasks")]
NETWORK = "Network, or net.py:build"
Model = Annotated[str, option(takes="NAME", text=NETWORK, default="cnn-small", kind="models")]
Classes = Annotated[
    int | None,
    option(takes="N", text="Number of classes, for images of your own", default="the model's", advanced=True),
]
OUTPUTS = ("auto", "softmax", "sigmoid", "regression", "logit", "probability")
OutputOption = Annotated[
    str,
    option(
        "--output", takes="KIND", default="auto", text=f"What the model returns: {', '.join(OUTPUTS)}", advanced=True
    ),
]
ScoredTarget = Annotated[
    str | None,
    option(
        "--target",
        takes="predicted|label|N",
        text="The class, label or component that maps and scores follow",
        default="label, where there are labels",
        advanced=True,
    ),
]
PictureSize = Annotated[int | None, option("--size", takes="N", text="Scale and crop pictures to N×N", default="no")]
Seed = Annotated[int, option(takes="N", text="Seed of the network and of all draws", default="0", advanced=True)]
Limit = Annotated[int, option(takes="N", text="At most so many images", default="500")]
Jobs = Annotated[int | None, option(takes="N", text="Processes at a time", default="one per core")]
Slurm = Annotated[
    str | None,
    option(
        takes="auto|KEY=VALUE,…",
        text="Run on this SLURM cluster: partition, account, qos, constraint, exclude, time, memory, cpus, gpus, "
        "workers, logs",
        advanced=True,
    ),
]
RayAddress = Annotated[str | None, option(takes="auto|HOST:PORT", text="Run on this Ray cluster", advanced=True)]
