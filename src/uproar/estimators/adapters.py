"""Estimators of others: finished maps in a file (`maps:FILE`), and every attribution class of Captum (`captum:CLASS`).

`maps:grad.safetensors` holds arrays `train` and `test`, (n, h, w) or (n, c, h, w), in the order of the task's images.
Where it also has `train_labels` or `test_labels`, they must be the task's: maps in another order are then refused.
What is kept of results depends on the file's content, not on its name or place.

`captum:IntegratedGradients(n_steps=20)` is a class of `captum.attr`; `captum:package.module.Class` a subclass of
`captum.attr.Attribution` found elsewhere. Its options are those of its constructor and of `attribute`. Captum is
imported when such a name is met.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.data.arrays import Rows
from uproar.data.task import Split
from uproar.errors import BadInput, BadMap, BadShape, NotApplicable, one_line, unknown
from uproar.estimators.class_scores import rows_for, tracked
from uproar.estimators.layers import LayerName, default_layer, module_named
from uproar.estimators.registry import Context
from uproar.models.forward import borrowed, returning_scores
from uproar.plugins import file_at
from uproar.registry import Entry
from uproar.seeds import seeded_generators
from uproar.tensors import in_batches, map_values
from uproar.types import Images, Labels, RawMaps

MAPS = "maps:"
CAPTUM = "captum:"


class StoredMaps:
    """A file of finished maps: read by rows, known by its content."""

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.path = name, path_in(name)
        self._rows = Rows(file)
        self._reasons: dict[str, tuple[Split, str | None]] = {}
        with file.open("rb") as content:
            self.digest = hashlib.file_digest(content, "sha256").hexdigest()[:40]
        self.shapes = {s: shape for s, shape in self._rows.shapes.items() if s in ("train", "test")}
        if not self.shapes:
            held = ", ".join(map(repr, self._rows.shapes)) or "nothing"
            raise BadInput(f"{name} must hold arrays 'train' and 'test'; it holds {held}.")
        for split, shape in self.shapes.items():
            if len(shape) not in (3, 4):
                raise BadInput(f"{name}: the {split} maps must be (n, h, w) or (n, c, h, w), not {shape}.")

    def mismatch(self, split: Split) -> str | None:
        """Why these are not the maps of a split's images, if they are not."""
        known = self._reasons.get(split.name)
        if known is None or known[0] is not split:
            known = self._reasons[split.name] = (split, self._misfit(split))
        return known[1]

    def _misfit(self, split: Split) -> str | None:
        shape, images = self.shapes.get(split.name), split.shape
        if shape is None:
            return f"{self.name} holds no maps of the {split.name} images"
        if shape[1:] not in {(*images[1:],), (1, *images[1:]), images}:
            return f"{self.name}: the {split.name} maps are {shape[1:]}, but the images {images}"
        rows = self._numbers(split)
        if rows is None:
            whole = "" if split.subset is None else f" ({split.subset.whole} without the limit)"
            return f"{self.name} has {shape[0]} {split.name} maps for {len(split)} {split.name} images{whole}"
        name, held = f"{split.name}_labels", self._rows.shapes
        if name not in held:
            return None
        if held[name] != shape[:1]:
            return f"{self.name}: {name} is {held[name]}, but there are {shape[0]} maps"
        differ = int((self._rows.read(name, range(shape[0]))[rows].long() != split.labels).sum())
        if not differ:
            return None
        return (
            f"{self.name}: {differ} of {len(split)} {split.name} labels are not the task's, so the maps are of other "
            "images or in another order"
        )

    def _numbers(self, split: Split) -> Tensor | None:
        """The row of the file for each sample of a split; a limited split finds its own in a file for the whole one."""
        count = self.shapes[split.name][0]
        if count == len(split):
            return torch.arange(count)
        return split.subset.rows if split.subset is not None and count == split.subset.whole else None

    def read(self, split: Split, index: Sequence[int]) -> RawMaps:
        """The maps of some samples of a split, (n, c, h, w) or (n, 1, h, w)."""
        rows = self._numbers(split)
        assert rows is not None  # `mismatch` was asked
        maps = map_values(self._rows.read(split.name, rows[list(index)].tolist()), self.name)
        finite = torch.isfinite(maps).flatten(1).all(1)
        if not bool(finite.all()):
            first = int(rows[index[int(finite.int().argmin())]])
            raise BadMap(f"{self.name}: the map of {split.name} image {first} has NaN or infinite values.")
        return maps[:, None] if maps.dim() == 3 else maps


def path_in(name: str) -> str:
    """The path in `maps:PATH`, which may stand in quotes."""
    return name.removeprefix(MAPS).strip("\"'")


def name_of(path: Path) -> str:
    """The estimator that a file of maps is, as an expression names it."""
    plain = re.fullmatch(r"[\w.:/-]+", str(path))
    return f"{MAPS}{path}" if plain else f'{MAPS}"{path}"'


