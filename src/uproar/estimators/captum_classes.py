"""Which classes of Captum explain an image's class, and which of their arguments can be written in an expression."""

from __future__ import annotations

import importlib
import inspect
from typing import Annotated, Any, Literal

from pydantic import Field

from uproar.errors import BadInput, one_line, unknown
from uproar.estimators.layers import LayerName

PREFIX = "captum:"

_MODEL = {"forward_func", "model"}
_GIVEN = {"inputs", "target"} | _MODEL
_FIXED = frozenset(
    [
        *("additional_forward_args", "custom_attribution_func", "device_ids", "grad_kwargs", "internal_batch_size"),
        *("interpretable_model", "layer_mask", "perturb_func", "return_convergence_delta", "return_input_shape"),
        *("show_progress", "similarity_func", "verbose"),
    ]
)
"""Arguments that cannot be written in an expression or do not change the map: Captum's defaults hold."""

_REFUSED = {
    "FeaturePermutation": "it exchanges values between the images of a batch",
    "LayerFeaturePermutation": "it exchanges values between the images of a batch",
    "LimeBase": "it needs functions as arguments; take captum:Lime",
    "NeuronConductance": "it explains a neuron, not a class",
    "NoiseTunnel": "write sg(...), sg_sq(...) or var(...) around an estimator instead",
}

Baselines = float | Literal["mean", "train"] | None
Sides = Annotated[int, Field(ge=1)] | tuple[int, ...]

_HINTS: dict[str, Any] = {
    "layer": LayerName | None,
    "baselines": Baselines,
    "layer_baselines": float | None,
    "feature_mask": Annotated[int, Field(ge=1)] | None,
    "sliding_window_shapes": Sides,
    "strides": Sides | None,
}


def captum_package() -> Any:
    """The package, or one sentence on how to get it."""
    try:
        importlib.import_module("captum.attr")
    except ImportError:
        raise BadInput("Estimators called captum:... need the package captum: pip install captum") from None
    return importlib.import_module("captum")


def captum_class(name: str) -> Any:
    """The class; a name nobody knows is refused with names that are near."""
    attr = captum_package().attr
    if name in _REFUSED:
        raise BadInput(f"captum:{name} cannot be used as an estimator: {_REFUSED[name]}.")
    module, _, last = name.rpartition(".")
    if module:
        return _imported(module, last, attr.Attribution)
    cls = getattr(attr, name, None)
    if not _usable(cls, attr.Attribution):
        usable = [PREFIX + known for known, each in vars(attr).items() if _usable(each, attr.Attribution)]
        raise unknown("Captum class", PREFIX + name, usable)
    return cls


def _imported(module: str, last: str, base: type) -> Any:
    try:
        cls = getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"captum:{module}.{last} cannot be imported: {one_line(error)}") from error
    if not _usable(cls, base):
        raise BadInput(
            f"captum:{module}.{last} must be a class of captum.attr.Attribution that takes a model, and whose "
            "attribute(inputs, target=...) explains a class."
        )
    return cls


def _usable(cls: Any, base: type) -> bool:
    """Whether this class takes a model, and images with a target."""
    if not inspect.isclass(cls) or not issubclass(cls, base) or cls.__name__ in _REFUSED:
        return False
    attribute = parameters(getattr(cls, "attribute", None))
    takes_model = _MODEL & set(parameters(cls.__init__))
    return bool(takes_model) and {"inputs", "target"} <= set(attribute)


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The named arguments of a method; none where there is no method."""
    if function is None:
        return {}
    plain = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    arguments = inspect.signature(function).parameters
    return {name: p for name, p in arguments.items() if p.kind not in plain and name != "self"}


def class_options(cls: Any) -> dict[str, inspect.Parameter]:
    """What can be said in an expression, with types that refuse what is plainly wrong."""
    arguments = {**parameters(cls.__init__), **parameters(cls.attribute)}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in arguments.items():
        default = _default(name, parameter)
        plain = default is parameter.empty or isinstance(default, bool | int | float | str | None)
        if plain and name not in _GIVEN | _FIXED:
            hint = _HINTS.get(name, _hint(default))
            options[name] = parameter.replace(kind=parameter.KEYWORD_ONLY, default=default, annotation=hint)
    return options


def _default(name: str, parameter: inspect.Parameter) -> Any:
    if name == "layer":
        return None
    # where many baselines are wanted, the training images are the data they stand for
    wanted = name == "baselines" and parameter.default is parameter.empty
    return "train" if wanted else parameter.default


def _hint(default: Any) -> Any:
    if isinstance(default, int) and not isinstance(default, bool):
        return Annotated[int, Field(ge=1)]
    return type(default) if isinstance(default, bool | float | str) else Any
