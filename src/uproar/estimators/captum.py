"""Any attribution class of Captum as an estimator: `captum:IntegratedGradients(n_steps=20)`.

A class by its name in `captum.attr`, or `captum:package.module.Class` for a subclass of `captum.attr.Attribution` found
elsewhere. Its options are those of its constructor and of `attribute`. Captum is imported when such a name is met.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.batches import in_batches
from uproar.errors import BadInput, BadShape, NotApplicable, one_line, unknown
from uproar.estimators.class_scores import rows_for
from uproar.estimators.layers import LayerName, last_conv_layer, module_named
from uproar.estimators.registry import Context
from uproar.models.forward import borrowed, returning_scores
from uproar.registry import Entry
from uproar.seeds import seeded_generators
from uproar.types import Images, Labels, RawMaps

_TOGETHER = frozenset(
    [
        *("Deconvolution", "DeepLift", "FeatureAblation", "GuidedBackprop", "GuidedGradCam", "InputXGradient"),
        *("LRP", "LayerDeepLift", "LayerFeatureAblation", "LayerGradCam", "LayerGradientXActivation", "LayerLRP"),
        *("Occlusion", "Saliency"),
    ]
)
"""Classes that treat the images of a batch one by one. All others get single images: they draw random numbers, or add
over many copies of the whole batch, in an order that depends on its size."""

REFERENCES = 16
"""Training images that stand for the data where a class wants many baselines."""


@functools.cache
def captum_entry(name: str) -> Entry:
    """The estimator that runs the Captum class `name`, with or without `captum:` in front."""
    short = name.removeprefix(PREFIX)
    cls = captum_class(short)
    options = class_options(cls)

    def estimate(model, x, target, context, **given):
        return _estimated(cls, model, x, target, context, given)

    estimate.__name__ = estimate.__qualname__ = PREFIX + short
    user = "" if cls.__module__.startswith("captum.") else cls.__module__
    estimate.__module__ = user or estimate.__module__
    estimate.__doc__ = f"{cls.__name__} as Captum has it."
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    inputs = [inspect.Parameter(given, kind) for given in ("model", "x", "target", "context")]
    estimate.__signature__ = inspect.Signature([*inputs, *options.values()])  # type: ignore[attr-defined]
    estimate.__annotations__ = {name: parameter.annotation for name, parameter in options.items()}
    captum = captum_package()
    facts = {
        "role": "estimator",
        "passes": lambda **given: float(given.get("n_steps") or given.get("n_samples") or 1),
        "needs": "what Captum's class needs",
        "model": True,
        "channels": not issubclass(cls, captum.attr.LayerAttribution),
        "version": captum.__version__,  # results of another one are not taken for its
        "formula": f"captum.attr.{cls.__name__}",
        "fails": "hooks see modules only: a ReLU called as a function, or used twice, is missed",
    }
    return Entry("estimator", PREFIX + short, estimate, facts, user, installed=user not in ("", "__main__"))


def _estimated(
    cls: Any, model: nn.Module, x: Images, target: Labels, context: Context, options: Mapping[str, Any]
) -> RawMaps:
    """The class's attributions as maps; the model comes back without hooks or marks of Captum."""
    values = _values(cls, model, x, context, options)
    built = {k: v for k, v in values.items() if k in parameters(cls.__init__)}
    given = {k: v for k, v in values.items() if k not in built}
    gradients = issubclass(cls, captum_package().attr.GradientAttribution)
    layered = issubclass(cls, captum_package().attr.LayerAttribution)

    def batch(x: Images, target: Labels) -> Tensor:
        x = x.detach().clone(memory_format=torch.channels_last).requires_grad_(gradients)
        attributions = method.attribute(x, target=target, **given)
        return _image_maps(attributions[0] if isinstance(attributions, tuple) else attributions, x, layered)

    with borrowed(model), _unmarked(model), torch.set_grad_enabled(gradients):
        try:
            method = cls(returning_scores(model, x[:2]), **built)
            if cls.__module__.startswith("captum.") and cls.__name__ in _TOGETHER:
                # the copies that Captum makes of each image stay within memory
                return in_batches(
                    batch, x, target, size=max(2, rows_for(x) // options.get("perturbations_per_eval", 1))
                )
            maps = []
            for i, stream in enumerate(context.draws.streams(PREFIX + cls.__name__)):
                with seeded_generators(stream.initial_seed()):  # Captum draws from the global generators
                    maps.append(batch(x[i : i + 1], target[i : i + 1]))
            return torch.cat(maps)
        except (AssertionError, NotImplementedError, TypeError) as error:
            if isinstance(error, TypeError) and not _refused_by_captum(error):
                raise
            reason = f"captum's {cls.__name__} refuses this: {one_line(error)}"
            raise NotApplicable(reason) from error


def _refused_by_captum(error: TypeError) -> bool:
    """Whether Captum raised it, or the call itself did not fit; one from a model or from torch is a fault."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = str(last.tb_frame.f_globals.get("__name__")) if last is not None else ""
    return where == __name__ or where.startswith("captum.")


def _values(cls: Any, model: nn.Module, x: Images, context: Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as Captum takes them: modules for names, tensors for baselines, windows with channels."""
    values = dict(options)
    _, c, h, w = x.shape
    if "layer" in values:
        values["layer"] = module_named(model, values["layer"] or last_conv_layer(model, x))
    if values.get("baselines") is not None:
        several = parameters(cls.attribute)["baselines"].default is inspect.Parameter.empty
        values["baselines"] = _baselines(values["baselines"], x, context, several)
    if values.get("feature_mask") is not None:
        side = values["feature_mask"]
        row, column = torch.arange(h)[:, None] // side, torch.arange(w)[None, :] // side
        squares = row * -(-w // side) + column
        values["feature_mask"] = squares.expand(1, c, h, w).to(x.device)
    for name in ("sliding_window_shapes", "strides"):
        if isinstance(values.get(name), int):
            values[name] = (c, values[name], values[name])
    return values


def _baselines(given: float | str, x: Images, context: Context, several: bool) -> Tensor | float:
    """A number, or images: the mean colour, or training images where a class wants many."""
    if given == "train":
        if not several:
            raise BadInput('baselines="train" is for classes that take many baselines, such as GradientShap.')
        if context.train is None:
            raise NotApplicable("training images are needed as baselines; give train=")
        rows = torch.linspace(0, len(context.train) - 1, min(REFERENCES, len(context.train))).long()
        return context.train.read(rows).to(x)
    colour = context.colour(x) if given == "mean" else x.new_full((1, 1, 1, 1), float(given))
    # two equal images, because Captum wants more than one
    return colour.expand(2 if several else 1, *x.shape[1:])


def _image_maps(attributions: Tensor, x: Images, layered: bool) -> Tensor:
    """Attributions to the image as they are; those to a layer summed over channels, at the image's size."""
    attributions = attributions.detach()
    if not layered and attributions.shape == x.shape:
        return attributions.contiguous()
    if not layered or attributions.dim() != 4 or len(attributions) != len(x):
        raise BadShape(
            f"Captum gave attributions {tuple(attributions.shape)} for images {tuple(x.shape)}; "
            "name a layer with feature maps (n, c, h, w)."
        )
    total = attributions.sum(1, keepdim=True)
    return F.interpolate(total, size=x.shape[2:], mode="bilinear", align_corners=False)


@contextmanager
def _unmarked(model: nn.Module) -> Iterator[None]:
    """Attributes that are put on modules inside are taken off afterwards."""
    before = {module: set(vars(module)) for module in model.modules()}
    try:
        yield
    finally:
        for module, names in before.items():
            for name in set(vars(module)) - names:
                delattr(module, name)


# Which classes of Captum explain an image's class, and which of their arguments can be written in an expression.


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
        default = None if name == "layer" else parameter.default
        if name == "baselines" and default is parameter.empty:
            default = "train"  # where many baselines are wanted, the training images are the data they stand for
        plain = default is parameter.empty or isinstance(default, bool | int | float | str | None)
        if plain and name not in _GIVEN | _FIXED:
            hint: Any = type(default) if isinstance(default, bool | float | str) else Any
            hint = Annotated[int, Field(ge=1)] if type(default) is int else hint
            hint = _HINTS.get(name, hint)
            options[name] = parameter.replace(kind=parameter.KEYWORD_ONLY, default=default, annotation=hint)
    return options
