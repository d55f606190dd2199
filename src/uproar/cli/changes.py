"""The options that change a study, declared once for all commands that take one."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from uproar.cli.console import listed
from uproar.errors import BadInput

if TYPE_CHECKING:
    from uproar.study.spec import Study

Many = Annotated[list[str] | None, typer.Option(metavar="A,B,…")]
Weights = Annotated[
    str | None, typer.Option(metavar="FILE", help="Trained weights of the base model")
]


@dataclass(frozen=True)
class Changes:
    """What the command line puts in place of a study's settings; None leaves a setting as it is."""

    task: Annotated[str | None, typer.Option(help="Data set, e.g. digits")] = None
    model: Annotated[str | None, typer.Option(help="Network: a name or file.py:factory")] = None
    weights: Weights = None
    pretrained: Annotated[
        str | None, typer.Option(metavar="FILE", help="Weights from which every training starts")
    ] = None
    estimators: Many = None
    protocols: Many = None
    metrics: Many = None
    audits: Many = None
    fractions: Many = None
    seeds: Annotated[int | None, typer.Option(help="Number of replicates")] = None
    recipe: Annotated[
        str | None, typer.Option(help="How networks are trained: see `uproar ls recipes`")
    ] = None
    epochs: Annotated[int | None, typer.Option(help="Epochs of every training")] = None
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda, cuda:1, mps  [default: auto]")
    ] = None
    fill: Annotated[str | None, typer.Option(help="What removed pixels become")] = None
    limit: Annotated[int | None, typer.Option(help="Use at most so many images per split")] = None
    plugin: Annotated[list[str] | None, typer.Option(help="File with estimators of your own")] = (
        None
    )

    def study(self, file: str | None) -> Study:
        """A study by its file or name, changed; without one, the default study, named after its task."""
        from uproar.study.shipped import study_named  # torch loads slowly
        from uproar.study.spec import Study

        base = study_named(file) if file else Study()
        changes: dict[str, Any] = {
            "tasks": self.task, "models": self.model, "weights": self.weights,
            "pretrained": self.pretrained, "estimators": listed(self.estimators),
            "protocols": listed(self.protocols), "metrics": listed(self.metrics),
            "audits": listed(self.audits), "fractions": _numbers(listed(self.fractions)),
            "seeds": self.seeds, "recipe": self._recipe(base), "device": self.device, "fill": self.fill,
            "limit": self.limit, "plugins": self.plugin,
        }  # fmt: skip
        if self.task is not None and file is None:
            changes["name"] = re.sub(r"[^\w.-]+", "-", self.task.partition("(")[0])
        return base.with_changes(**changes)

    def _recipe(self, base: Study) -> dict[str, Any] | None:
        if self.recipe is None and self.epochs is None:
            return None
        from uproar.training.recipe import Recipe

        chosen = base.recipe if self.recipe is None else Recipe.named(self.recipe)
        shorter = {} if self.epochs is None else {"epochs": self.epochs}
        return {**chosen.model_dump(), **shorter}


def _numbers(texts: list[str] | None) -> list[float] | None:
    try:
        return None if texts is None else [float(text) for text in texts]
    except ValueError as error:
        raise BadInput(f"--fractions takes numbers such as 0.1,0.5,0.9 ({error}).") from None


def changing(command: Callable[..., int]) -> Callable[..., int]:
    """A command with the options of `Changes` in place of its parameter `changes`."""
    hints = get_type_hints(Changes, include_extras=True)
    names = [field.name for field in fields(Changes)]
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hints[name]
        )
        for name in names
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
    ]
    place = [parameter.name for parameter in own].index("changes")
    every = [*own[:place], *options, *own[place + 1 :]]

    @functools.wraps(command)
    def changed(**given: Any) -> int:
        changes = Changes(**{name: given.pop(name) for name in names})
        return command(changes=changes, **given)

    changed.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    changed.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return changed
