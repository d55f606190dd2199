"""The steps of a study: train, explain, retrain, evaluate. Each is a function of what it depends on.

A step's key is a hash of everything that shapes its result, so that equal steps of different studies are one. Each
asks the store first, and makes what is missing, inputs included: a lost or damaged file costs time, nothing else.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uproar.data import Split, Task, load
from uproar.data.stream import row_numbers
from uproar.devices import chosen
from uproar.errors import BadMap, NotApplicable
from uproar.estimators import (
    Chain,
    Context,
    estimators,
    explain_chains,
    prepare_states,
    raw_maps,
    read_chain,
)
from uproar.metrics import Batch, metrics
from uproar.metrics.base import Responses, read_metric
from uproar.metrics.probe import evaluate, joined, summarise
from uproar.metrics.resampling import bootstrap
from uproar.models import ModelSpec, Room, build, build_seeing
from uproar.models.remote import explained_there, from_here
from uproar.models.weights import load_weights, weights_hash
from uproar.protocols import PROTOCOLS, Masks, Protocol, protocol_named
from uproar.protocols.finder import finder, finder_recipe, found, pixel_scores
from uproar.protocols.worn import FOLDS, fold_of, other_replicate, worn
from uproar.removal import Around, Levels
from uproar.removal.fill import read_fill, sample_colour
from uproar.removal.order import count, tied_pixels
from uproar.seeds import Draws
from uproar.store import Item, Store, key_of
from uproar.study.cell import Cell, Scored
from uproar.study.ranked import Ranked, levels_item
from uproar.study.shards import Shard, ShardedLevels, Squeezing, shards_of, whole
from uproar.study.shown import Shown, shown
from uproar.study.spec import Study
from uproar.training import Recipe, channels_last, fit, fit_all, predict, stackable
from uproar.training.calibrate import surprise

SignedMaps = Callable[[Tensor], list[Tensor]]
"""From row numbers of a split to the maps of those images, one tensor per chain."""

CHUNK = 512
"""Images explained and ranked at a time: bounds memory, whatever the size of the data set."""


SCORED = 64
"""Images scored at a time, at most."""

RESAMPLES = "resampled"
"""The array of a score item that holds the metric's number for many resamples of the images."""

SHELVES = 8
"""Levels in shards whose tables of contents are held at a time."""

MARGINALS = 2**26
"""Values of training images that are held for a fill that draws from them."""


@dataclass(frozen=True)
class Setting:
    """What one task and model of a study fix for all their cells."""

    task: str
    model: str
    recipe: Recipe
    fill: str = "mean"
    features: str = "pixel"
    target: str = "predicted"
    sign: str = "none"
    channels: str = "sum"
    weights: str | None = None
    pretrained: str | None = None
    limit: int | None = None
    device: str = "cpu"

    @classmethod
    def all_of(cls, study: Study) -> list[Setting]:
        """The settings of a study: every task with every model."""
        common = {
            name: getattr(study, name)
            for name in (
                "recipe",
                "fill",
                "features",
                "target",
                "sign",
                "channels",
                "weights",
                "pretrained",
                "limit",
                "device",
            )
        }
        return [cls(task, model, **common) for task in study.tasks for model in study.models]


@dataclass(frozen=True)
class Order:
    """The ranking of all images of a setting: by which chain, of which replicate's base model.

    `crossed`: each image was explained by one of two base models that has not seen it.
    """

    chain: Chain
    seed: int
    crossed: bool = False


