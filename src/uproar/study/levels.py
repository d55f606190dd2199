"""Levels: how early each feature of an image is removed, for all images of a split, at the fractions of a study.

Those of a large split are kept in shards, each an item of the store whose key names the order, the fractions and the
rows, so that shards are written in parallel without a lock, and a run that was stopped makes only the shards that are
missing. When the last is there, an item without arrays says so, with what is known of all of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from uproar.data import Task
from uproar.errors import Absent, BadInput, Damaged
from uproar.estimators import Chain
from uproar.removal import Levels, ranks, tie_share
from uproar.removal.order import pack_levels, unpack_levels
from uproar.seeds import Draws
from uproar.store import Item, Store
from uproar.tensors import spans


class LevelsBuilder:
    """Levels and what is said of them, gathered chunk by chunk."""

    def __init__(self) -> None:
        self.packed: list[np.ndarray] = []
        self.ties: list[Tensor] = []
        self.maps: list[np.ndarray] = []
        self.constant = 0
        self.layers: tuple[str, ...] = ()
        """The layers that the estimator looks at, where it looks at some."""

    def add(self, maps: Tensor, draws: Draws, fractions: Sequence[float], name: str) -> None:
        """Rank some more images."""
        scores = maps.flatten(1)
        self.packed.append(Levels.of(ranks(scores, draws, name), fractions).packed)
        self.ties.append(tie_share(scores, sorted(fractions)))
        self.constant += int((scores.amax(1) == scores.amin(1)).sum())
        if draws.split == "test":
            self.maps.append(scaled_half(maps))


def exact_sums(shares: Tensor) -> list[float]:
    """The sum of each column, rounded once: it does not depend on what other columns there are."""
    return [math.fsum(column) for column in shares.T.tolist()]


def scaled_half(maps: Tensor) -> np.ndarray:
    """Maps as float16, each scaled by its own largest size so that none overflows or vanishes."""
    top = maps.flatten(1).abs().amax(1).clamp_min(1e-30)
    return (maps / top.view(-1, *[1] * (maps.dim() - 1))).half().numpy()


def _mean_shares(split: LevelsBuilder) -> list[float]:
    shares = torch.cat(split.ties)
    return [total / len(shares) for total in exact_sums(shares)]


def levels_item(train: LevelsBuilder, test: Item, fractions: Sequence[float], chain: Chain, seconds: float) -> Item:
    """Both splits as they are kept: the packed levels of the training images beside what is kept of the test images."""
    facts = {
        **_about(fractions, chain, seconds, train.layers),
        "ties_train": _mean_shares(train),
        "ties_test": test.facts["ties_test"],
        "constant": train.constant + test.facts["constant"],
    }
    return Item({"train": np.concatenate(train.packed, 1), **test.arrays}, facts)


def test_levels_item(test: LevelsBuilder, fractions: Sequence[float], chain: Chain, seconds: float) -> Item:
    """The test images as they are kept: packed levels and maps."""
    arrays = {"test": np.concatenate(test.packed, 1), "test_maps": np.concatenate(test.maps)}
    facts = {
        **_about(fractions, chain, seconds, test.layers),
        "ties_test": _mean_shares(test),
        "constant": test.constant,
    }
    return Item(arrays, facts)


def _about(fractions: Sequence[float], chain: Chain, seconds: float, layers: Sequence[str]) -> dict[str, Any]:
    facts = {"fractions": sorted(fractions), "chain": chain.name, "passes": chain.passes, "seconds": seconds}
    return {**facts, "layers": list(layers)} if layers else facts


T = TypeVar("T")

SHARD = 2**26
"""Features ranked in one shard of training images: 1,337 images of 224×224 pixels, at most 25 megabytes of levels."""

MAPS = 2
"""Shards of test images are so many times smaller, since their maps are kept too."""

PACKED_BYTES = 0.3
"""Bytes per feature of levels in shards, at most about so much."""


@dataclass(frozen=True)
class Shard:
    """Some consecutive images of a split."""

    split: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.split} {self.start}-{self.stop - 1}"

    def __len__(self) -> int:
        return self.stop - self.start

    def parts(self, size: int) -> list[slice]:
        """Consecutive rows of the split, at most `size` at a time."""
        return [slice(self.start + s.start, self.start + s.stop) for s in spans(len(self), size)]

    def key(self, levels: str) -> str:
        """Where the store keeps this part of some levels."""
        return f"{levels}-{self.split}-{self.start}-{self.stop}"


def shards_of(task: Task, features: int) -> tuple[Shard, ...]:
    """The parts in which a task is explained; none if both its splits are small and held in memory."""
    sizes = _sizes(features)
    parts = [
        Shard(split.name, rows.start, rows.stop)
        for split in (task.train, task.test)
        for rows in spans(len(split), sizes[split.name])
    ]
    streams = task.train.streams or task.test.streams
    return tuple(parts) if streams or len(parts) > 2 else ()


def needs_shards(train: int, test: int, features: int) -> bool:
    """Whether so many images are too many for one part of each split."""
    sizes = _sizes(features)
    return train > sizes["train"] or test > sizes["test"]


def _sizes(features: int) -> dict[str, int]:
    """Images in a shard at most, by split."""
    return {"train": max(1, SHARD // features), "test": max(1, SHARD // MAPS // features)}


class ShardBuilder:
    """The levels of a shard, gathered chunk by chunk as they will be kept."""

    def __init__(self, shard: Shard, fractions: Sequence[float]) -> None:
        self.shard, self.fractions = shard, tuple(sorted(set(fractions)))
        self.levels: list[bytes] = []
        self.maps: list[bytes] = []
        self.ties = [0.0] * len(self.fractions)
        self.constant = 0
        self.layers: tuple[str, ...] = ()
        """The layers that the estimator looks at, where it looks at some."""

    def add(self, maps: Tensor, draws: Draws, fractions: Sequence[float], name: str) -> None:
        """Rank some more images."""
        scores = maps.flatten(1)
        levels = Levels.of(ranks(scores, draws, name), self.fractions).unpacked()
        self.levels += [pack_levels(row, len(self.fractions) + 1) for row in levels]
        sums = exact_sums(tie_share(scores, self.fractions))
        self.ties = [so_far + more for so_far, more in zip(self.ties, sums, strict=True)]
        self.constant += int((scores.amax(1) == scores.amin(1)).sum())
        if self.shard.split == "test":
            self.maps += [row.tobytes() for row in scaled_half(maps)]

    def item(self, seconds: float) -> Item:
        """What is kept: the images' pieces one behind the other, and where each ends."""
        facts = {
            "fractions": list(self.fractions),
            "images": len(self.levels),
            "seconds": seconds,
            "ties": self.ties,
            "constant": self.constant,
            **({"layers": list(self.layers)} if self.layers else {}),
        }
        ends = np.cumsum([0, *map(len, self.levels)])
        arrays = {"levels": np.frombuffer(b"".join(self.levels), np.uint8), "ends": ends}
        if self.maps:
            arrays["maps"] = np.frombuffer(b"".join(self.maps), np.uint8)
        return Item(arrays, facts)


