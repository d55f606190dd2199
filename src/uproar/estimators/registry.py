"""The registry of estimators: how an estimator, a transform and a post-processing step are declared.

An estimator is a function `(model, x, target) -> map`: signed importance, (n, c, h, w), or (n, 1, h, w) where the
method knows no channels; larger = more important. Its keyword-only arguments are its options. It gets more by
naming it as a further positional argument:

    context   random draws, the mean colour, training images, known important pixels (see `Context`)
    base      the map of the estimator named in `of=`, at the same point, computed once for all who ask
    state     what its `prepare=` function made from the model and the training images, once per model

Facts stand on the decorator; tables, cost estimates and documentation read them from there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from uproar.data.task import Split
from uproar.errors import BadInput, NeedsColour, NotApplicable
from uproar.guard import guarded_call
from uproar.registry import Entry, Registry
from uproar.seeds import Draws
from uproar.types import KINDS, Kind

_MODULES = "attention bottleneck cam control decomposition extremal gradient perturbation transforms"
estimators = Registry("estimator", "uproar.estimators", tuple(f"uproar.estimators.{m}" for m in _MODULES.split()))
"""Maps, controls, transforms and filters: everything that may stand in a chain."""

COMMON_NAMES = {
    "saliency": "abs(grad)",
    "smoothgrad": "sg(abs(grad))",
    "smoothgrad_squared": "sg_sq(grad)",
    "vargrad": "var(grad)",
    "integrated_gradients": "ig",
    "input_x_gradient": "grad_input",
    "deeplift": "deep_lift",
    "deepshap": "deep_shap",
    "gradientshap": "grad_shap",
    "kernelshap": "kernel_shap",
    "guided_backpropagation": "guided_backprop",
    "deconvolution": "deconv",
    "gradcam": "grad_cam",
    "guided_gradcam": "guided_grad_cam",
    "scorecam": "score_cam",
}
"""What people and other libraries call methods, and what each stands for. Maps are those of Captum's defaults: saliency
is the size of the gradient, SmoothGrad the mean of that size over noisy copies. VarGrad is, as published, the variance
of the signed gradient."""
estimators.aliases = COMMON_NAMES

INPUTS = ("model", "x", "target")
EXTRAS = ("context", "base", "state")


@dataclass(frozen=True)
class Context:
    """What surrounds the images being explained."""

    draws: Draws
    mean: Tensor | None = None
    """Mean colour of the training images, (c,)."""
    train: Split | None = None
    """The training images, for estimators that need references or statistics."""
    truth: Tensor | None = None
    """The important pixels of these images, (n, h, w) bool, where they are known."""
    states: Mapping[str, Any] = field(default_factory=dict)
    """What `prepare` functions made, by the estimator's complete expression."""
    samples: Split | None = None
    """The split whose samples these are, by the row numbers of `draws`; None for images or models beside the task's."""

    def __len__(self) -> int:
        return len(self.draws)

    def __getitem__(self, rows: Any) -> Context:
        truth = None if self.truth is None else self.truth[rows]
        return replace(self, draws=self.draws[rows], truth=truth)

    def copies(self, numbers: range) -> Context:
        """Each sample repeated once per number, with random streams of its own."""
        truth = None if self.truth is None else self.truth.repeat_interleave(len(numbers), 0)
        return replace(self, draws=self.draws.copies(numbers), truth=truth, samples=None)

    def training_images(self, user: str) -> Split:
        """The training images; refused with the reason where they are not known."""
        if self.train is None:
            raise NotApplicable(f"{user} needs training images; give train=")
        return self.train

    def colour(self, x: Tensor) -> Tensor:
        """The mean colour as (1, c, 1, 1); refused with the reason where it is not known."""
        if self.mean is None:
            raise NeedsColour("the mean colour of the training images is needed; give train= or mean=")
        return self.mean.to(x).view(1, -1, 1, 1)


