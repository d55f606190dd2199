"""One task and model of a study: what they fix for all cells, the data and networks they name, the keys of results.

A key is a hash of what a result depends on and of nothing else, so that equal steps of different studies are one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from uproar.data import Split, Task, load, tasks
from uproar.data.derived_tasks import as_one_label
from uproar.errors import BadInput
from uproar.estimators import Chain, estimators, read_chain
from uproar.expression import Call, parse
from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.models import ModelSpec, build
from uproar.models.output_kind import SOFTMAX, OutputKind, assumed_output, predicted_target
from uproar.models.weights import weights_hash
from uproar.protocols import Masks, Protocol, protocol_named, protocols
from uproar.protocols.catalogue import SCORED, scored_together
from uproar.protocols.evaluator import (
    JUDGED,
    VERSION,
    begins_explained,
    default_architecture,
    evaluator_epochs,
    judged_rows,
)
from uproar.protocols.mask_assignment import FOLDS, other_replicate
from uproar.protocols.mask_detector import detector_recipe
from uproar.removal.fill import fill_code, fills
from uproar.store import Store, key_of
from uproar.study.cell import Cell, ScoreCell
from uproar.study.devices import choose_device
from uproar.study.spec import Study
from uproar.training import FineTuning, Recipe, stackable
from uproar.types import Labels

Target = str | int
"""`predicted`, `label`, or the number of a class, label or component."""


def output_of_task(task: Task) -> OutputKind:
    """What the networks of a task answer with: logits or values."""
    if task.kind == "softmax":
        return SOFTMAX
    return OutputKind(task.kind, single=task.kind == "sigmoid" and len(task.classes) == 1)


def explained_targets(target: Target, outputs: Tensor, labels: Tensor) -> Labels:
    """What is explained in images with these outputs (n, k) and labels."""
    if target == "predicted":
        return predicted_target(outputs)
    return followed_targets(target, outputs, labels)


def followed_targets(target: Target, outputs: Tensor, labels: Tensor) -> Labels:
    """What a metric follows: the class; of several labels the likeliest of those that the image has, or of all.

    Labels (n,) beside outputs of several labels say themselves which one is followed. Of a regression it is the
    component, of which there is one unless `target` says which.
    """
    if isinstance(target, int):
        return torch.full((len(outputs),), target, device=outputs.device)
    assumed = assumed_output()
    if assumed.kind == "softmax":
        return labels.to(outputs.device)
    if assumed.kind == "regression":
        return predicted_target(outputs)
    if assumed.single or labels.dim() == 1:
        return labels.reshape(len(labels), -1)[:, 0].long().to(outputs.device)
    there = labels.to(outputs.device).bool()
    there = there | ~there.any(1, keepdim=True)
    return outputs.masked_fill(~there, -torch.inf).argmax(1)


@dataclass(frozen=True)
class Setting:
    """What one task and model of a study fix for all their cells."""

    task: str
    model: str
    recipe: Recipe
    fill: str = "mean"
    features: str = "pixel"
    target: str | int = "predicted"
    sign: str = "none"
    channels: str = "sum"
    weights: str | None = None
    pretrained: str | None = None
    limit: int | None = None
    device: str = "cpu"
    output: str = "auto"
    evaluator_models: tuple[str, ...] = ()
    evaluator_images: int = JUDGED

    def evaluator_model(self, seed: int, shape: tuple[int, int, int]) -> str:
        """The architecture of a replicate's evaluator: seeds take them in turn, so that more seeds change none."""
        named = self.evaluator_models or (default_architecture(self.model, shape),)
        return named[seed % len(named)]

    def evaluator_begins_explained(self, seed: int, shape: tuple[int, int, int]) -> bool:
        """Whether a replicate's evaluator begins with the explained network's weights: if it is of its architecture."""
        own, explained = (ModelSpec.of(name).identity for name in (self.evaluator_model(seed, shape), self.model))
        return begins_explained(shape) and own == explained

    def evaluator_epochs(self, seed: int, shape: tuple[int, int, int], images: int) -> int:
        """How often a replicate's evaluator sees each of the training images."""
        return evaluator_epochs(self.recipe, images, self.evaluator_begins_explained(seed, shape))

    @property
    def code(self) -> str:
        """The user's own code behind the names of task, model and fill; it may be edited while Python runs."""
        names = (call.name for call in parse(self.task).walk())
        declared = [tasks[name].code for name in names]
        models = [ModelSpec.of(name).identity.get("source", "") for name in (self.model, *self.evaluator_models)]
        return " ".join([*declared, *models, *fill_code(self.fill).values()])

    @classmethod
    def all_of(cls, study: Study) -> list[Setting]:
        """The settings of a study: every task with every model."""
        common = {one.name: getattr(study, one.name) for one in fields(cls) if one.name not in ("task", "model")}
        return [cls(task, model, **common) for task in study.tasks for model in study.models]


