"""The options that change a study, declared once for all commands that take one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from uproar.cli.console import split_list
from uproar.cli.options import NETWORK, Plugins, names, option
from uproar.errors import BadInput

if TYPE_CHECKING:
    from uproar.study.spec import Study


@dataclass(frozen=True)
class Changes:
    """What the command line puts in place of a study's settings; None leaves a setting as it is.

    The defaults that help shows are those of the study that runs without a file.
    """

    task: Annotated[str | None, option(takes="NAME", text="uproar ls tasks", default="digits", kind="tasks")] = None
    model: Annotated[str | None, option(takes="NAME", text=NETWORK, default="cnn-small", kind="models")] = None
    estimators: Annotated[
        list[str] | None, names(kind="estimators", text="uproar ls estimators", default="the usual ones")
    ] = None
    protocols: Annotated[
        list[str] | None, names(kind="protocols", text="uproar ls protocols", default="usual ones")
    ] = None
    metrics: Annotated[list[str] | None, names(kind="metrics", text="uproar ls metrics", default="none")] = None
    seeds: Annotated[int | None, option(takes="N", text="Number of replicates", default="5")] = None
    plugin: Plugins = None
    limit: Annotated[
        int | None, option(takes="N", text="At most so many images per split", default="all", advanced=True)
    ] = None
    audits: Annotated[
        list[str] | None,
        names(
            kind="audits",
            text="Questions about the benchmark itself, see uproar ls audits",
            default="none",
            advanced=True,
        ),
    ] = None
    checks: Annotated[
        list[str] | None,
        names(
            kind="metrics",
            text='Sanity and stability checks to run ("" for none)',
            default="randomisation(order=whole), sensitivity_max(samples=1)",
            advanced=True,
        ),
    ] = None
    fractions: Annotated[
        list[str] | None,
        option(
            takes="T,T,…",
            text="Shares of the pixels that ROAR and KAR remove or keep",
            default="0.1, 0.3, 0.5, 0.7, 0.9",
            advanced=True,
        ),
    ] = None
    fill: Annotated[
        str | None,
        option(
            takes="NAME",
            text="What removed pixels become, see uproar ls fills",
            default="mean",
            kind="fills",
            advanced=True,
        ),
    ] = None
    random_rankings: Annotated[
        int | None,
        option(
            takes="N",
            text="Random rankings per replicate, whose mean all methods are compared with",
            default="√ of the number of methods",
            advanced=True,
        ),
    ] = None
    evaluator_models: Annotated[
        list[str] | None,
        names(
            kind="models",
            text="Architectures of the evaluators, which replicates take in turn",
            default="another than the explained network's, but its own up to 10×10 and above 64×64 pixels",
            advanced=True,
        ),
    ] = None
    evaluator_images: Annotated[
        int | None,
        option(takes="N", text="Test images that evaluators score at most, at random", default="1000", advanced=True),
    ] = None
    recipe: Annotated[
        str | None,
        option(
            takes="NAME",
            text="How networks are trained, see uproar ls recipes",
            default="SGD, one cycle",
            kind="recipes",
            advanced=True,
        ),
    ] = None
    epochs: Annotated[int | None, option(takes="N", text="Epochs of every training", default="12", advanced=True)] = (
        None
    )
    device: Annotated[
        str | None,
        option(takes="NAME", text="Where networks run: auto, cpu, cuda, cuda:1, mps", default="auto", advanced=True),
    ] = None
    weights: Annotated[
        str | None, option(takes="FILE", text="Trained weights of the base model", default="trained", advanced=True)
    ] = None
    pretrained: Annotated[
        str | None,
        option(takes="FILE", text="Weights from which every training starts", default="random ones", advanced=True),
    ] = None

    def study(self, file: str | None) -> Study:
        """A study by its file or name, changed; without one, the default study, named after its task."""
        from uproar.extend import load_plugin  # torch loads slowly
        from uproar.study.spec import Study, study_named

        for plugin in self.plugin or ():  # which may declare the study, or its recipe
            load_plugin(plugin)
        changed = self.applied(study_named(file) if file else Study())
        if self.task is not None and file is None:
            name = re.sub(r"[^\w.-]+", "-", self.task.partition("(")[0])
            changed = changed.with_changes(name=name)
        return changed

    def applied(self, base: Study) -> Study:
        """A study with these changes."""
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
