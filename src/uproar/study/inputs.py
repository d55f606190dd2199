"""What results are made from beside each other: data, networks, estimators, fills, metrics, files, by name.

Each stands for something that is loaded where it is needed, has an `identity`, which says what two of them share that
give the same numbers, and says in `plugins` whose functions are called with it. The identity is found where results are
named: a process that makes them needs no plug-in for it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from uproar.data import Split, Task, load, tasks
from uproar.data.derived_tasks import as_one_label
from uproar.errors import BadInput
from uproar.estimators import Chain, estimators, read_chain
from uproar.expression import Call, parse
from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.metrics.retraining import Retraining, retraining_named
from uproar.models import ModelSpec, build
from uproar.models.output_kind import SOFTMAX, OutputKind
from uproar.models.weights import load_weights, weights_hash
from uproar.removal.fill import fill_code, read_fill
from uproar.study.graph import FORGET


@dataclass(frozen=True)
class Data:
    """The images and labels of a task; `annotated`: with what is known to be important in them."""

    name: str
    limit: int | None = None
    output: str = "auto"
    annotated: bool = False

    @property
    def task(self) -> Task:
        """The data, loaded once in a process until the user's code behind the name changes."""
        code = " ".join(tasks[call.name].code for call in parse(self.name).walk())
        return _loaded(self.name, self.limit, self.output, code)

    @property
    def identity(self) -> Any:
        """A hash of images and labels."""
        known = self.task.annotations if self.annotated else ""
        return [self.task.fingerprint, known] if known else self.task.fingerprint

    @property
    def with_annotations(self) -> Data:
        """The same with what networks do not see but maps and metrics may."""
        return replace(self, annotated=True)

    @property
    def output_kind(self) -> OutputKind:
        """What networks answer with: logits or values."""
        return output_of_task(self.task)

    def split(self, name: str) -> Split:
        """The train or the test split."""
        return self.task.train if name == "train" else self.task.test


@functools.lru_cache(maxsize=8)
def _loaded(name: str, limit: int | None, output: str, code: str) -> Task:
    task = load(name)
    if output == "sigmoid" and task.kind == "softmax":
        task = as_one_label(task)
    if output not in ("auto", task.kind):
        raise BadInput(f"output = {output!r} was said, but the labels of {task.name} are those of a {task.kind}.")
    return task if limit is None else task.limited(limit)


FORGET.append(_loaded.cache_clear)


def output_of_task(task: Task) -> OutputKind:
    """What the networks of a task answer with: logits or values."""
    if task.kind == "softmax":
        return SOFTMAX
    return OutputKind(task.kind, single=task.kind == "sigmoid" and len(task.classes) == 1)


@dataclass(frozen=True)
class Network:
    """An architecture."""

    name: str

    @property
    def spec(self) -> ModelSpec:
        """The name, read."""
        return ModelSpec.of(self.name)

    @property
    def identity(self) -> Any:
        """The name, or a hash of the user's code behind it."""
        return self.spec.identity

    def build(self, task: Task, seed: int) -> nn.Module:
        """An untrained network for a task."""
        return build(self.spec, task, seed)


@dataclass(frozen=True)
class Weights:
    """A file of weights."""

    path: str

    @property
    def identity(self) -> str:
        """A hash of the file."""
        return weights_hash(self.path)

    def load(self, model: nn.Module, new_head: bool = False) -> nn.Module:
        """The network with these weights; with `new_head` its last layer may stay as it was drawn."""
        return load_weights(model, self.path, new_head=new_head)


@dataclass(frozen=True)
class Estimator:
    """A chain by its expression."""

    name: str
    sign: str = "none"
    channels: str = "sum"

    @property
    def chain(self) -> Chain:
        """The expression, read."""
        return _chain(self.name, self.sign, self.channels, estimators.revision)

    @property
    def identity(self) -> Any:
        """The whole chain with all its options, and the user's code in it."""
        return _chain_identity(self.name, self.sign, self.channels, estimators.revision)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-ins that make its maps."""
        calls = (*self.chain.raw.walk(), *self.chain.filters)
        return tuple(plugin for call in calls if (plugin := estimators[call.name].plugin))


@functools.lru_cache(maxsize=4096)
def _chain(name: str, sign: Any, channels: Any, revision: int) -> Chain:
    return read_chain(name, sign, channels)


@functools.lru_cache(maxsize=4096)
def _chain_identity(name: str, sign: Any, channels: Any, revision: int) -> Any:
    return _chain(name, sign, channels, revision).identity


@dataclass(frozen=True)
class Prepared:
    """What one estimator inside a chain makes once for a network."""

    call: str

    @property
    def identity(self) -> Any:
        """The call with its options, and the version of the estimator."""
        return [self.call, estimators[parse(self.call).name].version]

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-in that makes it."""
        plugin = estimators[parse(self.call).name].plugin
        return (plugin,) if plugin else ()


@dataclass(frozen=True)
class Fill:
    """What removed pixels become."""

    name: str

    @property
    def identity(self) -> Any:
        """The expression, with the user's code behind it."""
        return [self.name, *fill_code(self.name).values()]

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-in that fills."""
        plugin = read_fill(self.name)[0].plugin
        return (plugin,) if plugin else ()


@dataclass(frozen=True)
class Metric:
    """A metric of maps, without retraining, by its expression."""

    name: str

    @property
    def call(self) -> Call:
        """The expression, read."""
        return read_metric(self.name)

    @property
    def identity(self) -> Any:
        """The call with all its options, its version, and the user's code in its fill."""
        call = metrics.complete(self.call)
        fill = dict(call.options).get("fill")
        return [str(call), metrics[call.name].version, *fill_code(fill).values()]

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-ins whose functions it calls."""
        fill = dict(metrics.complete(self.call).options).get("fill")
        entries = [metrics[self.call.name], *([read_fill(fill)[0]] if isinstance(fill, str) else [])]
        return tuple(entry.plugin for entry in entries if entry.plugin)


@dataclass(frozen=True)
class Removal:
    """What a network of ROAR, KAR or a variant is shown, by the name of the metric."""

    name: str

    @property
    def retraining(self) -> Retraining:
        """The metric."""
        return retraining_named(self.name)

    @property
    def identity(self) -> Any:
        """What the network is trained on, beside the ranking, and what it is tested with."""
        known = self.retraining
        return {"keeps": known.keeps, "retrains": known.retrains, "tests": known.tests, **known.training}


def marginals(data: Data, fill: str) -> Tensor | None:
    """Some training images, for the fill that draws pixels from them."""
    return _marginals(data) if read_fill(fill)[0].name == "resample" else None


@functools.lru_cache(maxsize=2)
def _marginals(data: Data) -> Tensor:
    train = data.task.train
    most = min(4096, len(train), max(1, 2**26 // train.read(slice(0, 1))[0].numel()))
    return train.read(torch.linspace(0, len(train) - 1, most).long())


FORGET.append(_marginals.cache_clear)