def maps_entry(name: str) -> Entry:
    """The estimator that gives the maps of a file; a file that was changed is another one."""
    file = file_at(path_in(name))
    try:
        now = file.stat()
    except OSError:
        raise BadInput(f"There is no file {path_in(name)}.") from None
    return _maps_entry(name, file, (file.resolve(), now.st_size, now.st_mtime_ns))


@functools.lru_cache(maxsize=64)
def _maps_entry(name: str, file: Path, state: tuple[Path, int, int]) -> Entry:
    stored = StoredMaps(name, file)

    def estimate(model: nn.Module, x: Images, target: Labels, context: Context) -> RawMaps:
        """Maps made elsewhere."""
        split = context.samples
        if split is None:
            raise NotApplicable(
                f"{name} holds finished maps of a task's images, none of changed images, other images or other models"
            )
        reason = stored.mismatch(split)
        if reason is not None:
            raise NotApplicable(reason)
        return stored.read(split, [row[0] for row in context.draws.rows]).to(x.device)

    facts = {
        "role": "estimator",
        "passes": 0,
        "needs": "the images the maps were made for",
        "model": False,
        "channels": all(len(shape) == 4 and shape[1] > 1 for shape in stored.shapes.values()),
        "formula": "as the file has it",
        "fails": "says nothing of how the maps were made",
        "stored": stored,
    }
    return Entry("estimator", name, estimate, facts)


# Captum

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

