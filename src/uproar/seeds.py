"""Random numbers from what they are for, never from when they are drawn.

A number is keyed by (seed, purpose, split, index of the sample), so that it is the same for any batch
size, order, shard, process or machine. All draws are made on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

Name = str | int | float | bool | None


def key(*names: Name | Sequence[Name]) -> int:
    """A 63-bit number that depends on all the names and on nothing else.

    >>> key(0, "ties", 3) == key(0, "ties", 3), key(0, "ties", 3) == key(0, "ties", 4)
    (True, False)
    """
    return _number(json.dumps(names))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(*names: Name) -> torch.Generator:
    """A generator for one purpose."""
    return torch.Generator().manual_seed(key(*names))


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """The global generators of torch, NumPy and Python start from the seed inside, and go on as before after it."""
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        torch.default_generator.manual_seed(seed)
        if on_gpus:
            torch.cuda.manual_seed_all(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        yield
    finally:
        torch.set_rng_state(before[0])
        if on_gpus:
            torch.cuda.set_rng_state_all(on_gpus)
        np.random.set_state(before[1])
        random.setstate(before[2])


@dataclass(frozen=True)
class Draws:
    """Random numbers for some samples of a split, one stream per sample and purpose."""

    seed: int
    rows: tuple[tuple[int, ...], ...]
    split: str = "test"
    _generator: torch.Generator = field(default_factory=torch.Generator, compare=False, repr=False, hash=False)

    @classmethod
    def of(cls, seed: int, index: int | Iterable[int] | Tensor, split: str = "test") -> Draws:
        """Draws for samples 0..index-1, or for the samples listed."""
        if isinstance(index, Tensor):
            index = index.tolist()
        numbers = range(index) if isinstance(index, int) else map(int, index)
        return cls(seed, tuple(zip(numbers, strict=True)), split)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: slice | Sequence[int]) -> Draws:
        rows = self.rows[index] if isinstance(index, slice) else tuple(self.rows[i] for i in index)
        return Draws(self.seed, rows, self.split)

    def copies(self, numbers: Iterable[int]) -> Draws:
        """Each sample once for each number, sample by sample: streams of their own for noisy copies."""
        numbers = tuple(numbers)
        return Draws(self.seed, tuple((*r, m) for r in self.rows for m in numbers), self.split)

    def streams(self, purpose: str) -> Iterator[torch.Generator]:
        """One freshly seeded generator per sample, valid until the next is taken."""
        common = json.dumps((self.seed, purpose, self.split))[:-1]
        for row in self.rows:  # key(self.seed, purpose, self.split, row), the common part written once
            yield self._generator.manual_seed(_number(f"{common}, {[*row]}]"))

    def normal(self, purpose: str, *shape: int) -> Tensor:
        """Standard normal numbers, (n, *shape)."""
        return self._each(purpose, lambda g: torch.randn(shape, generator=g), shape)

    def uniform(self, purpose: str, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), (n, *shape)."""
        return self._each(purpose, lambda g: torch.rand(shape, generator=g), shape)

    def permutations(self, purpose: str, size: int) -> Tensor:
        """A random order of `size` things for each sample, (n, size)."""
        return self._each(purpose, lambda g: torch.randperm(size, generator=g), (size,))

    def _each(self, purpose: str, draw, shape: tuple[int, ...]) -> Tensor:
        if not self.rows:
            return torch.zeros(0, *shape)
        return torch.stack([draw(g) for g in self.streams(purpose)])