class Bench:
    """The steps of one setting on one store."""

    def __init__(self, setting: Setting, store: Store) -> None:
        self.setting, self.store = setting, store
        self._shelves: dict[tuple[str, str, bool], ShardedLevels] = {}
        self.spec = ModelSpec.of(setting.model)

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
    def _marginals(self) -> Tensor | None:
        """Some training images, for the fill that draws pixels from them."""
        if not self.setting.fill.startswith("resample"):
            return None
        most = min(4096, len(self.task.train), max(1, MARGINALS // math.prod(self.task.shape)))
        rows = torch.linspace(0, len(self.task.train) - 1, most).long()
        return self.task.train.read(rows)

    @functools.cached_property
    def _colour(self) -> Tensor | None:
        """The mean colour of some training images, for the fill that wants no more of them."""
        entry, options = read_fill(self.setting.fill)
        if entry.name != "mean" or options["images"] is None:
            return None
        return sample_colour(self.task.train.read, len(self.task.train), options["images"])

    def around(self, draws: Draws) -> Around:
        """What the study's fill may know besides the images."""
        return Around(draws, self.task.mean, self._marginals, self._colour)

    @functools.cached_property
    def _weights(self) -> str | None:
        """What tells the weights given for the base model from others."""
        return None if self.setting.weights is None else weights_hash(self.setting.weights)

    def chain(self, name: str) -> Chain:
        """An estimator of the study."""
        return read_chain(name, self.setting.sign, self.setting.channels)  # type: ignore[arg-type]

    # identities: what each result depends on, and nothing else

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        return {"data": self.task.fingerprint}

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
        return key_of("order", {**self._data, **inputs, "seed": seed})

    def orders(self, cell: Cell) -> tuple[Order, Order]:
        """The orders that decide what goes in the training and in the test images of a cell."""
        protocol, chain = protocol_named(cell.protocol), self.chain(cell.estimator)
        return self._order(chain, cell, protocol.train), self._order(chain, cell, protocol.test)

    def _order(self, chain: Chain, cell: Cell, masks: Masks) -> Order:
        seed = other_replicate(cell.seed) if masks.by == "other" else cell.seed
        return Order(chain, seed, masks.by == "cross-fitted" and chain.needs_model)

    @staticmethod
    def _folds(crossed: bool) -> Sequence[int | None]:
        return range(FOLDS) if crossed else (None,)

    def state_key(self, call: str, version: Any, seed: int, fold: int | None = None) -> str:
        """What an estimator prepares once for a base model."""
        inputs = {
            "model": self.model_key(seed, fold),
            "estimator": call,
            "version": version,
            "seed": seed,
        }
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
        stacked = self.stacks and protocol.learns == "class"
        return {"training": "stack"} if stacked else {}

    def _removal(self, cell: Cell, protocol: Protocol, order: Order) -> dict[str, Any]:
        """What decides how images are changed."""
        return {
            "order": self._key_of(order),
            "fill": None
            if protocol.sees == "mask" or protocol.noise is not None
            else self.setting.fill,
            "keeps": protocol.keeps,
            "fraction": cell.fraction,
            "seed": cell.seed,
            **protocol.training,
        }

    def _key_of(self, order: Order) -> str:
        return self.order_key(order.chain, order.seed, order.crossed)

    # train

    def base(self, seed: int, fold: int | None = None) -> tuple[nn.Module, Item]:
        """The base model of a replicate, with its test scores; `fold` is a part of the data it has not seen."""
        key = self.model_key(seed, fold)
        if self._base is not None and self._base[0] == key:
            return self._base[1]
        item = self.store.once("model", key, lambda: self._train_base(seed, fold))
        model = build(self.spec, self.task, seed)
        weights = {
            n: torch.from_numpy(a.copy()) for n, a in item.arrays.items() if n != "test_scores"
        }
        model.load_state_dict(weights)
        self._base = (key, (channels_last(model.to(self.device)).eval(), item))
        return self._base[1]

    _base: tuple[str, tuple[nn.Module, Item]] | None = None

    def _train_base(self, seed: int, fold: int | None) -> Item:
        started = time.perf_counter()
        model = build(self.spec, self.task, seed)
        if self.setting.weights is not None:
            load_weights(model, self.setting.weights).to(self.device)
        else:
            self._start(model)
            train = self.task.train
            if fold is not None:
                train = train.take((fold_of(train, seed) != fold).nonzero()[:, 0])
            fit(model.to(self.device), shown(train), train.labels, self.setting.recipe, seed)
        scores = kept_scores(predict(model, shown(self.task.test)))
        arrays = {
            name: value.detach().cpu().contiguous().numpy()
            for name, value in model.state_dict().items()
        }
        facts = _facts(scores, self.task.test.labels, time.perf_counter() - started)
        return Item({**arrays, "test_scores": scores}, {**facts, "device": str(self.device)})

    def _start(self, model: nn.Module) -> nn.Module:
        """A network at the start of its training: as it is, or with the pretrained weights."""
        if self.setting.recipe.init == "pretrained" and self.setting.pretrained is not None:
            load_weights(model, self.setting.pretrained, new_head=True)
        return model

    # explain

    @functools.cached_property
    def features(self) -> tuple[int, ...]:
        """The shape of what is ranked in an image."""
        return self.task.shape if self.setting.features == "channel" else self.task.shape[1:]

    @functools.cached_property
    def shards(self) -> tuple[Shard, ...]:
        """The parts in which the images are explained; none if they are few."""
        return shards_of(self.task, math.prod(self.features))

    def explain(
        self, names: Sequence[str], seed: int, fractions: Sequence[float],
        shard: Shard | None = None, crossed: bool = False,
    ) -> None:  # fmt: skip
        """Rank images under some chains that share passes, and keep the levels for the fractions.

        All images, or one shard of a large set; whoever makes the last shard closes the set.
        """
        orders = [Order(self.chain(name), seed, crossed) for name in names]
        for order in orders:
            self._check_features(order.chain)
        if self.shards:
            for part in self.shards if shard is None else (shard,):
                self._explain_shard(orders, fractions, part)
            for order in orders:
                self._close(order, fractions)
            return
        makers = self._makers(orders)
        started = time.perf_counter()
        parts = {}
        for split in (self.task.train, self.task.test):
            parts[split.name] = [Ranked() for _ in orders]
            whole_split = Shard(split.name, 0, len(split))
            self._rank(makers, orders, whole_split, fractions, parts[split.name])
        seconds = (time.perf_counter() - started) / len(orders)
        for i, order in enumerate(orders):
            item = levels_item(parts["train"][i], parts["test"][i], fractions, order.chain, seconds)
            self.store.write("levels", self._levels_key(order, fractions), item)

    def _makers(self, orders: Sequence[Order]) -> list[tuple[nn.Module, dict[str, Any]]]:
        """The base models that some orders of a replicate explain, with what the estimators prepared for each."""
        chains, seed = [order.chain for order in orders], orders[0].seed
        needed = any(chain.needs_model for chain in chains)
        found = []
        for fold in self._folds(orders[0].crossed):
            model = self.base(seed, fold)[0] if needed else nn.Identity()
            found.append((model, self._states(model, chains, seed, fold)))
        return found

    def _explain_shard(
        self, orders: Sequence[Order], fractions: Sequence[float], shard: Shard
    ) -> None:
        keys = {order: shard.key(self._levels_key(order, fractions)) for order in orders}
        missing = [order for order in orders if not self.store.has("shard", keys[order])]
        if not missing:
            return
        makers = self._makers(missing)
        started = time.perf_counter()
        results = [Squeezing(shard, fractions) for _ in missing]
        self._rank(makers, missing, shard, fractions, results)
        seconds = (time.perf_counter() - started) / len(missing)
        for order, result in zip(missing, results, strict=True):
            self.store.write("shard", keys[order], result.item(seconds))

    def missing_shards(
        self, orders: Sequence[Order], fractions: Sequence[float]
    ) -> tuple[Shard, ...]:
        """The shards that some orders lack; the last if they lack none, for whoever makes the last closes the set."""
        keys = [self._levels_key(order, fractions) for order in orders]
        missing = [
            s for s in self.shards if not all(self.store.has("shard", s.key(k)) for k in keys)
        ]
        return tuple(missing) or self.shards[-1:]

    def _close(self, order: Order, fractions: Sequence[float]) -> None:
        """Say that all shards of some levels are there, if they are."""
        key = self._levels_key(order, fractions)
        names = [shard.key(key) for shard in self.shards]
        # what others have just written may be missing in a listing, so that absence is looked at twice
        if all(self.store.has("shard", n) or self.store.facts("shard", n) for n in names):
            parts = [self.store.facts("shard", name) for name in names]
            if all(parts):
                found = dict(zip(self.shards, parts, strict=True))
                self.store.write("levels", key, whole(found, order.chain))

    def _check_features(self, chain: Chain) -> None:
        if self.setting.features == "channel" and not chain.knows_channels:
            raise NotApplicable(
                f"{chain.name} knows no colour channels, so it cannot rank channel values"
            )

    def _states(
        self, model: nn.Module, chains: Sequence[Chain], seed: int, fold: int | None = None
    ) -> dict[str, Any]:
        context = Context(Draws.of(seed, (), "train"), self.task.mean, self.task.train)
        states: dict[str, Any] = {}
        for chain in chains:
            for leaf in chain.leaves:
                facts = estimators[leaf.name].facts
                if facts.get("prepare") and str(leaf) not in states:
                    key = self.state_key(str(leaf), facts.get("version"), seed, fold)
                    make = functools.partial(_state_item, model, context, chain, str(leaf))
                    item = self.store.once("state", key, make)
                    states[str(leaf)] = {
                        name: torch.from_numpy(array.copy()) for name, array in item.arrays.items()
                    }
        return states

    def _rank(
        self, makers: Sequence[tuple[nn.Module, dict[str, Any]]], orders: Sequence[Order],
        shard: Shard, fractions: Sequence[float], results: Sequence[Ranked | Squeezing],
    ) -> None:  # fmt: skip
        split, seed = self.split(shard.split), orders[0].seed
        fold = fold_of(split, seed) if len(makers) > 1 else None
        for part in shard.parts(min(CHUNK, split.handful)):
            rows = torch.arange(part.start, part.stop)
            shares = [rows] if fold is None else [rows[fold[rows] == i] for i in range(len(makers))]
            made = [
                self._maps(model, orders, split, share, states)
                for share, (model, states) in zip(shares, makers, strict=True)
                if len(share)
            ]
            place = torch.cat(shares).argsort()
            draws = Draws.of(seed, rows, split.name)
            for result, order, *pieces in zip(results, orders, *made, strict=True):
                maps = pieces[0] if fold is None else torch.cat(pieces)[place]
                result.add(maps, draws, fractions, order.chain.name)

    def _maps(
        self, model: nn.Module, orders: Sequence[Order], split: Split, rows: Tensor,
        states: dict[str, Any],
    ) -> list[Tensor]:  # fmt: skip
        """The maps of some images, one tensor per order."""
        chains = [order.chain for order in orders]
        x, target, context = self._asked(model, orders, split, rows, states)
        maps = explain_chains(model, x, target, context, chains, features=self.setting.features)
        return [a.cpu() for a in maps]

    def signed_maps(self, chains: Sequence[Chain], seed: int, split: Split) -> SignedMaps:
        """What makes the signed maps of some images of a split, before sign, channels and filters."""
        orders = [Order(chain, seed) for chain in chains]
        ((model, states),) = self._makers(orders)
        looks = any(chain.needs_model for chain in chains)
        room = Room.of(model, split.read(slice(0, 2))) if looks else Room(CHUNK)

        def made(rows: Tensor) -> list[Tensor]:
            x, target, context = self._asked(model, orders, split, rows, states)
            calls = [chain.raw for chain in chains]
            raw = room.run(lambda size: raw_maps(model, x, target, context, calls, size))
            return [raw[call].cpu() for call in calls]

        return made

    def _asked(
        self, model: nn.Module, orders: Sequence[Order], split: Split, rows: Tensor,
        states: dict[str, Any],
    ) -> tuple[Tensor, Tensor, Context]:  # fmt: skip
        """Some images, the classes they are explained for, and what surrounds them."""
        x, target = split.read(rows).to(self.device), split.labels[rows].to(self.device)
        draws = Draws.of(orders[0].seed, rows, split.name)
        truth = split.truth(rows)
        context = Context(draws, self.task.mean, self.task.train, truth, states, split)
        if self.setting.target == "predicted" and any(o.chain.needs_model for o in orders):
            target = predict(model, x).argmax(1)
        return x, target, context

    def split(self, name: str) -> Split:
        """The train or the test split."""
        return self.task.train if name == "train" else self.task.test

    def _levels_key(self, order: Order, fractions: Sequence[float]) -> str:
        served = key_of("fractions", {"served": sorted(fractions)})[:8]
        return f"{self._key_of(order)}-{served}"

    def served(self, order: Order) -> set[float]:
        """The fractions for which levels of an order are in the store."""
        keys = self.store.keys("levels", self._key_of(order))
        return {t for key in keys for t in self.store.facts("levels", key).get("fractions", ())}

    def level_facts(self, chain: Chain, seed: int) -> list[dict[str, Any]]:
        """What is known of a chain's orders: ties, cost; one record per explain step."""
        keys = self.store.keys("levels", self.order_key(chain, seed))
        return [self.store.facts("levels", key) for key in keys]

    def levels(self, order: Order, fraction: float, make: bool = True) -> Item:
        """An item of levels that serves a fraction, made if there is none (`make=False`: KeyError)."""
        name = self._key_of(order)
        cached = self._levels.get(name)
        if cached is not None and fraction in cached.facts["fractions"]:
            return cached
        for key in list(self.store.keys("levels", name)):
            if fraction in self.store.facts("levels", key).get("fractions", ()):
                item = self.store.find("levels", key)
                if item is not None:
                    self._levels = {name: item}
                    return item
        if not make:
            raise KeyError(name)
        self.explain([order.chain.name], order.seed, [fraction], crossed=order.crossed)
        return self.store.read("levels", self._levels_key(order, [fraction]))

    _levels: dict[str, Item] = {}

    def important(
        self, order: Order, fraction: float, split: Split, rows: slice | Tensor = slice(None),
        make: bool = True,
    ) -> Tensor:  # fmt: skip
        """The first share `fraction` of the order of some images, as bool images."""
        if order.chain.is_direct:
            return self._direct(order, fraction, split, row_numbers(rows, len(split)))
        item = self.levels(order, fraction, make)
        served = tuple(item.facts["fractions"])
        if "shards" in item.facts:
            levels = self._sharded(order, served, split.name, make)
            return levels.removed(fraction, self.features, row_numbers(rows, len(split)))
        packed = Levels(served, item.arrays[split.name], math.prod(self.features))
        return packed.removed(fraction, self.features, rows)

    def _sharded(
        self, order: Order, fractions: tuple[float, ...], split: str, make: bool = True
    ) -> ShardedLevels:
        """The levels of a split that lie in shards; `make`: what is lost or damaged is made again."""
        key = self._levels_key(order, fractions)
        if (key, split, make) in self._shelves:
            return self._shelves[key, split, make]

        def mend(shard: Shard) -> None:
            self.store.find("shard", shard.key(key))  # sets a damaged file aside
            self.explain([order.chain.name], order.seed, fractions, shard, order.crossed)

        mine = tuple(shard for shard in self.shards if shard.split == split)
        if len(self._shelves) >= SHELVES:
            self._shelves.clear()
        self._shelves[key, split, make] = ShardedLevels(
            self.store, key, mine, fractions, math.prod(self.features), mend if make else None
        )
        return self._shelves[key, split, make]

    def _direct(self, order: Order, fraction: float, split: Split, rows: Tensor) -> Tensor:
        call = order.chain.raw
        context = Context(Draws.of(order.seed, rows, split.name), self.task.mean, self.task.train)
        removes = estimators[call.name].function
        return removes(split.read(rows), fraction, context, **dict(call.options))

    def test_map(self, chain: Chain, seed: int, row: int) -> np.ndarray | None:
        """The stored map of one test image, scaled to [-1, 1]; channels summed."""
        found = self.test_maps(chain, seed, slice(row, row + 1))
        if found is None:
            return None
        return found[0].sum(0) / len(found[0]) if found[0].ndim == 3 else found[0]

    def test_maps(self, chain: Chain, seed: int, rows: slice = slice(None)) -> np.ndarray | None:
        """The stored maps of some test images, each scaled to [-1, 1]."""
        for key in self.store.keys("levels", self.order_key(chain, seed)):
            item = self.store.find("levels", key)
            if item is not None:
                if "shards" not in item.facts:
                    return item.arrays["test_maps"][rows].astype(np.float32)
                levels = self._sharded(Order(chain, seed), tuple(item.facts["fractions"]), "test")
                numbers = row_numbers(rows, len(self.task.test))
                return levels.maps(numbers, self.features).astype(np.float32)
        return None

    # retrain and evaluate

    def changed(self, cell: Cell, split: Split) -> Tensor | Shown:
        """What the network of a cell gets to see of a split; of a split that streams, made when it is read."""
        protocol = protocol_named(cell.protocol)
        wears = self._wears(cell, split)

        def change(rows: Tensor) -> Tensor:
            around = self.around(Draws.of(cell.seed, rows, split.name))
            return protocol.shown(split.read(rows), wears(rows), self.setting.fill, around)

        return shown(split, change)

    def _wears(self, cell: Cell, split: Split) -> Callable[[Tensor], Tensor]:
        """The most important pixels of the mask that images of a split wear, by rows, as bool images."""
        protocol, orders = protocol_named(cell.protocol), self.orders(cell)
        training = split.name == self.task.train.name
        masks, order = (protocol.train, orders[0]) if training else (protocol.test, orders[1])
        if masks.of == "none":
            return lambda rows: torch.zeros(len(rows), *self.features, dtype=torch.bool)
        whose = worn(split, masks, cell.seed)
        return lambda rows: self.important(
            order, cell.fraction, split, rows if whose is None else whose[rows]
        )

    def removed(self, cell: Cell, split: Split) -> Tensor:
        """What goes from the images of a split, as bool images."""
        important = self._wears(cell, split)(torch.arange(len(split)))
        return protocol_named(cell.protocol).removed(important)

    @functools.cached_property
    def stacks(self) -> bool:
        """Whether the networks of several cells are trained at once."""
        held = not self.task.train.streams and self.setting.recipe.plain
        return held and stackable(build(self.spec, self.task, 0), self.task.shape)

    def measure(self, cells: Sequence[Cell]) -> None:
        """Keep the test scores of some cells of one replicate: of fresh networks, or of the base model.

        A network is trained once for all cells that test it. Tests that need no further maps come along, asked for or
        not: they are next to free, and would cost a training later.
        """
        missing = [c for c in cells if self.store.find("cell", self.cell_key(c)) is None]
        for chain in {self.chain(cell.estimator).name: None for cell in missing}:
            self._check_features(self.chain(chain))
        fresh = {self.training_key(c): c for c in missing if protocol_named(c.protocol).retrains}
        networks, training = self._retrained(fresh)
        for cell in dict.fromkeys([*missing, *self._companions(fresh)]):
            started = time.perf_counter()
            again = protocol_named(cell.protocol).retrains
            model = networks[self.training_key(cell)] if again else self.base(cell.seed)[0]
            item = self._tested(model, cell)
            # the training counts once
            spent = training if again and fresh[self.training_key(cell)] == cell else 0.0
            seconds = time.perf_counter() - started + spent
            how: dict[str, Any] = {"seconds": seconds, "training_seconds": spent}
            how |= {"init": self.setting.recipe.init} if again else {}
            facts = {**item.facts, **how, "device": str(self.device)}
            self.store.write("cell", self.cell_key(cell), Item(item.arrays, facts))

    def _companions(self, fresh: Mapping[str, Cell]) -> list[Cell]:
        """Other tests of the trainings that can be made from the same maps and are not there yet."""
        tests = [
            (key, replace(cell, protocol=name), self.orders(cell)[0])
            for key, cell in fresh.items()
            for name, protocol in PROTOCOLS.items()
            if protocol.retrains
        ]
        return [
            test
            for key, test, trained in tests
            if self.orders(test)[1] == trained
            and self.training_key(test) == key
            and not self.store.has("cell", self.cell_key(test))
        ]

    def _retrained(self, fresh: Mapping[str, Cell]) -> tuple[dict[str, nn.Module], float]:
        """A fresh network per training, by its key, that has learned what the training images show; seconds each."""
        networks: dict[str, nn.Module] = {}
        train, spent = self.task.train, 0.0
        for _, group in itertools.groupby(fresh.items(), lambda named: _network(named[1])):
            keys, cells = zip(*group, strict=True)
            (seed,) = {cell.seed for cell in cells}
            images = [self.changed(cell, train) for cell in cells]
            models = [
                self._fresh(cell, x).to(self.device) for cell, x in zip(cells, images, strict=True)
            ]
            began = time.perf_counter()
            if protocol_named(cells[0].protocol).learns == "mask":
                for cell, model, x in zip(cells, models, images, strict=True):
                    gone = self.removed(cell, train).long()
                    fit(model, x, gone, finder_recipe(self.setting.recipe), seed)
            else:
                fit_all(models, images, train.labels, self.setting.recipe, seed)
            spent += time.perf_counter() - began
            networks |= dict(zip(keys, models, strict=True))
        return networks, spent / max(1, len(fresh))

    def _fresh(self, cell: Cell, images: Tensor | Shown) -> nn.Module:
        """An untrained network for what a cell shows."""
        protocol = protocol_named(cell.protocol)
        if protocol.learns == "mask":
            if self.setting.features == "channel":
                raise NotApplicable(f"{protocol.name} finds removed pixels, not channel values")
            if not isinstance(images, Tensor):
                raise NotApplicable(f"{protocol.name} needs images that fit in memory; give limit=")
            return finder(images.shape[1], self.task.mean, self.task.std, cell.seed)
        if protocol.sees == "pixels":
            return self._start(build(self.spec, self.task, cell.seed))
        moments = self._moments(cell, protocol)
        return build_seeing(self.spec, self.task, cell.seed, images[:2], *moments)

    def _moments(self, cell: Cell, protocol: Protocol) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of what a network sees: those of a mask follow from the fraction."""
        c, h, w = self.task.shape
        features = c * h * w if self.setting.features == "channel" else h * w
        share = count(cell.fraction, features) / features
        share = 1 - share if protocol.keeps else share
        per_image = c if protocol.sees == "mask" or self.setting.features == "channel" else 1
        mean = torch.full((per_image,), share)
        std = (mean * (1 - mean)).sqrt()
        if protocol.sees == "mask":
            return mean, std
        return torch.cat([self.task.mean, mean]), torch.cat([self.task.std, std])

    def _tested(self, model: nn.Module, cell: Cell) -> Item:
        """What a network says of the test images of a cell."""
        test = self.task.test
        images = self.changed(cell, test)
        if protocol_named(cell.protocol).learns == "mask":
            areas = found(pixel_scores(model, images[:]), self.removed(cell, test))
            return Item({"areas": areas.float().numpy()}, {"images": len(test)})
        scores = kept_scores(predict(model, images))
        return Item({"test_scores": scores}, _facts(scores, test.labels, 0.0))

    # score

    def score_key(self, unit: Scored) -> str:
        """One metric of one chain's maps of the test images."""
        call = metrics.complete(read_metric(unit.metric))
        chain = self.chain(unit.estimator)
        inputs = {
            "chain": chain.identity, "metric": str(call), "version": metrics[call.name].facts["version"],
            "model": self.model_key(unit.seed), "target": self.setting.target, "seed": unit.seed,
            "resamples": RESAMPLES,
        }  # fmt: skip
        return key_of("score", {**self._data, **inputs})

    def score(self, units: Sequence[Scored]) -> None:
        """Metrics of one chain's maps of all test images; each changed image is shown to the model once."""
        chain, seed = self.chain(units[0].estimator), units[0].seed
        if chain.is_direct:
            raise NotApplicable(
                f"{chain.name} removes without ranking, so there is no map to score"
            )
        model = self.base(seed)[0]
        calls = [read_metric(unit.metric) for unit in units]
        states = self._states(model, [chain], seed)
        parts, ties, shown, started = [], [], 0, time.perf_counter()

        def scored(span: slice, rows: int) -> tuple[dict[str, Responses], int, Tensor]:
            batch = self._batch(model, chain, seed, span, states)
            return (*evaluate(calls, batch, rows), tied_pixels(batch.maps))

        room = Room.of(model, self.task.test.read(slice(0, 2)))
        for responses, passed, tied_in in room.over(len(self.task.test), SCORED, scored):
            parts.append(responses)
            ties.append(tied_in)
            shown += passed
        tied = float(torch.cat(ties).mean())
        seconds = (time.perf_counter() - started) / len(units)
        everything = joined(parts)
        for unit, call in zip(units, calls, strict=True):
            kept = everything[str(call)]
            arrays = {name: value.contiguous().numpy() for name, value in kept.items()}
            arrays[RESAMPLES] = bootstrap(call, kept)
            facts = {**summarise(call, kept), "tied": tied, "seconds": seconds, "forwards": shown}
            self.store.write("score", self.score_key(unit), Item(arrays, _jsonable(facts)))

    def _batch(
        self, model: nn.Module, chain: Chain, seed: int, rows: slice, states: dict[str, Any]
    ) -> Batch:
        test = self.task.test
        x, y, truth = test.read(rows), test.labels[rows], test.truth(rows)
        draws = Draws.of(seed, range(rows.start, rows.stop), "test")
        clean = predict(model, x)
        context = Context(draws, self.task.mean, self.task.train, truth, states, test)
        target = clean.argmax(1) if self.setting.target == "predicted" else y

        @explained_there
        def explain(other: nn.Module, images: Tensor, classes: Tensor, own: Draws) -> Tensor:
            around = Context(own, self.task.mean, self.task.train, None, states)
            return explain_chains(other, images, classes, around, [chain])[0]

        @explained_there
        def mapped(model: nn.Module, images: Tensor, classes: Tensor) -> Tensor:
            return explain_chains(model, images, classes, context, [chain])[0]

        maps, asked = mapped(model, x, target), from_here(model)
        again = None if chain.files else explain
        return Batch(asked, x, y, maps, clean, draws, self.task.mean, truth, explain=again)


def _network(cell: Cell) -> tuple[str, str]:
    """What kind of network a cell trains: those of a kind start alike."""
    protocol = protocol_named(cell.protocol)
    return protocol.sees, protocol.learns


def _jsonable(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON can hold them: a number that is not defined becomes null."""
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()
    }


def _state_item(model: nn.Module, context: Context, chain: Chain, leaf: str) -> Item:
    state = prepare_states(model, context, [chain])[leaf]
    return Item({name: value.detach().cpu().contiguous().numpy() for name, value in state.items()})


def kept_scores(scores: Tensor) -> np.ndarray:
    """Class scores as they are kept: minus the row's largest, in float16.

    The difference is all that probabilities and decisions need, and it is exact where it matters, near the top.
    """
    lost = ~torch.isfinite(scores).all(1)
    if bool(lost.any()):
        raise BadMap(
            f"the training diverged: {int(lost.sum())} of {len(scores)} test images have NaN or "
            "infinite scores; lower the recipe's lr"
        )
    differences = scores - scores.amax(1, keepdim=True)
    return differences.clamp_min(-6e4).half().numpy()


def _facts(scores: np.ndarray, labels: Tensor, seconds: float) -> dict[str, Any]:
    correct = int((scores.argmax(1) == labels.numpy()).sum())
    bits = surprise(torch.from_numpy(scores), labels)
    return {
        "bits": float(bits.mean()),
        "correct": correct,
        "images": len(labels),
        "accuracy": correct / len(labels),
        "seconds": seconds,
    }


@functools.lru_cache(maxsize=4)
def bench_for(setting: Setting, root: str) -> Bench:
    """The bench of a setting in this process: its data and models are loaded once."""
    return Bench(setting, Store(root))
