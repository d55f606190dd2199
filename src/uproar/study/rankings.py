"""Explaining and ranking images: maps by estimators, and from them which pixels are the first to be removed."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uproar.data import Split
from uproar.data.stream import row_numbers
from uproar.errors import CODE_ERRORS, Absent, BrokenRule, Damaged, NotApplicable, SideEffect, one_line
from uproar.estimators import Chain, Context, estimators, explain_chains
from uproar.estimators.contract import FEW_IMAGES, contract_violation, user_chains
from uproar.estimators.explain import BATCH
from uproar.estimators.layers import chosen_layers
from uproar.estimators.registry import run
from uproar.protocols.mask_assignment import fold_of
from uproar.removal import Levels
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.base_models import BaseModels
from uproar.study.levels import (
    LevelsBuilder,
    Shard,
    ShardBuilder,
    ShardedLevels,
    join_shards,
    levels_item,
    shards_of,
    test_levels_item,
)
from uproar.study.settings import ImageRanking, Inputs, Keys, explained_targets
from uproar.training import predict

Prepared = tuple[nn.Module, dict[str, Any]]
"""A base model with what the estimators prepared for it."""

_RULES: dict[Hashable, str | None] = {}
"""What is known in this process of the rules that estimators of the user keep."""

LEVELS, TEST_LEVELS = "levels", "test_levels"
"""Kinds of results: the levels of all images; those of the test images alone, which is all that an evaluator needs."""

CHUNK = 512
"""Images explained and ranked at a time: bounds memory, whatever the size of the data set."""
BATCH_VALUES = 2**15
"""Values of the images that estimators are given at a time, at least: of tiny images many."""


class Explainer:
    """Explains all images of a setting under its estimators and keeps their rankings as levels."""

    def __init__(self, inputs: Inputs, keys: Keys, base_models: BaseModels) -> None:
        self.inputs, self.keys, self.base_models = inputs, keys, base_models
        self.store = inputs.store

    @functools.cached_property
    def shards(self) -> tuple[Shard, ...]:
        """The parts in which the images are explained; none if they are few."""
        return shards_of(self.inputs.task, math.prod(self.inputs.features))

    def explain(
        self,
        names: Sequence[str],
        seed: int,
        fractions: Sequence[float],
        shard: Shard | None = None,
        crossed: bool = False,
        test_only: bool = False,
    ) -> None:
        """Rank images under some chains that share passes, and keep the levels for the fractions.

        All images, or the test images alone, or one shard of a large set; whoever makes the last shard closes the set.
        """
        rankings = [ImageRanking(self.inputs.chain(name), seed, crossed) for name in names]
        for ranking in rankings:
            self.check_features(ranking.chain)
        if not self.shards:
            (self._explain_test if test_only else self._explain_whole)(rankings, fractions)
            return
        for part in self.shards_for(test_only) if shard is None else (shard,):
            self._explain_shard(rankings, fractions, part)
        for ranking in rankings:
            self._close(ranking, fractions, TEST_LEVELS if test_only else LEVELS)

    def shards_for(self, test_only: bool) -> tuple[Shard, ...]:
        """The parts of all images, or of the test images."""
        return tuple(shard for shard in self.shards if shard.split == "test" or not test_only)

    def _explain_whole(self, rankings: Sequence[ImageRanking], fractions: Sequence[float]) -> None:
        """Explain the training images; the test images too, if that is not done yet."""
        made, spent = self._ranked(rankings, fractions, self.inputs.task.train)
        items = [self.store.find(TEST_LEVELS, self.keys.levels(one, fractions)) for one in rankings]
        there = [item for item in items if item is not None]
        tests = there if len(there) == len(rankings) else self._test_items(rankings, fractions)
        for ranking, train, test in zip(rankings, made, tests, strict=True):
            item = levels_item(train, test, fractions, ranking.chain, spent + test.facts["seconds"])
            self.store.write(LEVELS, self.keys.levels(ranking, fractions), item)

    def _explain_test(self, rankings: Sequence[ImageRanking], fractions: Sequence[float]) -> None:
        for ranking, item in zip(rankings, self._test_items(rankings, fractions), strict=True):
            self.store.write(TEST_LEVELS, self.keys.levels(ranking, fractions), item)

    def _test_items(self, rankings: Sequence[ImageRanking], fractions: Sequence[float]) -> list[Item]:
        made, seconds = self._ranked(rankings, fractions, self.inputs.task.test)
        return [test_levels_item(b, fractions, r.chain, seconds) for r, b in zip(rankings, made, strict=True)]

    def _ranked(
        self, rankings: Sequence[ImageRanking], fractions: Sequence[float], split: Split
    ) -> tuple[list[LevelsBuilder], float]:
        """The levels of a split under some rankings, and the seconds that each took."""
        models = self._models(rankings)
        started = time.perf_counter()
        builders = [LevelsBuilder() for _ in rankings]
        self._rank(models, rankings, Shard(split.name, 0, len(split)), fractions, builders)
        return builders, (time.perf_counter() - started) / len(rankings)

    def _explain_shard(self, rankings: Sequence[ImageRanking], fractions: Sequence[float], shard: Shard) -> None:
        keys = {ranking: shard.key(self.keys.levels(ranking, fractions)) for ranking in rankings}
        missing = [ranking for ranking in rankings if not self.store.intact("shard", keys[ranking])]
        if not missing:
            return
        models = self._models(missing)
        started = time.perf_counter()
        builders = [ShardBuilder(shard, fractions) for _ in missing]
        self._rank(models, missing, shard, fractions, builders)
        seconds = (time.perf_counter() - started) / len(missing)
        for ranking, builder in zip(missing, builders, strict=True):
            self.store.write("shard", keys[ranking], builder.item(seconds))

    def missing_shards(
        self, rankings: Sequence[ImageRanking], fractions: Sequence[float], test_only: bool = False
    ) -> tuple[Shard, ...]:
        """The shards that some rankings lack; the last if they lack none, for whoever makes the last closes the set."""
        keys = [self.keys.levels(ranking, fractions) for ranking in rankings]
        shards = self.shards_for(test_only)
        missing = [s for s in shards if not all(self.store.intact("shard", s.key(k)) for k in keys)]
        return tuple(missing) or shards[-1:]

    def _close(self, ranking: ImageRanking, fractions: Sequence[float], kind: str) -> None:
        """Say that all shards of some levels, or those of the test images, are there, if they are."""
        key = self.keys.levels(ranking, fractions)
        facts: dict[Shard, dict[str, Any]] = {}
        for shard in self.shards_for(kind == TEST_LEVELS):
            facts[shard] = self.store.facts("shard", shard.key(key))
            if not facts[shard]:
                return
        self.store.write(kind, key, join_shards(facts, ranking.chain))

    def _models(self, rankings: Sequence[ImageRanking]) -> list[Prepared]:
        """The base models that some rankings of a replicate explain, one per fold."""
        chains, seed = [ranking.chain for ranking in rankings], rankings[0].seed
        needed = any(chain.needs_model for chain in chains)
        models = []
        for fold in rankings[0].folds:
            model = self.base_models.get(seed, fold)[0] if needed else nn.Identity()
            models.append((model, self.base_models.states(model, chains, seed, fold)))
        return models

    def _rank(
        self,
        models: Sequence[Prepared],
        rankings: Sequence[ImageRanking],
        shard: Shard,
        fractions: Sequence[float],
        builders: Sequence[LevelsBuilder | ShardBuilder],
    ) -> None:
        split, seed = self.inputs.split(shard.split), rankings[0].seed
        self._note_layers(models[0][0], rankings, builders)
        fold = fold_of(split, seed) if len(models) > 1 else None
        for part in shard.parts(min(CHUNK, split.rows_at_once)):
            rows = torch.arange(part.start, part.stop)
            shares = [rows] if fold is None else [rows[fold[rows] == i] for i in range(len(models))]
            made = [
                self.maps(model, rankings, split, share, states)
                for share, (model, states) in zip(shares, models, strict=True)
                if len(share)
            ]
            place = torch.cat(shares).argsort()
            draws = Draws.of(seed, rows, split.name)
            for builder, ranking, *pieces in zip(builders, rankings, *made, strict=True):
                maps = pieces[0] if fold is None else torch.cat(pieces)[place]
                builder.add(maps, draws, fractions, ranking.chain.name)

    def _note_layers(
        self, model: nn.Module, rankings: Sequence[ImageRanking], builders: Sequence[LevelsBuilder | ShardBuilder]
    ) -> None:
        """Let builders know the layers that their estimators look at."""
        probe = self.inputs.task.test.read(slice(0, 2)).to(self.inputs.device)
        layers = chosen_layers(model, probe, [ranking.chain for ranking in rankings])
        for ranking, builder in zip(rankings, builders, strict=True):
            builder.layers = layers.get(ranking.chain.name, ())

    def maps(
        self, model: nn.Module, rankings: Sequence[ImageRanking], split: Split, rows: Tensor, states: dict[str, Any]
    ) -> list[Tensor]:
        """The maps of some images, one tensor per ranking."""
        chains = [ranking.chain for ranking in rankings]
        x, target, context = self._explained(model, rankings, split, rows, states)
        together = max(BATCH, BATCH_VALUES // math.prod(self.inputs.task.shape))
        maps = explain_chains(model, x, target, context, chains, together, self.inputs.setting.features)
        return [a.cpu() for a in maps]

    def _explained(
        self, model: nn.Module, rankings: Sequence[ImageRanking], split: Split, rows: Tensor, states: dict[str, Any]
    ) -> tuple[Tensor, Tensor, Context]:
        """Some images, the classes they are explained for, and their context."""
        task, device = self.inputs.task, self.inputs.device
        x, labels = split.read(rows).to(device), split.labels[rows].to(device)
        draws = Draws.of(rankings[0].seed, rows, split.name)
        context = Context(draws, task.mean, task.train, split.truth(rows), states, split)
        if not any(one.chain.needs_model for one in rankings):
            return x, labels if task.kind == "softmax" else torch.zeros_like(rows, device=device), context
        if task.kind == "softmax" and self.inputs.setting.target == "label":
            return x, labels, context
        return x, explained_targets(self.inputs.setting.target, predict(model, x), labels), context

    def check_features(self, chain: Chain) -> None:
        """Refuse to rank channel values by a chain that knows no channels."""
        if self.inputs.setting.features == "channel" and not chain.knows_channels:
            raise NotApplicable(f"{chain.name} knows no colour channels, so it cannot rank channel values")

    def check_rules(self, name: str, seed: int, crossed: bool = False) -> None:
        """Refuse a chain whose estimators of the user break the rules on a few test images; once in a process."""
        for chain in user_chains(self.inputs.chain(name)):
            functions = tuple(estimators[call.name].function for call in chain.raw.walk())
            known = (self.inputs.setting, str(chain.identity), crossed, functions)
            if known not in _RULES:
                try:
                    _RULES[known] = self._broken_rule(ImageRanking(chain, seed, crossed))
                except SideEffect as error:
                    _RULES[known] = one_line(error)
                    raise
            if _RULES[known] is not None:
                raise BrokenRule(_RULES[known])

    def _broken_rule(self, ranking: ImageRanking) -> str | None:
        test = self.inputs.task.test
        model, states = self._models([ranking])[0]
        given = self._explained(model, [ranking], test, torch.arange(min(FEW_IMAGES, len(test))), states)
        try:
            return contract_violation(model, *given, ranking.chain)
        except SideEffect:
            raise
        except CODE_ERRORS:
            return None  # its own job says what is wrong with it


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