def join_shards(parts: Mapping[Shard, Mapping[str, Any]], chain: Chain) -> Item:
    """What is known of the levels of all images, from the facts of their shards."""
    shares: dict[str, list[float]] = {}
    first = next(iter(parts.values()))
    for name in dict.fromkeys(shard.split for shard in parts):
        mine = [facts for shard, facts in parts.items() if shard.split == name]
        images = sum(facts["images"] for facts in mine)
        total = np.sum([facts["ties"] for facts in mine], axis=0)
        shares[f"ties_{name}"] = (total / images).tolist()
    facts = {
        "fractions": first["fractions"],
        "chain": chain.name,
        "passes": chain.passes,
        "seconds": sum(facts["seconds"] for facts in parts.values()),
        **shares,
        "constant": sum(facts["constant"] for facts in parts.values()),
        **({"layers": first["layers"]} if "layers" in first else {}),
        "shards": [[shard.split, shard.start, shard.stop] for shard in parts],
    }
    return Item({}, facts)


@dataclass(frozen=True)
class ShardedLevels:
    """The levels of a split in the store, read image by image."""

    store: Store
    key: str
    """Of the levels as a whole."""
    shards: tuple[Shard, ...]
    """Of the split, in order."""
    fractions: tuple[float, ...]
    features: int
    mend: Callable[[Shard], None] | None = None
    """Makes a shard that is lost or damaged; None: `Absent` or `Damaged`."""
    ends: dict[Shard, np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    """Where the images of a shard end, once it has been read."""

    def removed(self, fraction: float, shape: Sequence[int], rows: Tensor) -> Tensor:
        """What is removed of some images at one of the fractions, as bool images of `shape`."""
        if fraction not in self.fractions:
            known = ", ".join(f"{t:g}" for t in self.fractions)
            raise BadInput(f"These levels serve the fractions {known}, not {fraction:g}.")
        last = self.fractions.index(fraction)
        gone = np.empty((len(rows), self.features), bool)
        shard_of = torch.bucketize(rows, torch.tensor([s.stop for s in self.shards]), right=True)
        for index in shard_of.unique().tolist():
            positions = (shard_of == index).nonzero()[:, 0]
            gone[positions.numpy()] = self._levels(self.shards[index], rows[positions]) <= last
        return torch.from_numpy(gone).view(len(rows), *shape)

    def _levels(self, shard: Shard, rows: Tensor) -> np.ndarray:
        return self._mended(shard, lambda: self._read(shard, rows))

    def _mended(self, shard: Shard, read: Callable[[], T]) -> T:
        """What is read of a shard, which is made again if it is lost or damaged."""
        try:
            return read()
        except (Absent, Damaged):
            self.ends.pop(shard, None)
            if self.mend is None:
                raise
            self.mend(shard)
            return read()

    def _read(self, shard: Shard, rows: Tensor) -> np.ndarray:
        key = shard.key(self.key)
        if shard not in self.ends:
            (content,) = self.store.spans("shard", key, "ends", [(0, 8 * (len(shard) + 1))])
            self.ends[shard] = np.frombuffer(content, np.int64)
        ends = self.ends[shard]
        spans = [(int(ends[row]), int(ends[row + 1])) for row in (rows - shard.start).tolist()]
        pieces = self.store.spans("shard", key, "levels", spans)
        kinds = len(self.fractions) + 1
        return np.stack([unpack_levels(piece, kinds, self.features) for piece in pieces])

    def maps(self, rows: Tensor, shape: Sequence[int]) -> np.ndarray:
        """The stored maps of some test images."""
        size, pieces = 2 * int(np.prod(shape)), []
        for row in rows.tolist():
            shard = next(shard for shard in self.shards if row < shard.stop)
            span = ((row - shard.start) * size, (row - shard.start + 1) * size)
            key = shard.key(self.key)
            pieces += self._mended(shard, functools.partial(self.store.spans, "shard", key, "maps", [span]))
        return np.stack([np.frombuffer(piece, np.float16).reshape(*shape) for piece in pieces])
