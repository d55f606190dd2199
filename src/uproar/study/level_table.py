"""Levels of a whole split and what is said of them, gathered chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uproar.estimators import Chain
from uproar.removal import Levels, ranks, tie_share
from uproar.seeds import Draws
from uproar.storage.store import Item


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
