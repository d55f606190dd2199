"""The steps of a study: train, explain, retrain, evaluate. Each is a function of what it depends on.

A step's key is a hash of everything that shapes its result, so that equal steps of different studies are one. Each
asks the store first, and makes what is missing, inputs included: a lost or damaged file costs time, nothing else.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uproar.batches import spans
from uproar.data import Split, Task, load
from uproar.data.stream import row_numbers
from uproar.errors import BadMap, NotApplicable
from uproar.estimators import Chain, Context, estimators, explain_chains, prepare_states, read_chain
from uproar.metrics import Batch, metrics
from uproar.metrics.base import read_metric
from uproar.metrics.probe import evaluate, joined, summarise
from uproar.metrics.resampling import bootstrap
from uproar.models import ModelSpec, build
from uproar.models.weights import load_weights, weights_hash
from uproar.protocols import protocol_named
from uproar.removal import Around, Levels
from uproar.removal.order import tied_pixels
from uproar.seeds import Draws
from uproar.store import Item, Store, key_of
from uproar.study.cell import Cell, Scored
from uproar.study.ranked import Ranked, levels_item
from uproar.study.shards import Shard, ShardedLevels, Squeezing, shards_of, whole
from uproar.study.shown import Shown, shown
from uproar.study.spec import Study
from uproar.training import Recipe, channels_last, fit, fit_all, predict, stackable
from uproar.types import Images

CHUNK = 512
"""Images explained and ranked at a time: bounds memory, whatever the size of the data set."""


SCORED = 64
"""Images scored at a time."""

RESAMPLES = "resampled"
"""The array of a score item that holds the metric's number for many resamples of the images."""

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
    limit: int | None = None

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
                "limit",
            )
        }
        return [cls(task, model, **common) for task in study.tasks for model in study.models]


