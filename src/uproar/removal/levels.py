"""Level maps: for each feature, the first fraction of a study at which it is removed.

One small number serves every fraction: with up to 7 fractions it takes three bits, a tenth of a float32 map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from uproar.errors import BadInput
from uproar.removal.order import count
from uproar.types import Ranks


@dataclass(frozen=True)
class Levels:
    """The levels of some images for some fractions, packed to bits: (bits, n, bytes per image)."""

    fractions: tuple[float, ...]
    packed: np.ndarray
    features: int

    @classmethod
    def of(cls, places: Ranks, fractions: Sequence[float]) -> Levels:
        """Levels from ranks: how many of the fractions leave the feature where it is."""
        fractions = tuple(sorted(set(fractions)))
        features = places.shape[1]
        counts = torch.tensor([count(t, features) for t in fractions], dtype=torch.int32)
        levels = torch.bucketize(places, counts, right=True).numpy().astype(np.uint8)
        bits = [(levels >> b) & 1 for b in range(bits_for(len(fractions)))]
        return cls(fractions, np.stack([np.packbits(bit, axis=1) for bit in bits]), features)

    def __len__(self) -> int:
        return self.packed.shape[1]

    def unpacked(self, rows: slice | Tensor = slice(None)) -> np.ndarray:
        """The levels as bytes, (n, features)."""
        chosen = rows if isinstance(rows, slice) else rows.numpy()
        planes = np.unpackbits(self.packed[:, chosen], axis=2, count=self.features)
        return sum((plane << b for b, plane in enumerate(planes)), np.zeros((), np.uint8))

    def removed(self, fraction: float, shape: Sequence[int], rows: slice | Tensor = slice(None)) -> Tensor:
        """What is removed at one of the fractions, as bool images of `shape`."""
        if fraction not in self.fractions:
            known = ", ".join(f"{t:g}" for t in self.fractions)
            raise BadInput(f"These levels serve the fractions {known}, not {fraction:g}.")
        gone = self.unpacked(rows) <= self.fractions.index(fraction)
        return torch.from_numpy(gone).view(len(gone), *shape)


def bits_for(fractions: int) -> int:
    """Bits per feature for so many fractions, "never removed" being one more level.

    >>> [bits_for(t) for t in (1, 3, 5, 7, 8)]
    [1, 2, 3, 3, 4]
    """
    return max(1, fractions.bit_length())
