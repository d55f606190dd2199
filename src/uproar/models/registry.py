"""The registry of models and how a name, or `file.py:factory`, becomes a fresh network."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uproar.data.task import Task
from uproar.errors import CODE_ERRORS, BadInput, NotApplicable, UproarError
from uproar.expression import Call, parse
from uproar.guard import private_copy
from uproar.models.forward import extract_class_scores
from uproar.plugins import describe_error, load_file, source_hash
from uproar.registry import Registry
from uproar.seeds import key

models = Registry("model", "uproar.models")


@dataclass(frozen=True)
class ModelSpec:
    """Which network: a registered name with options, or a factory in a file. `identity` is what it hashes to."""

    call: Call

    @classmethod
    def of(cls, text: str) -> ModelSpec:
        """Read a model's name; unknown names and options are refused here."""
        call = parse(text)
        if call.args:
            raise BadInput(f"The model {call.name!r} takes options such as width=8, not {call.args[0]}.")
        if ".py:" in call.name:
            source_hash(call.name.partition(":")[0])
            return cls(call)
        if call.name.endswith(".py"):
            raise BadInput(f"{call.name} is a file: name the function in it that makes the model, {call.name}:build.")
        return cls(models.complete(call))

    @property
    def from_file(self) -> bool:
        """Whether the network comes from a user's file."""
        return ".py:" in self.call.name

    @property
    def name(self) -> str:
        """A short name for tables: the call without options that are defaults."""
        entry = None if self.from_file else models[self.call.name]
        kept = [(k, v) for k, v in self.call.options if not entry or v != entry.options[k].default]
        return str(Call(self.call.name, (), tuple(kept)))

    @property
    def identity(self) -> dict[str, Any]:
        """What two equal networks share: the name, all options, and the text of the user's files that make it."""
        if not self.from_file:
            code = models[self.call.name].code
            return {"model": str(self.call), **({"source": code} if code else {})}
        path, _, factory = self.call.name.partition(":")
        call = Call(factory, (), self.call.options)
        return {"model": str(call), "source": source_hash(path)}


def build(spec: ModelSpec, task: Task, seed: int) -> nn.Module:
    """A fresh network for a task; the same seed gives the same weights."""
    return build_for_input(spec, task, seed, task.train.read(slice(0, 2)), task.mean, task.std)


def build_for_input(spec: ModelSpec, task: Task, seed: int, sample: Tensor, mean: Tensor, std: Tensor) -> nn.Module:
    """A fresh network for a task whose input is not the images but of the kind of `sample`, (n, c, h, w)."""
    c, h, w = sample.shape[1:]
    try:
        model = make(spec, seed, (c, h, w), len(task.classes), mean, std)
        check_output(model, task, sample, spec.name)
    except BadInput as error:
        if (c, h, w) == task.shape:
            raise
        raise NotApplicable(f"the network is needed for inputs of shape {(c, h, w)}: {error}") from error
    return model


def make(
    spec: ModelSpec, seed: int, shape: tuple[int, int, int], classes: int | None, mean: Tensor, std: Tensor
) -> nn.Module:
    """A fresh network for images of a shape; a factory gets what it has arguments for."""
    factory, options = _factory(spec)
    offered = {"shape": shape, "classes": classes, "mean": mean, "std": std}
    accepted = inspect.signature(factory).parameters
    given = {name: value for name, value in offered.items() if name in accepted}
    if classes is None and needs_classes(spec):
        raise BadInput(f"The model {spec.name} needs the number of classes: give --classes.")
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {one.name for one in accepted.values() if one.default is one.empty and one.kind not in starred}
    if strange := sorted(needed - {*offered} - {*options}):
        raise BadInput(
            f"The model {spec.name} could not be built: nothing is known of its argument {strange[0]!r}. A factory is "
            f"given what it asks for of {', '.join(offered)}; other arguments need defaults."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "initialisation"))
        try:
            model = factory(**private_copy({**given, **options}))
        except UproarError:
            raise
        except CODE_ERRORS as error:
            raise BadInput(f"The model {spec.name} could not be built: {describe_error(error)}") from error
    if not isinstance(model, nn.Module):
        raise BadInput(f"{spec.name} must return a torch.nn.Module, not {type(model).__name__}.")
    return model


def needs_classes(spec: ModelSpec) -> bool:
    """Whether a network must be told how many classes there are."""
    told = inspect.signature(_factory(spec)[0]).parameters.get("classes")
    return told is not None and told.default is inspect.Parameter.empty


def check_output(model: nn.Module, task: Task, sample: Tensor, name: str) -> None:
    """Refuse a model that does not give one score per class of this task for two inputs."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            answer = model(sample)
    except CODE_ERRORS as error:
        raise BadInput(
            f"The model {name} cannot take images of shape {tuple(sample.shape[1:])}: {describe_error(error)}"
        ) from error
    finally:
        model.train(was_training)
    rows = len(sample)
    try:
        out = extract_class_scores(answer, rows)
    except BadInput as error:
        raise BadInput(f"The model {name}: {error}") from error
    if out.shape != (rows, len(task.classes)):
        raise BadInput(
            f"The model {name} returns {tuple(out.shape)} for {rows} images, but {task.name} has "
            f"{len(task.classes)} classes: it must return ({rows}, {len(task.classes)})."
        )


def _factory(spec: ModelSpec) -> tuple[Callable[..., Any], dict[str, Any]]:
    if not spec.from_file:
        entry = models[spec.call.name]
        return entry.function, entry.bind(**dict(spec.call.options))
    path, _, name = spec.call.name.partition(":")
    module = load_file(path)
    factory = getattr(module, name, None)
    if not callable(factory):
        raise BadInput(f"{path} has no function called {name!r}.")
    return factory, dict(spec.call.options)