class Bench:
    """The steps of one setting on one store."""

    def __init__(self, setting: Setting, store: Store) -> None:
        self.setting, self.store = setting, store
        self.spec = ModelSpec.of(setting.model)

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

    def chain(self, name: str) -> Chain:
        """An estimator of the study."""
        return read_chain(name, self.setting.sign, self.setting.channels)  # type: ignore[arg-type]

    # identities: what each result depends on, and nothing else

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        return {"data": self.task.fingerprint}

    @functools.cached_property
    def _learning(self) -> dict[str, Any]:
        return {**self.spec.identity, "recipe": self.setting.recipe.model_dump(mode="json")}

    def model_key(self, seed: int) -> str:
        """The base model of a replicate."""
        if self.setting.weights is not None:
            given = {"weights": weights_hash(self.setting.weights)}
            return key_of("model", {**self._data, **self.spec.identity, **given})
        return key_of("model", {**self._data, **self._learning, "seed": seed})

    def order_key(self, chain: Chain, seed: int) -> str:
        """The order of all features of all images under one chain."""
        inputs: dict[str, Any] = {"chain": chain.identity, "features": self.setting.features}
        if chain.needs_model:
            inputs |= {"model": self.model_key(seed), "target": self.setting.target}
        return key_of("order", {**self._data, **inputs, "seed": seed})

    def state_key(self, call: str, version: Any, seed: int) -> str:
        """What an estimator prepares once for a base model."""
        inputs = {
            "model": self.model_key(seed),
            "estimator": call,
            "version": version,
            "seed": seed,
        }
        return key_of("state", {**self._data, **inputs})

    def cell_key(self, cell: Cell) -> str:
        """One number of the study."""
        protocol = protocol_named(cell.protocol)
        inputs: dict[str, Any] = {
            "order": self.order_key(self.chain(cell.estimator), cell.seed),
            "fill": self.setting.fill,
            "keeps": protocol.keeps,
            "fraction": cell.fraction,
            "seed": cell.seed,
        }
        if protocol.retrains:
            how = {"training": "stack"} if self.stacks else {}
            return key_of("cell", {**self._data, **self._learning, **inputs, **how})
        return key_of("cell", {**inputs, "asks": self.model_key(cell.seed)})

    # train

    def base(self, seed: int) -> tuple[nn.Module, Item]:
        """The base model of a replicate, with its test scores."""
        key = self.model_key(seed)
        if self._base is not None and self._base[0] == key:
            return self._base[1]
        item = self.store.once("model", key, lambda: self._train_base(seed))
        model = build(self.spec, self.task, seed)
        weights = {
            n: torch.from_numpy(a.copy()) for n, a in item.arrays.items() if n != "test_scores"
        }
        model.load_state_dict(weights)
        self._base = (key, (channels_last(model).eval(), item))
        return self._base[1]

    _base: tuple[str, tuple[nn.Module, Item]] | None = None

    def _train_base(self, seed: int) -> Item:
        started = time.perf_counter()
        model = build(self.spec, self.task, seed)
        if self.setting.weights is not None:
            load_weights(model, self.setting.weights)
        else:
            images = shown(self.task.train)
            fit(model, images, self.task.train.labels, self.setting.recipe, seed)
        scores = kept_scores(predict(model, shown(self.task.test)))
        arrays = {
            name: value.detach().contiguous().numpy() for name, value in model.state_dict().items()
        }
        facts = _facts(scores, self.task.test.labels, time.perf_counter() - started)
        return Item({**arrays, "test_scores": scores}, facts)

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
        shard: Shard | None = None,
    ) -> None:  # fmt: skip
        """Rank images under some chains that share passes, and keep the levels for the fractions.

        All images, or one shard of a large set; whoever makes the last shard closes the set.
        """
        chains = [self.chain(name) for name in names]
        for chain in chains:
            self._check_features(chain)
        if self.shards:
            for part in self.shards if shard is None else (shard,):
                self._explain_shard(chains, seed, fractions, part)
            for chain in chains:
                self._close(chain, seed, fractions)
            return
        model, states = self._explained(chains, seed)
        started = time.perf_counter()
        parts = {}
        for split in (self.task.train, self.task.test):
            parts[split.name] = [Ranked() for _ in chains]
            whole_split = Shard(split.name, 0, len(split))
            self._rank(model, chains, whole_split, seed, fractions, states, parts[split.name])
        seconds = (time.perf_counter() - started) / len(chains)
        for i, chain in enumerate(chains):
            item = levels_item(parts["train"][i], parts["test"][i], fractions, chain, seconds)
            self.store.write("levels", self._levels_key(chain, seed, fractions), item)

    def _explained(self, chains: Sequence[Chain], seed: int) -> tuple[nn.Module, dict[str, Any]]:
        """The model that some chains explain, and what they prepared for it."""
        needs_model = any(chain.needs_model for chain in chains)
        model = self.base(seed)[0] if needs_model else nn.Identity()
        return model, self._states(model, chains, seed)

    def _explain_shard(
        self, chains: Sequence[Chain], seed: int, fractions: Sequence[float], shard: Shard
    ) -> None:
        keys = {c: shard.key(self._levels_key(c, seed, fractions)) for c in chains}
        missing = [chain for chain in chains if not self.store.has("shard", keys[chain])]
        if not missing:
            return
        model, states = self._explained(missing, seed)
        started = time.perf_counter()
        results = [Squeezing(shard, fractions) for _ in missing]
        self._rank(model, missing, shard, seed, fractions, states, results)
        seconds = (time.perf_counter() - started) / len(missing)
        for chain, result in zip(missing, results, strict=True):
            self.store.write("shard", keys[chain], result.item(seconds))

    def missing_shards(
        self, chains: Sequence[Chain], seed: int, fractions: Sequence[float]
    ) -> tuple[Shard, ...]:
        """The shards that some chains lack; the last if they lack none, for whoever makes the last closes the set."""
        keys = [self._levels_key(chain, seed, fractions) for chain in chains]
        missing = [
            s for s in self.shards if not all(self.store.has("shard", s.key(k)) for k in keys)
        ]
        return tuple(missing) or self.shards[-1:]

    def _close(self, chain: Chain, seed: int, fractions: Sequence[float]) -> None:
        """Say that all shards of some levels are there, if they are."""
        key = self._levels_key(chain, seed, fractions)
        names = [shard.key(key) for shard in self.shards]
        # what others have just written may be missing in a listing, so that absence is looked at twice
        if all(self.store.has("shard", n) or self.store.facts("shard", n) for n in names):
            parts = [self.store.facts("shard", name) for name in names]
            if all(parts):
                found = dict(zip(self.shards, parts, strict=True))
                self.store.write("levels", key, whole(found, chain))

    def _check_features(self, chain: Chain) -> None:
        if self.setting.features == "channel" and not chain.knows_channels:
            raise NotApplicable(
                f"{chain.name} knows no colour channels, so it cannot rank channel values"
            )

    def _states(self, model: nn.Module, chains: Sequence[Chain], seed: int) -> dict[str, Any]:
        context = Context(Draws.of(seed, (), "train"), self.task.mean, self.task.train)
        states: dict[str, Any] = {}
        for chain in chains:
            for leaf in chain.leaves:
                facts = estimators[leaf.name].facts
                if facts.get("prepare") and str(leaf) not in states:
                    key = self.state_key(str(leaf), facts.get("version"), seed)
                    make = functools.partial(_state_item, model, context, chain, str(leaf))
                    item = self.store.once("state", key, make)
                    states[str(leaf)] = {
                        name: torch.from_numpy(array.copy()) for name, array in item.arrays.items()
                    }
        return states

    def _rank(
        self, model: nn.Module, chains: Sequence[Chain], shard: Shard, seed: int,
        fractions: Sequence[float], states: dict[str, Any], results: Sequence[Ranked | Squeezing],
    ) -> None:  # fmt: skip
        split = self.split(shard.split)
        for rows in shard.parts(min(CHUNK, split.handful)):
            x = split.read(rows)
            index = range(rows.start, rows.stop)
            context = Context(
                Draws.of(seed, index, split.name), self.task.mean, self.task.train,
                split.truth(rows), states,
            )  # fmt: skip
            target = split.labels[rows]
            if self.setting.target == "predicted" and any(c.needs_model for c in chains):
                target = predict(model, x).argmax(1)
            maps = explain_chains(model, x, target, context, chains, features=self.setting.features)
            for result, chain, a in zip(results, chains, maps, strict=True):
                result.add(a, context.draws, fractions, chain.name)

    def split(self, name: str) -> Split:
        """The train or the test split."""
        return self.task.train if name == "train" else self.task.test

    def _levels_key(self, chain: Chain, seed: int, fractions: Sequence[float]) -> str:
        served = key_of("fractions", {"served": sorted(fractions)})[:8]
        return f"{self.order_key(chain, seed)}-{served}"

    def served(self, chain: Chain, seed: int) -> set[float]:
        """The fractions for which levels of a chain are in the store."""
        keys = self.store.keys("levels", self.order_key(chain, seed))
        return {t for key in keys for t in self.store.facts("levels", key).get("fractions", ())}

    def level_facts(self, chain: Chain, seed: int) -> list[dict[str, Any]]:
        """What is known of a chain's orders: ties, cost; one record per explain step."""
        keys = self.store.keys("levels", self.order_key(chain, seed))
        return [self.store.facts("levels", key) for key in keys]

    def levels(self, chain: Chain, seed: int, fraction: float, make: bool = True) -> Item:
        """An item of levels that serves a fraction, made if there is none (`make=False`: KeyError)."""
        order = self.order_key(chain, seed)
        cached = self._levels.get(order)
        if cached is not None and fraction in cached.facts["fractions"]:
            return cached
        for key in list(self.store.keys("levels", order)):
            if fraction in self.store.facts("levels", key).get("fractions", ()):
                item = self.store.find("levels", key)
                if item is not None:
                    self._levels = {order: item}
                    return item
        if not make:
            raise KeyError(order)
        self.explain([chain.name], seed, [fraction])
        return self.store.read("levels", self._levels_key(chain, seed, [fraction]))

    _levels: dict[str, Item] = {}

    def important(
        self, chain: Chain, seed: int, fraction: float, split: Split,
        rows: slice | Tensor = slice(None), make: bool = True,
    ) -> Tensor:  # fmt: skip
        """The first share `fraction` of the order of some images, as bool images."""
        if chain.is_direct:
            return self._direct(chain, seed, fraction, split, row_numbers(rows, len(split)))
        item = self.levels(chain, seed, fraction, make)
        served = tuple(item.facts["fractions"])
        if "shards" in item.facts:
            levels = self._sharded(chain, seed, served, split.name, make)
            return levels.removed(fraction, self.features, row_numbers(rows, len(split)))
        packed = Levels(served, item.arrays[split.name], math.prod(self.features))
        return packed.removed(fraction, self.features, rows)

    def _sharded(
        self, chain: Chain, seed: int, fractions: tuple[float, ...], split: str, make: bool = True
    ) -> ShardedLevels:
        """The levels of a split that lie in shards; `make`: what is lost or damaged is made again."""
        key = self._levels_key(chain, seed, fractions)

        def mend(shard: Shard) -> None:
            self.store.find("shard", shard.key(key))  # sets a damaged file aside
            self.explain([chain.name], seed, fractions, shard)

        mine = tuple(shard for shard in self.shards if shard.split == split)
        return ShardedLevels(
            self.store, key, mine, fractions, math.prod(self.features), mend if make else None
        )

    def _direct(
        self, chain: Chain, seed: int, fraction: float, split: Split, rows: Tensor
    ) -> Tensor:
        entry = estimators[chain.raw.name]
        context = Context(Draws.of(seed, rows, split.name), self.task.mean, self.task.train)
        return entry.function(split.read(rows), fraction, context, **dict(chain.raw.options))

    def test_map(self, chain: Chain, seed: int, row: int) -> np.ndarray | None:
        """The stored map of one test image, scaled to [-1, 1]; channels summed."""
        for key in self.store.keys("levels", self.order_key(chain, seed)):
            item = self.store.find("levels", key)
            if item is not None:
                a = self._test_map(chain, seed, row, item).astype(np.float32)
                return a.sum(0) / len(a) if a.ndim == 3 else a
        return None

    def _test_map(self, chain: Chain, seed: int, row: int, item: Item) -> np.ndarray:
        if "shards" not in item.facts:
            return item.arrays["test_maps"][row]
        levels = self._sharded(chain, seed, tuple(item.facts["fractions"]), "test")
        return levels.map(row, self.features)

    # retrain and evaluate

    def changed(self, cell: Cell, split: Split) -> Images | Shown:
        """The images of a split as a cell's protocol shows them; of a split that streams, made when they are read."""
        chain, protocol = self.chain(cell.estimator), protocol_named(cell.protocol)

        def change(rows: Tensor) -> Images:
            important = self.important(chain, cell.seed, cell.fraction, split, rows)
            draws = Draws.of(cell.seed, rows, split.name)
            around = Around(draws, self.task.mean, self._marginals)
            return protocol.change(split.read(rows), important, self.setting.fill, around)

        return shown(split, change)

    @functools.cached_property
    def stacks(self) -> bool:
        """Whether the networks of several cells are trained at once."""
        held = not self.task.train.streams
        return held and stackable(build(self.spec, self.task, 0), self.task.shape)

    def measure(self, cells: Sequence[Cell]) -> None:
        """Keep the test scores of some cells of one replicate: of fresh networks, or of the base model."""
        missing = [c for c in cells if self.store.find("cell", self.cell_key(c)) is None]
        for chain in {self.chain(cell.estimator).name: None for cell in missing}:
            self._check_features(self.chain(chain))
        retrained = [cell for cell in missing if protocol_named(cell.protocol).retrains]
        networks, training = self._retrained(retrained)
        for cell in missing:
            started = time.perf_counter()
            again = cell in networks
            model = networks[cell] if again else self.base(cell.seed)[0]
            scores = kept_scores(predict(model, self.changed(cell, self.task.test)))
            spent = training if again else 0.0
            facts = _facts(scores, self.task.test.labels, time.perf_counter() - started + spent)
            item = Item({"test_scores": scores}, {**facts, "training_seconds": spent})
            self.store.write("cell", self.cell_key(cell), item)

    def _retrained(self, cells: Sequence[Cell]) -> tuple[dict[Cell, nn.Module], float]:
        """A fresh network for each cell, trained on its version of the images, and the seconds each took."""
        if not cells:
            return {}, 0.0
        (seed,) = {cell.seed for cell in cells}
        models = [build(self.spec, self.task, seed) for _ in cells]
        images = [self.changed(cell, self.task.train) for cell in cells]
        began = time.perf_counter()
        fit_all(models, images, self.task.train.labels, self.setting.recipe, seed)
        return dict(zip(cells, models, strict=True)), (time.perf_counter() - began) / len(cells)

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
        for rows in spans(len(self.task.test), SCORED):
            batch = self._batch(model, chain, seed, rows, states)
            responses, count = evaluate(calls, batch)
            parts.append(responses)
            ties.append(tied_pixels(batch.maps))
            shown += count
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
        context = Context(draws, self.task.mean, self.task.train, truth, states)
        target = clean.argmax(1) if self.setting.target == "predicted" else y

        def explain(other: nn.Module, images: Tensor, classes: Tensor, own: Draws) -> Tensor:
            around = Context(own, self.task.mean, self.task.train, None, states)
            return explain_chains(other, images, classes, around, [chain])[0]

        maps = explain_chains(model, x, target, context, [chain])[0]
        return Batch(model, x, y, maps, clean, draws, self.task.mean, truth, explain=explain)


def _jsonable(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON can hold them: a number that is not defined becomes null."""
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()
    }


def _state_item(model: nn.Module, context: Context, chain: Chain, leaf: str) -> Item:
    state = prepare_states(model, context, [chain])[leaf]
    return Item({name: value.detach().contiguous().numpy() for name, value in state.items()})


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
    return {
        "correct": correct,
        "images": len(labels),
        "accuracy": correct / len(labels),
        "seconds": seconds,
    }


@functools.lru_cache(maxsize=4)
def bench_for(setting: Setting, root: str) -> Bench:
    """The bench of a setting in this process: its data and models are loaded once."""
    return Bench(setting, Store(root))
