"""Rankings of pixels as they are kept: how early each feature of an image is removed, at the fractions of a study.

The ranking of a small split is one result. That of a large one lies in shards, each a result of its own, so that shards
are made in parallel and a run that was stopped makes only those that are missing; images are then read one by one.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uproar.data import Split, Task
from uproar.data.stream import row_numbers
from uproar.errors import BadInput, Damaged
from uproar.estimators import Context, estimators
from uproar.estimators.registry import run
from uproar.removal import ranks, tie_share
from uproar.removal.order import levels_of, pack_levels, unpack_levels
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.graph import Stored
from uproar.study.inputs import Data, Estimator
from uproar.tensors import spans

SHARD = 2**26
"""Features ranked in one shard of training images: 1,337 images of 224×224 pixels, at most 25 megabytes of levels."""
MAPS = 2
"""Shards of test images are so many times smaller, since their maps are kept too."""
Rows = tuple[int, int]
"""The first row of a shard, and the one behind its last."""


def shards_of(task: Task, features: int) -> dict[str, tuple[Rows, ...]]:
    """By split the rows of its shards; nothing if both splits are small and held in memory."""
    sizes = {"train": max(1, SHARD // features), "test": max(1, SHARD // MAPS // features)}
    shards = {
        split.name: tuple((rows.start, rows.stop) for rows in spans(len(split), sizes[split.name]))
        for split in (task.train, task.test)
    }
    sharded = task.train.streams or task.test.streams or any(len(parts) > 1 for parts in shards.values())
    return shards if sharded else {}


class RankingBuilder:
    """The ranking of some images of a split under one chain, gathered chunk by chunk as it will be kept."""

    def __init__(self, split: str, fractions: Sequence[float], sharded: bool) -> None:
        self.split, self.fractions, self.sharded = split, tuple(sorted(set(fractions))), sharded
        self.levels: list[Any] = []
        self.maps: list[np.ndarray] = []
        self.ties: list[Tensor] = []
        self.constant = 0

    def add(self, maps: Tensor, draws: Draws, name: str) -> None:
        """Rank some more images."""
        scores = maps.flatten(1)
        packed = pack_levels(levels_of(ranks(scores, draws, name), self.fractions), len(self.fractions) + 1)
        self.levels += [zlib.compress(row.tobytes(), 6) for row in packed] if self.sharded else [packed]
        self.ties.append(tie_share(scores, self.fractions))
        self.constant += int((scores.amax(1) == scores.amin(1)).sum())
        if self.split == "test":
            self.maps.append(scaled_half(maps))

    def item(self, layers: Sequence[str], **facts: Any) -> Item:
        """What is kept; of a shard the images' pieces one behind the other, and where each ends."""
        if self.sharded:
            ends = np.cumsum([0, *map(len, self.levels)])
            arrays = {"levels": np.frombuffer(b"".join(self.levels), np.uint8), "ends": ends}
        else:
            arrays = {"levels": np.concatenate(self.levels)}
        if self.maps:
            arrays["maps"] = np.concatenate(self.maps)
        ties = torch.cat(self.ties)
        known = {
            "fractions": list(self.fractions),
            "images": len(ties),
            "ties": [math.fsum(column) for column in ties.T.tolist()],  # rounded once, whatever columns there are
            "constant": self.constant,
            "layers": list(layers),
            **({"shard": True} if self.sharded else {}),
        }
        return Item(arrays, {**known, **facts})


def scaled_half(maps: Tensor) -> np.ndarray:
    """Maps as float16, each scaled by its own largest size so that none overflows or vanishes."""
    top = maps.flatten(1).abs().amax(1).clamp_min(1e-30)
    return (maps / top.view(-1, *[1] * (maps.dim() - 1))).half().numpy()