_MODEL = {"forward_func", "model"}
_NO_OPTIONS = frozenset(
    [
        *("inputs", "target", *_MODEL),
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

Sides = Annotated[int, Field(ge=1)] | tuple[int, ...]

_HINTS: dict[str, Any] = {
    "layer": LayerName | None,
    "baselines": float | Literal["mean", "train"] | None,
    "layer_baselines": float | None,
    "feature_mask": Annotated[int, Field(ge=1)] | None,
    "sliding_window_shapes": Sides,
    "strides": Sides | None,
}


@functools.cache
def captum_entry(name: str) -> Entry:
    """The estimator that runs the Captum class `name`, with or without `captum:` in front."""
    name = CAPTUM + name.removeprefix(CAPTUM)
    cls = captum_class(name)
    options = class_options(cls)

    def estimate(model, x, target, context, **options):
        return _estimated(cls, model, x, target, context, options)

    user = "" if cls.__module__.startswith("captum.") else cls.__module__
    estimate.__name__ = estimate.__qualname__ = name
    estimate.__module__ = user or estimate.__module__
    estimate.__doc__ = f"{cls.__name__} as Captum has it."
    inputs = [p for p in inspect.signature(estimate).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    estimate.__signature__ = inspect.Signature([*inputs, *options.values()])  # type: ignore[attr-defined]
    estimate.__annotations__ = {option: parameter.annotation for option, parameter in options.items()}
    captum = captum_package()
    facts = {
        "role": "estimator",
        "passes": lambda **values: float(values.get("n_steps") or values.get("n_samples") or 1),
        "needs": "what Captum's class needs",
        "model": True,
        "channels": not issubclass(cls, captum.attr.LayerAttribution),
        "version": captum.__version__,  # results of another one are not taken for its
        "formula": f"captum.attr.{cls.__name__}",
        "fails": "hooks see modules only: a ReLU called as a function, or used twice, is missed",
    }
    return Entry("estimator", name, estimate, facts, user, installed=user not in ("", "__main__"))


def captum_package() -> Any:
    """The package, or one sentence on how to get it."""
    try:
        importlib.import_module("captum.attr")
    except ImportError:
        raise BadInput("Estimators called captum:... need the package captum: pip install captum") from None
    return importlib.import_module("captum")


def captum_class(name: str) -> Any:
    """The class of `captum:NAME`; a name nobody knows is refused with names that are near."""
    attr = captum_package().attr
    module, _, last = name.removeprefix(CAPTUM).rpartition(".")
    if not module and last in _REFUSED:
        raise BadInput(f"{name} cannot be used as an estimator: {_REFUSED[last]}.")
    try:
        cls = getattr(importlib.import_module(module), last) if module else getattr(attr, last, None)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"{name} cannot be imported: {one_line(error)}") from error
    if _usable(cls, attr.Attribution):
        return cls
    if module:
        raise BadInput(
            f"{name} must be a class of captum.attr.Attribution that takes a model, and whose "
            "attribute(inputs, target=...) explains a class."
        )
    raise unknown(
        "Captum class", name, [CAPTUM + k for k, each in vars(attr).items() if _usable(each, attr.Attribution)]
    )


def _usable(cls: Any, base: type) -> bool:
    """Whether this class takes a model, and images with a target."""
    if not inspect.isclass(cls) or not issubclass(cls, base) or cls.__name__ in _REFUSED:
        return False
    explains = {"inputs", "target"} <= set(parameters(getattr(cls, "attribute", _usable)))
    return explains and bool(_MODEL & set(parameters(cls.__init__)))


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The named arguments of a method."""
    plain = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    arguments = inspect.signature(function).parameters
    return {name: p for name, p in arguments.items() if p.kind not in plain and name != "self"}


def class_options(cls: Any) -> dict[str, inspect.Parameter]:
    """What can be said in an expression, with types that refuse what is plainly wrong."""
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in {**parameters(cls.__init__), **parameters(cls.attribute)}.items():
        default = None if name == "layer" else parameter.default
        if name == "baselines" and default is parameter.empty:
            default = "train"  # where many baselines are wanted, the training images are the data they stand for
        plain = default is parameter.empty or isinstance(default, bool | int | float | str | None)
        if plain and name not in _NO_OPTIONS:
            hint: Any = type(default) if isinstance(default, bool | float | str) else Any
            hint = Annotated[int, Field(ge=1)] if type(default) is int else hint
            hint = _HINTS.get(name, hint)
            options[name] = parameter.replace(kind=parameter.KEYWORD_ONLY, default=default, annotation=hint)
    return options


def _estimated(
    cls: Any, model: nn.Module, x: Images, target: Labels, context: Context, options: Mapping[str, Any]
) -> RawMaps:
    """The class's attributions as maps; the model comes back without hooks or marks of Captum."""
    values = _values(cls, model, x, context, options)
    built = {k: values.pop(k) for k in parameters(cls.__init__) if k in values}
    attr = captum_package().attr
    differentiates, layered = issubclass(cls, attr.GradientAttribution), issubclass(cls, attr.LayerAttribution)

    def batch(x: Images, target: Labels) -> Tensor:
        attributions = method.attribute(tracked(x).requires_grad_(differentiates), target=target, **values)
        return _image_maps(attributions[0] if isinstance(attributions, tuple) else attributions, x, layered)

    with borrowed(model), _unmarked(model), torch.set_grad_enabled(differentiates):
        try:
            method = cls(returning_scores(model, x[:2]), **built)
            if cls.__module__.startswith("captum.") and cls.__name__ in _TOGETHER:
                # the copies that Captum makes of each image stay within memory
                rows = max(2, rows_for(x) // options.get("perturbations_per_eval", 1))
                return in_batches(batch, x, target, size=rows)
            maps = []
            for i, stream in enumerate(context.draws.streams(CAPTUM + cls.__name__)):
                with seeded_generators(stream.initial_seed()):  # Captum draws from the global generators
                    maps.append(batch(x[i : i + 1], target[i : i + 1]))
            return torch.cat(maps)
        except (AssertionError, NotImplementedError, TypeError) as error:
            # a TypeError that Captum raised, or a call that did not fit; one from a model or from torch is a fault
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            where = str(frame.f_globals.get("__name__"))
            if isinstance(error, TypeError) and where != __name__ and not where.startswith("captum."):
                raise
            raise NotApplicable(f"captum's {cls.__name__} refuses this: {one_line(error)}") from error


def captum_object(method: Any, network: nn.Module | None) -> Callable[[nn.Module, Images, Labels], RawMaps]:
    """An Attribution object that somebody made for `network`, as a function that explains any network of its kind."""
    names = {module: name for name, module in network.named_modules()} if network is not None else {}

    def rebuilt(held: Any, model: nn.Module) -> Any:
        """The object with another network in place of its own, and that one's layer."""
        other = copy.copy(held)
        for name, value in vars(held).items():
            if name in _MODEL and isinstance(value, nn.Module):
                setattr(other, name, model)
            elif name == "layer" and value in names:
                other.layer = model.get_submodule(names[value])
            elif hasattr(value, "attribute"):
                setattr(other, name, rebuilt(value, model))
        return other

    def explain(model: nn.Module, x: Images, target: Labels) -> RawMaps:
        """Attributions by an object of Captum."""
        attributions = rebuilt(method, model).attribute(tracked(x).requires_grad_(), target=target)
        return _image_maps(
            attributions[0] if isinstance(attributions, tuple) else attributions, x, hasattr(method, "layer")
        )

    explain.__module__ = type(method).__module__
    return explain


def _values(cls: Any, model: nn.Module, x: Images, context: Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as Captum takes them: modules for names, tensors for baselines, windows with channels."""
    values = dict(options)
    _, c, h, w = x.shape
    if "layer" in values:
        values["layer"] = module_named(model, values["layer"] or default_layer(model, x))
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


def _baselines(choice: float | str, x: Images, context: Context, several: bool) -> Tensor | float:
    """A number, or images: the mean colour, or training images where a class wants many."""
    if choice == "train":
        if not several:
            raise BadInput('baselines="train" is for classes that take many baselines, such as GradientShap.')
        train = context.training_images("baselines=train")
        return train.read(torch.linspace(0, len(train) - 1, min(REFERENCES, len(train))).long()).to(x)
    colour = context.colour(x) if choice == "mean" else x.new_full((1, 1, 1, 1), float(choice))
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
    return F.interpolate(attributions.sum(1, keepdim=True), x.shape[2:], mode="bilinear", align_corners=False)


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
