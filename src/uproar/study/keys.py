"""Keys of results in the store: what each result depends on, and nothing else.

A key is a hash of that, so that equal steps of different studies are one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from uproar.estimators import estimators
from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.models import ModelSpec
from uproar.models.weights import weights_hash
from uproar.protocols import Protocol, protocol_named, protocols
from uproar.protocols.catalogue import SCORED, scored_together
from uproar.protocols.evaluator import VERSION
from uproar.protocols.mask_assignment import FOLDS
from uproar.protocols.mask_detector import detector_recipe
from uproar.removal.fill import fill_code, fills
from uproar.storage.store import key_of
from uproar.study.cell import Cell, ScoreCell
from uproar.study.inputs import Inputs
from uproar.study.settings import ImageRanking
from uproar.training import FineTuning

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
