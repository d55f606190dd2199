"""Rankings of pixels as levels in the store: read for protocols, and made where they are missing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from uproar.data import Split
from uproar.data.stream import row_numbers
from uproar.errors import Absent, Damaged
from uproar.estimators import Chain, Context, estimators
from uproar.estimators.registry import run
from uproar.removal import Levels
from uproar.seeds import Draws
from uproar.storage.store import Item
from uproar.study.explainer import LEVELS, TEST_LEVELS, Explainer
from uproar.study.inputs import Inputs
from uproar.study.keys import Keys
from uproar.study.settings import ImageRanking
from uproar.study.shards import Shard, ShardedLevels

OPEN_TABLES = 8
"""Levels in shards whose tables of contents are held at a time."""


class Rankings:
    """The rankings of a setting: which pixels are removed first, and the stored maps behind them."""

    def __init__(self, inputs: Inputs, keys: Keys, explainer: Explainer) -> None:
        self.inputs, self.keys, self.explainer = inputs, keys, explainer
        self.store = inputs.store
        self._last: dict[str, Item] = {}
        self._tables: dict[tuple[str, str, bool], ShardedLevels] = {}

    def lacking(self, ranking: ImageRanking, fractions: set[float], test_only: bool = False) -> list[tuple[float, ...]]:
        """What has to be made so that levels of a ranking serve some fractions: the fractions of each set of levels.

        A set of which a shard is lost is made whole again; the fractions that no set serves are one more. `test_only`:
        the levels of test images will do.
        """
        rest, broken = set(fractions), []
        for kind, key in self._sets(ranking, test_only):
            facts = self.store.facts(kind, key)
            served = tuple(facts.get("fractions", ()))
            shards = self.explainer.shards_for(kind == TEST_LEVELS) if "shards" in facts else ()
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

    def _sets(self, ranking: ImageRanking, test_only: bool) -> list[tuple[str, str]]:
        """The sets of levels that the store has of a ranking, by kind and key: of all images, then of test images."""
        kinds = (LEVELS, TEST_LEVELS) if test_only else (LEVELS,)
        return [(kind, key) for kind in kinds for key in self.store.keys(kind, self.keys.ranking(ranking))]

    def facts(self, chain: Chain, seed: int) -> list[dict[str, Any]]:
        """What is known of a chain's rankings: ties, cost; one record per explain step."""
        known: dict[str, dict[str, Any]] = {}
        for kind, key in self._sets(ImageRanking(chain, seed), test_only=True):
            if key not in known and (facts := self.store.facts(kind, key)):
                known[key] = facts
        return list(known.values())

    def seconds(self, ranking: ImageRanking, fractions: set[float], test_only: bool = False) -> float:
        """What the levels that serve some fractions took, without further ones that the store has.

        `test_only`: those of test images alone come first.
        """
        rest, spent = set(fractions), 0.0
        for kind, key in sorted(self._sets(ranking, test_only), key=lambda one: one[0] == LEVELS):
            facts = self.store.facts(kind, key)
            if rest & set(facts.get("fractions", ())):
                rest -= set(facts["fractions"])
                spent += facts["seconds"]
        return spent

    def levels(self, ranking: ImageRanking, fraction: float, make: bool = True, test_only: bool = False) -> Item:
        """An item of levels that serves a fraction, made if there is none (`make=False`: `Absent`)."""
        name = self.keys.ranking(ranking)
        cached = self._last.get(name)
        if cached is not None and fraction in cached.facts["fractions"] and (test_only or "ties_train" in cached.facts):
            return cached
        again: Sequence[float] = [fraction]
        for kind, key in self._sets(ranking, test_only):
            served = self.store.facts(kind, key).get("fractions", ())
            if fraction in served:
                item = self.store.find(kind, key)
                if item is not None:
                    self._last = {name: item}
                    return item
                again = served  # its arrays are damaged
        if not make:
            self.store.faults.absent.add(("levels", name))
            raise Absent(f"no levels of {ranking.chain.name} serve {fraction:g}")
        self.explainer.explain([ranking.chain.name], ranking.seed, again, crossed=ranking.crossed, test_only=test_only)
        return self.store.read(TEST_LEVELS if test_only else LEVELS, self.keys.levels(ranking, again))

    def important(
        self,
        ranking: ImageRanking,
        fraction: float,
        split: Split,
        rows: slice | Tensor = slice(None),
        make: bool = True,
    ) -> Tensor:
        """The first share `fraction` of the ranking of some images, as bool images."""
        features = self.inputs.features
        if ranking.chain.is_direct:
            return self._direct(ranking, fraction, split, row_numbers(rows, len(split)))
        item = self.levels(ranking, fraction, make, split.name == self.inputs.task.test.name)
        served = tuple(item.facts["fractions"])
        if "shards" in item.facts:
            sharded = self._sharded(ranking, served, split.name, make)
            return sharded.removed(fraction, features, row_numbers(rows, len(split)))
        packed = Levels(served, item.arrays[split.name], math.prod(features))
        return packed.removed(fraction, features, rows)

    def _sharded(
        self, ranking: ImageRanking, fractions: tuple[float, ...], split: str, make: bool = True
    ) -> ShardedLevels:
        """The levels of a split that lie in shards; `make`: what is lost or damaged is made again."""
        key = self.keys.levels(ranking, fractions)
        if (key, split, make) in self._tables:
            return self._tables[key, split, make]

        def mend(shard: Shard) -> None:
            self.store.find("shard", shard.key(key))  # sets a damaged file aside
            self.explainer.explain([ranking.chain.name], ranking.seed, fractions, shard, ranking.crossed)

        own = tuple(shard for shard in self.explainer.shards if shard.split == split)
        if len(self._tables) >= OPEN_TABLES:
            self._tables.clear()
        features = math.prod(self.inputs.features)
        self._tables[key, split, make] = ShardedLevels(
            self.store, key, own, fractions, features, mend if make else None
        )
        return self._tables[key, split, make]

    def _direct(self, ranking: ImageRanking, fraction: float, split: Split, rows: Tensor) -> Tensor:
        """What an estimator removes that does not rank."""
        call, task = ranking.chain.raw, self.inputs.task
        context = Context(Draws.of(ranking.seed, rows, split.name), task.mean, task.train)
        return run(estimators[call.name], [split.read(rows), fraction, context], dict(call.options))

    def test_map(self, chain: Chain, seed: int, row: int) -> np.ndarray | None:
        """The stored map of one test image, scaled to [-1, 1]; channels summed."""
        maps = self.test_maps(chain, seed, slice(row, row + 1))
        if maps is None:
            return None
        return maps[0].sum(0) / len(maps[0]) if maps[0].ndim == 3 else maps[0]

    def test_maps(self, chain: Chain, seed: int, rows: slice = slice(None)) -> np.ndarray | None:
        """The stored maps of some test images, each scaled to [-1, 1]."""
        name = self.keys.ranking(ImageRanking(chain, seed))
        for kind, key in self._sets(ImageRanking(chain, seed), test_only=True):
            item = self.store.find(kind, key)
            if item is None:
                continue
            if "shards" not in item.facts:
                return item.arrays["test_maps"][rows].astype(np.float32)
            sharded = self._sharded(ImageRanking(chain, seed), tuple(item.facts["fractions"]), "test", make=False)
            with contextlib.suppress(Absent, Damaged):
                numbers = row_numbers(rows, len(self.inputs.task.test))
                return sharded.maps(numbers, self.inputs.features).astype(np.float32)
        self.store.faults.absent.add(("levels", name))
        return None
