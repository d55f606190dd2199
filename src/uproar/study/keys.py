"""What each result depends on, and nothing else.

A key is a hash of that, so that equal steps of different studies are one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from uproar.data import Split, Task, load
from uproar.devices import chosen
from uproar.estimators import Chain, estimators, read_chain
from uproar.models import ModelSpec, build
from uproar.models.weights import weights_hash
from uproar.protocols import Masks, Protocol, protocol_named
from uproar.protocols.mask_assignment import FOLDS, other_replicate
from uproar.protocols.mask_detector import detector_recipe
from uproar.removal.fill import fill_code
from uproar.storage.store import Store, key_of
from uproar.study.cell import Cell
from uproar.study.settings import ImageRanking, Setting
from uproar.training import stackable


class Identity:
    """One setting on one store: its data, and the keys of everything that is made from them."""

    def __init__(self, setting: Setting, store: Store) -> None:
        self.setting, self.store = setting, store
        self.spec = ModelSpec.of(setting.model)
        self._chains: dict[tuple[str, int], Chain] = {}

    def forget(self) -> None:
        """Drop all data and networks; they are loaded anew when they are next asked for."""
        setting, store = self.setting, self.store
        vars(self).clear()
        type(self).__init__(self, setting, store)

    @functools.cached_property
    def device(self) -> torch.device:
        """Where the networks of this process are."""
        return chosen(self.setting.device)

    @functools.cached_property
    def task(self) -> Task:
        """The data, loaded once."""
        task = load(self.setting.task)
        return task if self.setting.limit is None else task.limited(self.setting.limit)

    @functools.cached_property
    def _weights(self) -> str | None:
        """What tells the weights given for the base model from others."""
        return None if self.setting.weights is None else weights_hash(self.setting.weights)

    def chain(self, name: str) -> Chain:
        """An estimator of the study, read once: keys of thousands of cells ask for it."""
        known = name, estimators.revision
        if known not in self._chains:
            sign, channels = self.setting.sign, self.setting.channels
            self._chains[known] = read_chain(name, sign, channels)  # type: ignore[arg-type]
        return self._chains[known]

    def split(self, name: str) -> Split:
        """The train or the test split."""
        return self.task.train if name == "train" else self.task.test

    @functools.cached_property
    def stacks(self) -> bool:
        """Whether the networks of several cells are trained at once."""
        held = not self.task.train.streams and self.setting.recipe.plain
        return held and stackable(build(self.spec, self.task, 0), self.task.shape)

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        return {"data": self.task.fingerprint}

    @functools.cached_property
    def _annotated(self) -> dict[str, Any]:
        """The data with what is known to be important in them, which networks do not see but maps and metrics may."""
        known = self.task.annotations
        return {**self._data, **({"annotations": known} if known else {})}

    @functools.cached_property
    def _learning(self) -> dict[str, Any]:
        recipe, start = self.setting.recipe, {}
        if recipe.init == "pretrained" and self.setting.pretrained is not None:
            start = {"pretrained": weights_hash(self.setting.pretrained)}
        return {**self.spec.identity, "recipe": recipe.identity, **start}

    def model_key(self, seed: int, fold: int | None = None) -> str:
        """The base model of a replicate; with `fold`, the one that has not seen that part of the data."""
        if self.setting.weights is not None:
            given = {"weights": self._weights}
            return key_of("model", {**self._data, **self.spec.identity, **given})
        unseen = {} if fold is None else {"fold": fold, "folds": FOLDS}
        return key_of("model", {**self._data, **self._learning, "seed": seed, **unseen})

    def order_key(self, chain: Chain, seed: int, crossed: bool = False) -> str:
        """The order of all features of all images under one chain."""
        inputs: dict[str, Any] = {"chain": chain.identity, "features": self.setting.features}
        if chain.needs_model:
            makers = [self.model_key(seed, fold) for fold in self._folds(crossed)]
            inputs |= {"model": makers if crossed else makers[0], "target": self.setting.target}
        return key_of("order", {**self._annotated, **inputs, "seed": seed})

    def orders(self, cell: Cell) -> tuple[ImageRanking, ImageRanking]:
        """The orders that decide what goes in the training and in the test images of a cell."""
        protocol, chain = protocol_named(cell.protocol), self.chain(cell.estimator)
        return self._order(chain, cell, protocol.train), self._order(chain, cell, protocol.test)

    def _order(self, chain: Chain, cell: Cell, masks: Masks) -> ImageRanking:
        seed = other_replicate(cell.seed) if masks.by == "other" else cell.seed
        return ImageRanking(chain, seed, masks.by == "cross-fitted" and chain.needs_model)

    @staticmethod
    def _folds(crossed: bool) -> Sequence[int | None]:
        return range(FOLDS) if crossed else (None,)

    def state_key(self, call: str, version: Any, seed: int, fold: int | None = None) -> str:
        """What an estimator prepares once for a base model."""
        inputs = {"model": self.model_key(seed, fold), "estimator": call, "version": version, "seed": seed}
        return key_of("state", {**self._data, **inputs})

    def cell_key(self, cell: Cell) -> str:
        """One number of the study: what the network learned, and what it was tested with."""
        protocol, (train, test) = protocol_named(cell.protocol), self.orders(cell)
        inputs = self._removal(cell, protocol, train if protocol.retrains else test)
        if not protocol.retrains:
            return key_of("cell", {**inputs, "asks": self.model_key(cell.seed)})
        if protocol.test.of != protocol.train.of:
            inputs["tested"] = protocol.test.of
        if test != train:
            inputs["test order"] = self._key_of(test)
        return key_of("cell", {**self._data, **self._learning, **inputs, **self._how(protocol)})

    def training_key(self, cell: Cell) -> str:
        """The training of a cell: equal for cells that are tests of one network."""
        protocol = protocol_named(cell.protocol)
        inputs = self._removal(cell, protocol, self.orders(cell)[0])
        return key_of("training", {**self._data, **self._learning, **inputs})

    def _how(self, protocol: Protocol) -> dict[str, Any]:
        """What differs from the study's recipe, one network at a time."""
        if protocol.learns == "mask":
            return {"recipe": detector_recipe(self.setting.recipe).identity}
        return {"training": "stack"} if self.stacks else {}

    def _removal(self, cell: Cell, protocol: Protocol, order: ImageRanking) -> dict[str, Any]:
        """What decides how images are changed."""
        fills = protocol.sees != "mask" and protocol.noise is None
        return {
            "order": self._key_of(order),
            "fill": self.setting.fill if fills else None,
            **(fill_code(self.setting.fill) if fills else {}),
            "keeps": protocol.keeps,
            "fraction": cell.fraction,
            "seed": cell.seed,
            **protocol.training,
        }

    def _key_of(self, order: ImageRanking) -> str:
        return self.order_key(order.chain, order.seed, order.crossed)
