"""The options that change a study, declared once for all commands that take one."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from uproar.cli.completion import complete_names
from uproar.cli.console import split_list
from uproar.cli.options import HOW, NETWORK, WHAT, WHERE, BaseWeights, Plugins, names, option
from uproar.errors import BadInput

if TYPE_CHECKING:
    from uproar.study.spec import Study


@dataclass(frozen=True)
class Changes:
    """What the command line puts in place of a study's settings; None leaves a setting as it is.

    The defaults that help shows are those of the study that runs without a file; a test holds them to it.
    """

    task: Annotated[
        str | None,
        option(
            panel=WHAT,
            takes="NAME",
            text="Data set, see uproar ls tasks",
            default="digits",
            autocompletion=complete_names("tasks"),
        ),
    ] = None
    model: Annotated[
        str | None,
        option(panel=WHAT, takes="NAME", text=NETWORK, default="cnn-small", autocompletion=complete_names("models")),
    ] = None
    estimators: Annotated[
        list[str] | None,
        names(
            kind="estimators",
            text="Methods to compare, see uproar ls estimators",
            default="random, block_random, sobel, grad, guided_backprop, ig, sq(grad), sg(grad), sg_sq(grad), "
            "var(grad)",
        ),
    ] = None
    protocols: Annotated[
        list[str] | None,
        names(
            kind="protocols",
            text="What is done with the ranked pixels, see uproar ls protocols",
            default="evaluator, evaluator:model, roar, kar, roar:no-retrain, kar:no-retrain",
        ),
    ] = None
    evaluator_models: Annotated[
        list[str] | None,
        names(
            kind="models",
            text="Architectures of the evaluators, which replicates take in turn",
            default="another than the explained network's, but its own up to 10×10 and above 64×64 pixels",
        ),
    ] = None
    evaluator_images: Annotated[
        int | None,
        option(panel=WHAT, takes="N", text="Test images that evaluators judge at most, at random", default="1000"),
    ] = None
    metrics: Annotated[
        list[str] | None,
        names(kind="metrics", text="Scores of the maps without retraining, see uproar ls metrics", default="none"),
    ] = None
    checks: Annotated[
        list[str] | None,
        names(
            kind="metrics",
            text='Metrics that flag methods, of some test images, where an evaluator judges; "" asks none',
            default="randomisation(order=whole), sensitivity_max(samples=1)",
        ),
    ] = None
    audits: Annotated[
        list[str] | None,
        names(kind="audits", text="Questions about the benchmark itself, see uproar ls audits", default="none"),
    ] = None
    fractions: Annotated[
        list[str] | None,
        option(
            panel=WHAT,
            takes="T,T,…",
            text="Shares of the pixels that ROAR and KAR remove or keep",
            default="0.1, 0.3, 0.5, 0.7, 0.9",
        ),
    ] = None
    seeds: Annotated[
        int | None, option(panel=WHAT, takes="N", text="Number of replicates; verdicts need two", default="5")
    ] = None
    random_rankings: Annotated[
        int | None,
        option(
            panel=WHAT,
            takes="N",
            text="Random rankings per replicate, whose mean all methods are compared with",
            default="√ of the number of methods",
        ),
    ] = None
    fill: Annotated[
        str | None,
        option(
            panel=WHAT,
            takes="NAME",
            text="What removed pixels become, see uproar ls fills",
            default="mean",
            autocompletion=complete_names("fills"),
        ),
    ] = None
    limit: Annotated[
        int | None, option(panel=WHAT, takes="N", text="At most so many images per split", default="all")
    ] = None
    plugin: Plugins = None
    recipe: Annotated[
        str | None,
        option(
            panel=HOW,
            takes="NAME",
            text="How networks are trained, see uproar ls recipes",
            default="SGD, one cycle",
            autocompletion=complete_names("recipes"),
        ),
    ] = None
    epochs: Annotated[int | None, option(panel=HOW, takes="N", text="Epochs of every training", default="12")] = None
    device: Annotated[
        str | None,
        option(panel=HOW, takes="NAME", text="Where networks run: auto, cpu, cuda, cuda:1, mps", default="auto"),
    ] = None
    weights: BaseWeights = None
    pretrained: Annotated[
        str | None,
        option(panel=WHERE, takes="FILE", text="Weights from which every training starts", default="random ones"),
    ] = None

    def study(self, file: str | None) -> Study:
        """A study by its file or name, changed; without one, the default study, named after its task."""
        from uproar.extend import load_plugin  # torch loads slowly
        from uproar.study.bundled import study_named
        from uproar.study.spec import Study

        for plugin in self.plugin or ():  # which may declare the study, or its recipe
            load_plugin(plugin)
        base = study_named(file) if file else Study()
        changes: dict[str, Any] = {
            "tasks": self.task,
            "models": self.model,
            "weights": self.weights,
            "pretrained": self.pretrained,
            "estimators": split_list(self.estimators),
            "protocols": split_list(self.protocols),
            "evaluator_models": split_list(self.evaluator_models),
            "evaluator_images": self.evaluator_images,
            "metrics": split_list(self.metrics),
            "checks": split_list(self.checks),
            "audits": split_list(self.audits),
            "fractions": _numbers(split_list(self.fractions)),
            "seeds": self.seeds,
            "random_rankings": self.random_rankings,
            "recipe": self._recipe(base),
            "device": self.device,
            "fill": self.fill,
            "limit": self.limit,
            "plugins": self.plugin,
        }
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
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hints[name]) for name in names
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