@dataclass(frozen=True)
class ImageRanking:
    """The order of all features of all images of a setting: by which chain, of which replicate's base model."""

    chain: Chain
    seed: int
    crossed: bool = False
    """Cross-fitted: each image is explained by one of two base models that was not trained on it."""

    @property
    def folds(self) -> Sequence[int | None]:
        """The parts of the data that its base models are not trained on; None: trained on all."""
        return range(FOLDS) if self.crossed else (None,)


class Inputs:
    """A setting and the store of its results, with what the setting names."""

    def __init__(self, setting: Setting, store: Store) -> None:
        self.setting, self.store = setting, store
        self.spec = ModelSpec.of(setting.model)
        self._chains: dict[tuple[str, int], Chain] = {}

    def evaluator_spec(self, seed: int) -> ModelSpec:
        """The architecture of a replicate's evaluator."""
        return ModelSpec.of(self.setting.evaluator_model(seed, self.task.shape))

    @functools.cached_property
    def device(self) -> torch.device:
        """Where the networks of this process are."""
        return choose_device(self.setting.device)

    @functools.cached_property
    def task(self) -> Task:
        """The data."""
        task = load(self.setting.task)
        if self.setting.output == "sigmoid" and task.kind == "softmax":
            task = as_one_label(task)
        if self.setting.output not in ("auto", task.kind):
            raise BadInput(
                f"output = {self.setting.output!r} was said, but the labels of {task.name} are those of a {task.kind}."
            )
        return task if self.setting.limit is None else task.limited(self.setting.limit)

    @functools.cached_property
    def output(self) -> OutputKind:
        """What the networks answer with."""
        return output_of_task(self.task)

    def split(self, name: str) -> Split:
        """The train or the test split."""
        return self.task.train if name == "train" else self.task.test

    @functools.cached_property
    def features(self) -> tuple[int, ...]:
        """The shape of what is ranked in an image."""
        return self.task.shape if self.setting.features == "channel" else self.task.shape[1:]

    @functools.cached_property
    def judged_rows(self) -> torch.Tensor:
        """The rows of the test images that evaluators judge."""
        return judged_rows(self.task.test, self.setting.evaluator_images)

    def rows_asked(self, protocol: Protocol) -> torch.Tensor:
        """The rows of the test images that a protocol asks about: those that evaluators judge, or all."""
        return self.judged_rows if protocol.evaluator else torch.arange(len(self.task.test))

    def split_of(self, unit: ScoreCell) -> Split:
        """The images whose maps a metric is asked about: test images, unless it says otherwise."""
        return self.task.train if dict(read_metric(unit.metric).options).get("split") == "train" else self.task.test

    def rows_of(self, unit: ScoreCell) -> torch.Tensor:
        """The rows of the images that a metric is asked about."""
        split = self.split_of(unit)
        return judged_rows(split, unit.images or len(split))

    @functools.cached_property
    def stacks(self) -> bool:
        """Whether the networks of several cells are trained at once."""
        held = not self.task.train.streams and self.setting.recipe.plain
        return held and stackable(build(self.spec, self.task, 0), self.task.shape)

    def chain(self, name: str) -> Chain:
        """An estimator of the study, read once: keys of thousands of cells need it."""
        known = name, estimators.revision
        if known not in self._chains:
            sign, channels = self.setting.sign, self.setting.channels
            self._chains[known] = read_chain(name, sign, channels)  # type: ignore[arg-type]
        return self._chains[known]

    def rankings_of(self, cell: Cell) -> tuple[ImageRanking, ImageRanking]:
        """The rankings that decide what is removed from the training and from the test images of a cell."""
        protocol, chain = protocol_named(cell.protocol), self.chain(cell.estimator)

        def ranking(masks: Masks) -> ImageRanking:
            seed = other_replicate(cell.seed) if masks.by == "other" else cell.seed
            return ImageRanking(chain, seed, masks.by == "cross-fitted" and chain.needs_model)

        return ranking(protocol.train), ranking(protocol.test)


