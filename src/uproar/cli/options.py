"""How commands declare options: the usual ones first in `--help`, the others as "Advanced"; shells complete names.

Nothing here imports torch: help is printed without it, and names come from the listing in the package.

uproar --install-completion                 # bash, zsh, fish or PowerShell, once
uproar explain --estimators grad,sg(i<Tab>  # ig, input_x_gradient
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from uproar.cli.screen import print_json, split_list
from uproar.data.locations import use_root
from uproar.errors import BadInput, StoreError
from uproar.paths import user_path

if TYPE_CHECKING:
    from uproar.study.spec import Study

ADVANCED = "Advanced"
LISTINGS = Path(__file__).with_name("listings.json")
"""What the package itself declares; written by `python -m uproar.cli.listings`, and a test says if it is old."""


@functools.cache
def listing(kind: str) -> list[dict[str, Any]]:
    """The tables of what the package declares of a kind."""
    return list(json.loads(LISTINGS.read_text(encoding="utf-8"))[kind])


def complete_names(*kinds: str) -> Callable[[str], list[str]]:
    """Offers names of some kinds for the last one of a list or of an expression.

    >>> complete_names("metrics")("road,dele")[0]
    'road,deletion'
    """

    def complete(incomplete: str) -> list[str]:
        before, last = re.fullmatch(r"(.*[,(\s])?(.*)", incomplete, re.DOTALL).groups(default="")  # type: ignore[union-attr]
        known = [row[0] for kind in kinds for table in listing(kind) for row in table["rows"]]
        return [before + name for name in known if name.startswith(last)]

    return complete


def _path(text: Any) -> Path:
    """A path; the empty one, which Python takes for the current folder, is refused."""
    if not str(text):
        raise BadInput('A file or folder has a name, not "".')
    return Path(text)


def check_folder(folder: Path) -> None:
    """Refuse a folder for results that cannot be made or written to, before anything is computed."""
    path = user_path(folder)
    existing = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not existing.is_dir():
        what = "a file" if existing.is_file() else "a link that leads nowhere"
        raise StoreError(f"Cannot write into {folder}: {existing} is {what}; choose another folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise StoreError(f"Cannot write into {folder}: {existing} is not yours to write to; choose another folder.")


def load_plugins(files: Iterable[str] | None) -> None:
    """Load what the user's files declare."""
    from uproar.extend import load_plugin  # torch loads slowly

    for file in files or ():
        load_plugin(file)


def option(
    takes: str, text: str, *names: str, default: str = "", panel: str | None = None, kind: str = "", **more: Any
) -> Any:
    """An option: the word for what it takes, what it does, what holds without it, names of which `kind` complete it."""
    shown = f"  [dim]\\[default: {escape(default)}][/]" if default else ""
    more |= {"autocompletion": complete_names(kind)} if kind else {}
    more |= {"parser": _path} if takes == "FOLDER" else {}
    return typer.Option(
        *names, metavar=takes, help=escape(text) + shown, rich_help_panel=panel, show_default=False, **more
    )


def advanced(takes: str, text: str, *names: str, **more: Any) -> Any:
    """An option that stands under "Advanced"."""
    return option(takes, text, *names, panel=ADVANCED, **more)


def names(kind: str, text: str, *flags: str, default: str = "") -> Any:
    """An option that lists names of a kind (as `uproar ls` has them), separated by commas or given several times."""
    return option("A,B,…", text, *flags, default=default, kind=kind)


def flag(name: str, text: str, advanced: bool = False) -> Any:
    """An option that takes no value."""
    return typer.Option(name, metavar="", help=escape(text), rich_help_panel=ADVANCED if advanced else None)


def argument(takes: str, text: str, *kinds: str, **more: Any) -> Any:
    """What stands in a command line without an option before it; names of some `kinds` complete it."""
    more |= {"autocompletion": complete_names(*kinds)} if kinds else {}
    return typer.Argument(metavar=takes, help=text, **{"show_default": False, **more})


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


ROOTS = "UPROAR_DATA, then ./data, then ~/.cache/uproar/data; downloads go to UPROAR_DATA or that cache"
SHARED = {
    "data_root": Annotated[
        Path | None, advanced("FOLDER", "Data sets are in this folder", "--data-root", default=ROOTS, callback=_use)
    ],
    "json": Annotated[bool, flag("--json", "Print JSON for programs, and nothing else", advanced=True)],
}
"""Options of every command. Worker processes get the folder of data sets through the environment."""


