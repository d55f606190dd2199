"""Images explained and ranked: which pixels are the first to go, kept as levels."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uproar.data import Split
from uproar.data.stream import row_numbers
from uproar.errors import CODE_ERRORS, Absent, BrokenRule, Damaged, NotApplicable, SideEffect, one_line
from uproar.estimators import Chain, Context, estimators, explain_chains, raw_maps
from uproar.estimators.base import run
from uproar.estimators.short_contract import IMAGES, contract_violation, user_chains
from uproar.models import MemoryBudget
from uproar.protocols.mask_assignment import fold_of
from uproar.removal import Levels
from uproar.seeds import Draws
from uproar.storage.store import Item, Store, key_of
from uproar.study.base_models import Bases
from uproar.study.level_table import Ranked, levels_item
from uproar.study.settings import ImageRanking, Setting
from uproar.study.shards import Shard, ShardedLevels, Squeezing, shards_of, whole
from uproar.training import predict

SignedMaps = Callable[[Tensor], list[Tensor]]
"""From row numbers of a split to the maps of those images, one tensor per chain."""

_RULES: dict[Hashable, str | None] = {}
"""What is known in this process of the rules that estimators of the user keep."""

CHUNK = 512
"""Images explained and ranked at a time: bounds memory, whatever the size of the data set."""

SHELVES = 8
"""Levels in shards whose tables of contents are held at a time."""


class Explaining(Bases):
    """The orders of all pixels, made by estimators and read by protocols."""

    def __init__(self, setting: Setting, store: Store) -> None:
        super().__init__(setting, store)
        self._shelves: dict[tuple[str, str, bool], ShardedLevels] = {}

    @functools.cached_property
    def features(self) -> tuple[int, ...]:
        """The shape of what is ranked in an image."""
        return self.task.shape if self.setting.features == "channel" else self.task.shape[1:]

    @functools.cached_property
    def shards(self) -> tuple[Shard, ...]:
        """The parts in which the images are explained; none if they are few."""
        return shards_of(self.task, math.prod(self.features))

    def explain(
        self,
        names: Sequence[str],
        seed: int,
        fractions: Sequence[float],
        shard: Shard | None = None,
        crossed: bool = False,
    ) -> None:
        """Rank images under some chains that share passes, and keep the levels for the fractions.

        All images, or one shard of a large set; whoever makes the last shard closes the set.
        """
        orders = [ImageRanking(self.chain(name), seed, crossed) for name in names]
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

    def check_rules(self, name: str, seed: int, crossed: bool = False) -> None:
        """Refuse a chain whose estimators of the user break the rules on a few test images; once in a process."""
        for chain in user_chains(self.chain(name)):
            functions = tuple(estimators[call.name].function for call in chain.raw.walk())
            known = (self.setting, str(chain.identity), crossed, functions)
            if known not in _RULES:
                _RULES[known] = self._broken_rule(ImageRanking(chain, seed, crossed))
            if _RULES[known] is not None:
                raise BrokenRule(_RULES[known])

    def _broken_rule(self, order: ImageRanking) -> str | None:
        rows = torch.arange(min(IMAGES, len(self.task.test)))
        model, states = self._makers([order])[0]
        given = self._asked(model, [order], self.task.test, rows, states)
        try:
            return contract_violation(model, *given, order.chain)
        except SideEffect as error:
            self.forget()
            return one_line(error)
        except CODE_ERRORS:
            return None  # its own job says what is wrong with it

    def _makers(self, orders: Sequence[ImageRanking]) -> list[tuple[nn.Module, dict[str, Any]]]:
        """The base models that some orders of a replicate explain, with what the estimators prepared for each."""
        chains, seed = [order.chain for order in orders], orders[0].seed
        needed = any(chain.needs_model for chain in chains)
        found = []
        for fold in self._folds(orders[0].crossed):
            model = self.base(seed, fold)[0] if needed else nn.Identity()
            found.append((model, self._states(model, chains, seed, fold)))
        return found

    def _explain_shard(self, orders: Sequence[ImageRanking], fractions: Sequence[float], shard: Shard) -> None:
        keys = {order: shard.key(self._levels_key(order, fractions)) for order in orders}
        missing = [order for order in orders if not self.store.intact("shard", keys[order])]
        if not missing:
            return
        makers = self._makers(missing)
        started = time.perf_counter()
        results = [Squeezing(shard, fractions) for _ in missing]
        self._rank(makers, missing, shard, fractions, results)
        seconds = (time.perf_counter() - started) / len(missing)
        for order, result in zip(missing, results, strict=True):
            self.store.write("shard", keys[order], result.item(seconds))

    def missing_shards(self, orders: Sequence[ImageRanking], fractions: Sequence[float]) -> tuple[Shard, ...]:
        """The shards that some orders lack; the last if they lack none, for whoever makes the last closes the set."""
        keys = [self._levels_key(order, fractions) for order in orders]
        missing = [s for s in self.shards if not all(self.store.intact("shard", s.key(k)) for k in keys)]
        return tuple(missing) or self.shards[-1:]

    def _close(self, order: ImageRanking, fractions: Sequence[float]) -> None:
        """Say that all shards of some levels are there, if they are."""
        key = self._levels_key(order, fractions)
        found: dict[Shard, dict[str, Any]] = {}
        for shard in self.shards:
            found[shard] = self.store.facts("shard", shard.key(key))
            if not found[shard]:
                return
        self.store.write("levels", key, whole(found, order.chain))

    def _rank(
        self,
        makers: Sequence[tuple[nn.Module, dict[str, Any]]],
        orders: Sequence[ImageRanking],
        shard: Shard,
        fractions: Sequence[float],
        results: Sequence[Ranked | Squeezing],
    ) -> None:
        split, seed = self.split(shard.split), orders[0].seed
        fold = fold_of(split, seed) if len(makers) > 1 else None
        for part in shard.parts(min(CHUNK, split.rows_at_once)):
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
        self, model: nn.Module, orders: Sequence[ImageRanking], split: Split, rows: Tensor, states: dict[str, Any]
    ) -> list[Tensor]:
        """The maps of some images, one tensor per order."""
        chains = [order.chain for order in orders]
        x, target, context = self._asked(model, orders, split, rows, states)
        maps = explain_chains(model, x, target, context, chains, features=self.setting.features)
        return [a.cpu() for a in maps]

    def signed_maps(self, chains: Sequence[Chain], seed: int, split: Split) -> SignedMaps:
        """What makes the signed maps of some images of a split, before sign, channels and filters."""
        orders = [ImageRanking(chain, seed) for chain in chains]
        ((model, states),) = self._makers(orders)
        looks = any(chain.needs_model for chain in chains)
        budget = MemoryBudget.of(model, split.read(slice(0, 2))) if looks else MemoryBudget(CHUNK)

        def made(rows: Tensor) -> list[Tensor]:
            x, target, context = self._asked(model, orders, split, rows, states)
            calls = [chain.raw for chain in chains]
            raw = budget.run(lambda size: raw_maps(model, x, target, context, calls, size))
            return [raw[call].cpu() for call in calls]

        return made

    def _asked(
        self, model: nn.Module, orders: Sequence[ImageRanking], split: Split, rows: Tensor, states: dict[str, Any]
    ) -> tuple[Tensor, Tensor, Context]:
        """Some images, the classes they are explained for, and what surrounds them."""
        x, target = split.read(rows).to(self.device), split.labels[rows].to(self.device)
        draws = Draws.of(orders[0].seed, rows, split.name)
        truth = split.truth(rows)
        context = Context(draws, self.task.mean, self.task.train, truth, states, split)
        if self.setting.target == "predicted" and any(o.chain.needs_model for o in orders):
            target = predict(model, x).argmax(1)
        return x, target, context

    def _levels_key(self, order: ImageRanking, fractions: Sequence[float]) -> str:
        served = key_of("fractions", {"served": sorted(fractions)})[:8]
        return f"{self._key_of(order)}-{served}"

    def lacking(self, order: ImageRanking, fractions: set[float]) -> list[tuple[float, ...]]:
        """What has to be made so that levels of an order serve some fractions: the fractions of each set of levels.

        A set of which a shard is lost is made whole again; the fractions that no set serves are one more.
        """
        rest, broken = set(fractions), []
        for key in list(self.store.keys("levels", self._key_of(order))):
            facts = self.store.facts("levels", key)
            served = tuple(facts.get("fractions", ()))
            shards = self.shards if "shards" in facts else ()
            if all(self.store.has("shard", shard.key(key)) for shard in shards):
                rest -= set(served)
            else:
                broken.append(served)
        groups = []
        for served in broken:
            if rest & set(served):
                groups.append(served)
                rest -= set(served)
        return [*groups, tuple(sorted(rest))] if rest else groups

    def level_facts(self, chain: Chain, seed: int) -> list[dict[str, Any]]:
        """What is known of a chain's orders: ties, cost; one record per explain step."""
        keys = self.store.keys("levels", self.order_key(chain, seed))
        return [facts for key in list(keys) if (facts := self.store.facts("levels", key))]

    def levels(self, order: ImageRanking, fraction: float, make: bool = True) -> Item:
        """An item of levels that serves a fraction, made if there is none (`make=False`: `Absent`)."""
        name = self._key_of(order)
        cached = self._levels.get(name)
        if cached is not None and fraction in cached.facts["fractions"]:
            return cached
        again: Sequence[float] = [fraction]
        for key in list(self.store.keys("levels", name)):
            served = self.store.facts("levels", key).get("fractions", ())
            if fraction in served:
                item = self.store.find("levels", key)
                if item is not None:
                    self._levels = {name: item}
                    return item
                again = served  # its arrays are damaged
        if not make:
            self.store.faults.absent.add(("levels", name))
            raise Absent(f"no levels of {order.chain.name} serve {fraction:g}")
        self.explain([order.chain.name], order.seed, again, crossed=order.crossed)
        return self.store.read("levels", self._levels_key(order, again))

    _levels: dict[str, Item] = {}

    def important(
        self, order: ImageRanking, fraction: float, split: Split, rows: slice | Tensor = slice(None), make: bool = True
    ) -> Tensor:
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
        self, order: ImageRanking, fractions: tuple[float, ...], split: str, make: bool = True
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

    def _direct(self, order: ImageRanking, fraction: float, split: Split, rows: Tensor) -> Tensor:
        call = order.chain.raw
        context = Context(Draws.of(order.seed, rows, split.name), self.task.mean, self.task.train)
        given = [split.read(rows), fraction, context]
        return run(estimators[call.name], given, dict(call.options))

    def test_map(self, chain: Chain, seed: int, row: int) -> np.ndarray | None:
        """The stored map of one test image, scaled to [-1, 1]; channels summed."""
        found = self.test_maps(chain, seed, slice(row, row + 1))
        if found is None:
            return None
        return found[0].sum(0) / len(found[0]) if found[0].ndim == 3 else found[0]

    def test_maps(self, chain: Chain, seed: int, rows: slice = slice(None)) -> np.ndarray | None:
        """The stored maps of some test images, each scaled to [-1, 1]."""
        name = self.order_key(chain, seed)
        for key in list(self.store.keys("levels", name)):
            item = self.store.find("levels", key)
            if item is None:
                continue
            if "shards" not in item.facts:
                return item.arrays["test_maps"][rows].astype(np.float32)
            served = tuple(item.facts["fractions"])
            levels = self._sharded(ImageRanking(chain, seed), served, "test", make=False)
            with contextlib.suppress(Absent, Damaged):
                numbers = row_numbers(rows, len(self.task.test))
                return levels.maps(numbers, self.features).astype(np.float32)
        self.store.faults.absent.add(("levels", name))
        return None

    def _check_features(self, chain: Chain) -> None:
        if self.setting.features == "channel" and not chain.knows_channels:
            raise NotApplicable(f"{chain.name} knows no colour channels, so it cannot rank channel values")