class StoredRanking:
    """Which pixels of a split's images are removed first, read from the stored parts of a ranking."""

    def __init__(self, parts: Sequence[Stored], features: Sequence[int]) -> None:
        self.parts, self.features = tuple(parts), tuple(features)
        self._ends: dict[int, np.ndarray] = {}

    @functools.cached_property
    def fractions(self) -> tuple[float, ...]:
        """The fractions at which it can be cut."""
        return tuple(self.parts[0].facts["fractions"])

    @functools.cached_property
    def _sharded(self) -> bool:
        return len(self.parts) > 1 or "shard" in self.parts[0].facts

    @functools.cached_property
    def _stops(self) -> Tensor:
        """The row behind the last of each part."""
        return torch.tensor([shard.facts["images"] for shard in self.parts]).cumsum(0)

    def ties(self, fraction: float) -> float:
        """The mean share of features that only the tie-break ordered at a fraction."""
        column = self.fractions.index(fraction)
        total = math.fsum(shard.facts["ties"][column] for shard in self.parts)
        return total / sum(shard.facts["images"] for shard in self.parts)

    def important(self, fraction: float, rows: slice | Tensor = slice(None)) -> Tensor:
        """The first share `fraction` of the ranking of some images, as bool images."""
        if fraction not in self.fractions:
            known = ", ".join(f"{t:g}" for t in self.fractions)
            raise BadInput(f"This ranking serves the fractions {known}, not {fraction:g}.")
        size, last = math.prod(self.features), self.fractions.index(fraction)
        if not self._sharded:
            packed = self.parts[0].arrays["levels"][rows if isinstance(rows, slice) else rows.numpy()]
            gone = unpack_levels(packed, len(self.fractions) + 1, size) <= last
            return torch.from_numpy(gone).view(len(gone), *self.features)
        numbers = row_numbers(rows, int(self._stops[-1]))
        removed = np.empty((len(numbers), size), bool)
        for shard, positions, inside in self._by_part(numbers):
            removed[positions.numpy()] = self._levels(shard, inside) <= last
        return torch.from_numpy(removed).view(len(numbers), *self.features)

    def maps(self, rows: slice | Tensor = slice(None)) -> np.ndarray:
        """The maps of some test images, each scaled so that its largest size is 1."""
        if not self._sharded:
            chosen = rows if isinstance(rows, slice) else rows.numpy()
            return np.asarray(self.parts[0].arrays["maps"][chosen], np.float32)
        numbers, size = row_numbers(rows, int(self._stops[-1])), 2 * math.prod(self.features)
        maps = np.empty((len(numbers), *self.features), np.float32)
        for shard, positions, inside in self._by_part(numbers):
            pieces = self.parts[shard].spans("maps", [(row * size, (row + 1) * size) for row in inside.tolist()])
            values = np.stack([np.frombuffer(piece, np.float16) for piece in pieces])
            maps[positions.numpy()] = values.reshape(-1, *self.features)
        return maps

    def _by_part(self, rows: Tensor) -> list[tuple[int, Tensor, Tensor]]:
        """Each part that has some of the rows, with their positions among these and their rows inside the part."""
        part_of = torch.bucketize(rows, self._stops, right=True)
        starts = torch.cat([torch.zeros(1, dtype=torch.long), self._stops[:-1]])
        positions_by_shard = []
        for shard in part_of.unique().tolist():
            positions = (part_of == shard).nonzero()[:, 0]
            positions_by_shard.append((shard, positions, rows[positions] - starts[shard]))
        return positions_by_shard

    def _levels(self, shard: int, rows: Tensor) -> np.ndarray:
        """The levels of some rows of a part."""
        stored = self.parts[shard]
        if shard not in self._ends:
            (content,) = stored.spans("ends", [(0, 8 * (stored.facts["images"] + 1))])
            self._ends[shard] = np.frombuffer(content, np.int64)
        ends = self._ends[shard]
        pieces = stored.spans("levels", [(int(ends[row]), int(ends[row + 1])) for row in rows.tolist()])
        try:
            packed = np.stack([np.frombuffer(zlib.decompress(piece), np.uint8) for piece in pieces])
        except zlib.error as error:
            raise Damaged(f"the levels of an image cannot be read ({error})") from None
        return unpack_levels(packed, len(self.fractions) + 1, math.prod(self.features))


class DirectRemoval:
    """What a control removes from a split's images that does not rank, such as coin flips."""

    def __init__(self, estimator: Estimator, data: Data, split: Split, seed: int) -> None:
        self.call, self.task, self.split, self.seed = estimator.chain.raw, data.task, split, seed

    def ties(self, fraction: float) -> float:
        """Nothing is ranked."""
        return math.nan

    def important(self, fraction: float, rows: slice | Tensor = slice(None)) -> Tensor:
        """What is removed of some images, as bool images."""
        numbers = row_numbers(rows, len(self.split))
        context = Context(Draws.of(self.seed, numbers, self.split.name), self.task.mean, self.task.train)
        inputs = [self.split.read(numbers), fraction, context]
        return run(estimators[self.call.name], inputs, dict(self.call.options))