def add_command(app: typer.Typer, function: Callable[..., int], name: str = "", panel: str | None = None) -> None:
    """Add a function to the program as a command with the options that all have.

    A parameter whose type is a dataclass stands for its fields, each an option.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=keyword))
            continue
        groups[parameter.name] = parameter.annotation
        hints = get_type_hints(parameter.annotation, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                keyword,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(parameter.annotation)
        ]
    parameters += [inspect.Parameter(n, keyword, default=None, annotation=a) for n, a in SHARED.items()]

    @functools.wraps(function)
    def command(json: bool, data_root: Path | None, **values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return print_json(lambda: function(**values)) if json else function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name or function.__name__, cls=Command, rich_help_panel=panel)(command)


NETWORK = "Network, or net.py:build"

RunFolder = Annotated[Path, argument("FOLDER", "Folder of a run, e.g. runs/digits")]
Trust = Annotated[bool, flag("--trust", "Run the Python files that the folder's study names", advanced=True)]
Task = Annotated[str, option("NAME", "Data set (uproar ls tasks)", default="digits", kind="tasks")]
Model = Annotated[str, option("NAME", NETWORK, default="cnn-small", kind="models")]
Plugins = Annotated[list[str] | None, option("FILE", "Python file with your own methods or metrics")]
ScoredTarget = Annotated[
    str | None,
    advanced(
        "predicted|label|N",
        "The class, label or component that maps and scores follow",
        "--target",
        default="label, where there are labels",
    ),
]
Limit = Annotated[int, option("N", "At most so many images", default="500")]


@dataclass(frozen=True)
class RunAt:
    """The folder of a run, and where what it needs is now."""

    folder: RunFolder
    weights: Annotated[str | None, advanced("FILE", "The run's weights, where they have moved")] = None
    store: Annotated[
        str | None,
        advanced("FOLDER|URL", "The run's results, where they have moved, or with the password of their URL"),
    ] = None
    trust: Trust = False

    def read(self) -> tuple[Study, str, dict[str, Any]]:
        """Its study, its store and what is noted of it."""
        from uproar.study.record import read_run

        return read_run(self.folder, self.weights, self.store, self.trust)


@dataclass(frozen=True)
class Workers:
    """Who does the work."""

    jobs: Annotated[int | None, option("N", "Processes at a time", default="one per core")] = None
    ray: Annotated[str | None, advanced("auto|HOST:PORT", "Run on this Ray cluster")] = None
    slurm: Annotated[
        str | None, advanced("auto|KEY=VALUE,…", "Run on this SLURM cluster, e.g. partition=gpu,time=4h")
    ] = None


@dataclass(frozen=True)
class Changes:
    """What the command line puts in place of a study's settings; None leaves a setting as it is.

    The defaults that help shows are those of the study that runs without a file.
    """

    task: Annotated[str | None, option("NAME", "Data set (uproar ls tasks)", default="digits", kind="tasks")] = None
    model: Annotated[str | None, option("NAME", NETWORK, default="cnn-small", kind="models")] = None
    estimators: Annotated[list[str] | None, names("estimators", "Methods (uproar ls estimators)", default="usual")] = (
        None
    )
    metrics: Annotated[
        list[str] | None,
        names("metrics", "Evaluator, ROAR, KAR, ROAD, … (uproar ls metrics)", default="evaluator, ROAR, KAR"),
    ] = None
    seeds: Annotated[int | None, option("N", "Number of seeds (runs)", default="5")] = None
    plugin: Plugins = None
    limit: Annotated[int | None, advanced("N", "At most so many images per split", default="all")] = None
    audits: Annotated[
        list[str] | None,
        advanced("A,B,…", "Questions about the benchmark itself (uproar ls audits)", default="none", kind="audits"),
    ] = None
    fractions: Annotated[
        list[str] | None,
        advanced("T,T,…", "Shares of the pixels that ROAR and KAR remove or keep", default="0.1, 0.3, 0.5, 0.7, 0.9"),
    ] = None
    fill: Annotated[
        str | None, advanced("NAME", "What removed pixels become (uproar ls fills)", default="mean", kind="fills")
    ] = None
    recipe: Annotated[
        str | None,
        advanced("NAME", "How networks are trained (uproar ls recipes)", default="SGD, one cycle", kind="recipes"),
    ] = None
    epochs: Annotated[int | None, advanced("N", "Epochs of every training", default="12")] = None
    device: Annotated[
        str | None, advanced("NAME", "Where networks run: auto, cpu, cuda, cuda:1, mps", default="auto")
    ] = None
    weights: Annotated[str | None, advanced("FILE", "Trained weights of the base model", default="trained")] = None

    def study(self, file: str | None) -> Study:
        """A study by its file or name, changed; without one, the default study, named after its task."""
        load_plugins(self.plugin)  # which may declare the study, or its recipe
        from uproar.study.spec import Study, study_named

        changed = self.applied(study_named(file) if file else Study())
        if self.task is not None and file is None:
            changed = changed.with_changes(name=re.sub(r"[^\w.-]+", "-", self.task.partition("(")[0]))
        return changed

    def applied(self, base: Study) -> Study:
        """A study with these changes."""
        lists = ("estimators", "metrics", "audits")
        changes: dict[str, Any] = {name: split_list(getattr(self, name)) for name in lists}
        changes |= {name: getattr(self, name) for name in ("weights", "seeds", "device", "fill", "limit")}
        changes |= {"tasks": self.task, "models": self.model, "plugins": self.plugin}
        if texts := split_list(self.fractions):
            try:
                changes["fractions"] = [float(text) for text in texts]
            except ValueError:
                raise BadInput(f"--fractions takes numbers such as 0.1,0.5,0.9, not {','.join(texts)}.") from None
        if self.recipe is not None or self.epochs is not None:
            from uproar.training.recipe import Recipe

            recipe = base.recipe if self.recipe is None else Recipe.named(self.recipe)
            changes["recipe"] = {**recipe.model_dump(), **({} if self.epochs is None else {"epochs": self.epochs})}
        return base.with_changes(**changes)