def estimator(
    name: str | Callable | None = None,
    *,
    passes: Callable[..., float] | float = 1,
    needs: str = "",
    channels: bool = True,
    model: bool = True,
    of: str | None = None,
    prepare: Callable[..., dict[str, Tensor]] | None = None,
    default_layers: Callable[[nn.Module, Tensor], Sequence[str]] | None = None,
    formula: str = "",
    paper: str = "",
    fails: str = "",
    softmax: bool = False,
    kinds: tuple[Kind, ...] = KINDS,
    informed: bool = False,
    by_class: bool = True,
    version: int = 1,
) -> Callable:
    """Declare `(model, x, target, ...) -> map` under the function's name, or another: `@estimator("my_method")`.

    `passes` is the cost per image in forward-and-backward passes, a number or a function of the options; `needs` says
    what the model must have; `channels` whether the map has one value per channel; `model=False` marks a control that
    never looks at the model, `informed=True` one that is told the class or the important pixels; `fails` names known
    failure modes; `default_layers(model, images)` names the layers that it looks at where its option `layer` or
    `layers` names none; `softmax` says that it asks for class probabilities whatever its options; `kinds` are the kinds
    of model outputs that it serves; `by_class=False` says that its map is the same for every class; `version` is raised
    when the numbers change, so that stored results of the old code are not taken for new ones.
    """
    facts = {"role": "estimator"} | locals()  # all arguments
    del facts["name"]
    if not (name is None or isinstance(name, str) or callable(name)):
        raise BadInput(f'An estimator is declared by @estimator or @estimator("its name"), not {name!r}.')
    declare = estimators.declare(name if isinstance(name, str) else None, (*INPUTS, *EXTRAS), **facts)
    return declare(name) if callable(name) else declare


def _of_role(role: str, inputs: tuple[str, ...]) -> Callable[..., Callable[[Callable], Callable]]:
    def declare(*, formula: str = "", paper: str = "") -> Callable[[Callable], Callable]:
        return estimators.declare(None, inputs, role=role, formula=formula, paper=paper)

    return declare


transform = _of_role("transform", ("a",))
"""Declare `map -> map`, value by value, on the signed map."""
ensemble = _of_role("ensemble", ("mean", "variance"))
"""Declare `(mean, variance) -> map` over noisy copies of the image; the variance has n below.

Its options must be those that describe the noise; ensembles with the same noise share one pass."""
postprocess = _of_role("postprocess", ("a", "draws"))
"""Declare `(map, [draws]) -> map` on the channel-reduced map, (n, h, w); `draws` are random numbers by sample."""


def direct(*, formula: str = "", paper: str = "") -> Callable[[Callable], Callable]:
    """Declare `(x, fraction, context) -> removed`: a control that is not a ranking.

    It says itself which features go at a fraction; it has no map and needs no model.
    """
    facts: dict[str, Any] = {"role": "direct", "formula": formula, "paper": paper, "model": False, "passes": 0}
    return estimators.declare(None, ("x", "fraction", "context"), **facts)


def run(entry: Entry, inputs: Sequence[Any], options: Mapping[str, Any], model: nn.Module | None = None) -> Any:
    """What an entry's function returns; a function of the user gets copies, and cannot change what others share."""
    return guarded_call(f"The estimator {entry.name}", entry.function, inputs, options, model)


def register_file(module: ModuleType) -> None:
    """Declare the plain functions `(model, x, target, ...)` of a loaded file as estimators under their own names.

    In a file that declares estimators itself, all others are helpers.
    """
    if estimators.redeclare(module.__name__):
        return
    for name, function in list(vars(module).items()):
        local = inspect.isfunction(function) and function.__module__ == module.__name__ and function.__name__[0] != "_"
        if local and tuple(inspect.signature(function).parameters)[:3] == INPUTS:
            register_function(name, function)


def register_function(name: str, function: Callable) -> Entry:
    """Declare a plain function as an estimator, with no facts but its name."""
    estimator(name)(function)
    return estimators[name]