RESAMPLES = "resampled"
"""The array of a score item that holds the metric's number for many resamples of the images."""


class Keys:
    """The keys of everything that is made from the inputs of a setting."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.setting = inputs, inputs.setting
        self._rankings: dict[tuple[ImageRanking, int], str] = {}
        self._cells: dict[tuple[Cell, int, int, int], str] = {}
        self._evaluators: dict[tuple[int, int], str] = {}

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        return {"data": self.inputs.task.fingerprint}

    @functools.cached_property
    def _annotated(self) -> dict[str, Any]:
        """The data with what is known to be important in them, which networks do not see but maps and metrics may."""
        known = self.inputs.task.annotations
        return {**self._data, **({"annotations": known} if known else {})}

    @functools.cached_property
    def _weights(self) -> str | None:
        """What tells the weights given for the base model from others."""
        return None if self.setting.weights is None else weights_hash(self.setting.weights)

    @functools.cached_property
    def _learning(self) -> dict[str, Any]:
        return self._learning_of(self.inputs.spec)

    def _learning_of(self, spec: ModelSpec) -> dict[str, Any]:
        recipe, start = self.setting.recipe, {}
        if recipe.init == "pretrained" and self.setting.pretrained is not None:
            start = {"pretrained": weights_hash(self.setting.pretrained)}
        return {**spec.identity, "recipe": recipe.identity, **start}

    def model(self, seed: int, fold: int | None = None) -> str:
        """The base model of a replicate; with `fold`, the one that was not trained on that part of the data."""
        if self.setting.weights is not None:
            given = {"weights": self._weights}
            return key_of("model", {**self._data, **self.inputs.spec.identity, **given})
        unseen = {} if fold is None else {"fold": fold, "folds": FOLDS}
        return key_of("model", {**self._data, **self._learning, "seed": seed, **unseen})

    def ranking(self, ranking: ImageRanking) -> str:
        """The order of all features of all images under one chain, computed once: every cell of the chain needs it."""
        known = ranking, estimators.revision
        if known not in self._rankings:
            self._rankings[known] = self._ranking(ranking)
        return self._rankings[known]

    def _ranking(self, ranking: ImageRanking) -> str:
        chain, seed = ranking.chain, ranking.seed
        inputs: dict[str, Any] = {"chain": chain.identity, "features": self.setting.features}
        if chain.needs_model:
            models = [self.model(seed, fold) for fold in ranking.folds]
            inputs |= {"model": models if ranking.crossed else models[0], "target": self.setting.target}
        return key_of("order", {**self._annotated, **inputs, "seed": seed})

    def levels(self, ranking: ImageRanking, fractions: Sequence[float]) -> str:
        """The levels of a ranking that serve some fractions."""
        served = key_of("fractions", {"served": sorted(fractions)})[:8]
        return f"{self.ranking(ranking)}-{served}"

    def state(self, call: Call, seed: int, fold: int | None = None) -> str:
        """What an estimator prepares once for a base model."""
        version = estimators[call.name].version
        inputs = {"model": self.model(seed, fold), "estimator": str(call), "version": version, "seed": seed}
        return key_of("state", {**self._data, **inputs})

    def fine_tuned(self, tuning: FineTuning, seed: int) -> str:
        """A fine-tuned copy of a base model, which judges all maps of the replicate."""
        return key_of("fine-tuned", {**self._data, **tuning.identity, "model": self.model(seed), "seed": seed})

    def cell(self, cell: Cell) -> str:
        """One accuracy of the study: what the network learned, and what it was tested with."""
        known = cell, estimators.revision, fills.revision, protocols.revision
        if known not in self._cells:
            self._cells[known] = self._cell(cell)
        return self._cells[known]

    def _cell(self, cell: Cell) -> str:
        protocol = protocol_named(cell.protocol)
        together = scored_together(protocol)
        if together and protocol != together[0]:  # one result: its key is found once
            return self.cell(replace(cell, protocol=together[0].name))
        train, test = self.inputs.rankings_of(cell)
        inputs = self._removal(cell, protocol, train if protocol.retrains else test)
        if protocol.evaluator:  # both targets are kept in one result, and the tests of one score
            asked = {"keeps": "both", "tested": list(SCORED), "asks": self.evaluator(cell.seed)}
            return key_of("cell", {**inputs, **asked, **self._asked(protocol)})
        if not protocol.retrains:
            return key_of("cell", {**inputs, "asks": self.model(cell.seed)})
        if protocol.test.of != protocol.train.of:
            inputs["tested"] = protocol.test.of
        if test != train:
            inputs["test order"] = self.ranking(test)
        return key_of("cell", {**self._data, **self._learning, **inputs, **self._training_changes(protocol)})

    def _asked(self, protocol: Protocol) -> dict[str, Any]:
        """How many test images an evaluator is asked about, where not all."""
        rows = self.inputs.rows_asked(protocol)
        return {} if len(rows) == len(self.inputs.task.test) else {"judged": len(rows)}

    def evaluator(self, seed: int) -> str:
        """The network that judges all estimators of a replicate: no estimator is part of it."""
        known = seed, fills.revision
        if known not in self._evaluators:
            self._evaluators[known] = self._evaluator(seed)
        return self._evaluators[known]

    def _evaluator(self, seed: int) -> str:
        inputs = {
            "fill": self.setting.fill,
            **fill_code(self.setting.fill),
            "features": self.setting.features,
            "answers": self.model(seed),
            "epochs": self.setting.evaluator_epochs(seed, self.inputs.task.shape, len(self.inputs.task.train)),
            "version": VERSION,
            "seed": seed,
        }
        return key_of("evaluator", {**self._data, **self._learning_of(self.inputs.evaluator_spec(seed)), **inputs})

    def training(self, cell: Cell) -> str:
        """The training of a cell: equal for cells that are tests of one network."""
        protocol = protocol_named(cell.protocol)
        inputs = self._removal(cell, protocol, self.inputs.rankings_of(cell)[0])
        return key_of("training", {**self._data, **self._learning, **inputs})

    def score(self, unit: ScoreCell) -> str:
        """One metric of one chain's maps of the test images."""
        call = metrics.complete(read_metric(unit.metric))
        inputs = {
            "chain": self.inputs.chain(unit.estimator).identity,
            "metric": str(call),
            "version": metrics[call.name].version,
            "model": self.model(unit.seed),
            "target": self.setting.target,
            "seed": unit.seed,
            "resamples": RESAMPLES,
            **fill_code(dict(call.options).get("fill")),
        }
        rows = self.inputs.rows_of(unit)
        some = {} if len(rows) == len(self.inputs.task.test) else {"images": len(rows)}
        return key_of("score", {**self._annotated, **inputs, **some})

    def _training_changes(self, protocol: Protocol) -> dict[str, Any]:
        """What differs from training by the study's recipe, one network at a time."""
        if protocol.learns == "mask":
            return {"recipe": detector_recipe(self.setting.recipe).identity}
        return {"training": "stack"} if self.inputs.stacks else {}

    def _removal(self, cell: Cell, protocol: Protocol, ranking: ImageRanking) -> dict[str, Any]:
        """What decides how images are changed."""
        fills = protocol.sees != "mask" and protocol.noise is None
        return {
            "order": self.ranking(ranking),
            "fill": self.setting.fill if fills else None,
            **(fill_code(self.setting.fill) if fills else {}),
            "keeps": protocol.keeps,
            "fraction": cell.fraction,
            "seed": cell.seed,
            **protocol.training,
        }
