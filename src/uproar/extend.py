"""How to add to uproar without editing it: a decorator for everything that can be declared, and files that use them.

    from uproar import extend

    @extend.estimator(passes=1)                     (model, x, target) -> maps
    @extend.metric(higher_is_better=True, ...)      (batch, seen) -> responses
    @extend.task()                                  (*, options) -> uproar.Task
    @extend.fill()                                  (x, removed, around) -> images
    @extend.model()                                 (shape, classes, mean, std) -> torch.nn.Module
    @extend.audit(title=..., question=...)          (evidence) -> Finding
    @extend.recipe()                                () -> settings of a training

Keyword-only arguments of a function are its options. A file with such functions is given as `--plugin FILE`, or in a
study as `plugins = ["FILE"]`; an installed package names them as entry points (`uproar.estimators`, `uproar.tasks`, …).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.data.registry import tasks
from uproar.errors import BadInput
from uproar.estimators.registry import direct, ensemble, estimator, estimators, postprocess, register_file, transform
from uproar.lazy import lazy_names
from uproar.metrics.registry import metric, metrics
from uproar.models.registry import models
from uproar.plugins import load_file
from uproar.registry import Registry, load_later
from uproar.removal.fill import fills
from uproar.training.recipe import recipe, recipes

if TYPE_CHECKING:
    from uproar.audits.registry import audit
    from uproar.results.finding import Finding

__all__ = [
    "Finding",
    "audit",
    "direct",
    "ensemble",
    "estimator",
    "fill",
    "load_plugin",
    "metric",
    "model",
    "postprocess",
    "recipe",
    "task",
    "transform",
]

# what needs tables, which a worker process should not wait for
__getattr__ = lazy_names(__name__, {"audit": "uproar.audits.registry", "Finding": "uproar.results.finding"})

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def task(*, name: str | None = None, images: str = "", truth: str = "") -> Decorator:
    """Declare `(*, options) -> uproar.Task` under the function's name; positional arguments are tasks it is made from.

    `images` says what the images are, `truth` what is known to be important in them.
    """
    return tasks.declare(name, images=images, truth=truth)


def fill(*, name: str | None = None, uses_mask: bool = True, random: bool = False) -> Decorator:
    """Declare `(x, removed, around) -> images` under the function's name: what would stand in every pixel.

    `uses_mask=False` promises that it does not depend on which pixels are removed, `random=True` says that it draws.
    """
    return fills.declare(name, ("x", "removed", "around"), uses_mask=uses_mask, random=random)


def model(*, name: str | None = None) -> Decorator:
    """Declare `([shape], [classes], [mean], [std], *, options) -> torch.nn.Module` under the function's name."""
    return models.declare(name, ("shape", "classes", "mean", "std"))


def load_plugin(path: str | Path) -> list[str]:
    """Load a file that declares anything; the names of its estimators."""
    return declared_in(path)["estimator"]


def load_plugins_later(files: Iterable[str]) -> Callable[[], None]:
    """Load files when a name is asked for that nobody else declares, or when what is returned is called.

    A process that does not need them never runs them.
    """

    @functools.cache
    def load() -> None:
        for file in files:
            load_plugin(file)

    load_later.append(load)
    return load


def declared_in(path: str | Path) -> dict[str, list[str]]:
    """What a file declares once it is loaded, by kind; a file that declares nothing is refused."""
    module = load_file(path)
    register_file(module)
    name = module.__name__
    declared = {registry.kind: [entry.name for entry in registry.redeclare(name)] for registry in _registries()}
    if not any(declared.values()):
        raise BadInput(
            f"{Path(path).name} declares nothing: write a function (model, x, target) that returns one map per image, "
            "or declare an estimator, metric, task, fill, model, audit or recipe (from uproar import extend)."
        )
    return declared


def _registries() -> list[Registry]:
    audits = sys.modules.get("uproar.audits.registry")  # loaded by who declares one
    return [estimators, metrics, tasks, fills, models, recipes, *([audits.audits] if audits else [])]
