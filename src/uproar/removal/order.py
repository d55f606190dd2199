"""A map turned into a ranking of features, once: ties, rounding and fractions are settled here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from uproar.errors import BadInput, BadMap
from uproar.seeds import Draws
from uproar.types import Ranks, Scores

LONG = 512
"""Features from which another way of sorting is the faster one."""


def count(fraction: float, features: int) -> int:
    """How many features a fraction is: exactly `round(fraction · features)`.

    >>> count(0.1, 64), count(0.99, 64), count(1, 64)
    (6, 63, 64)
    """
    return round(check_fraction(fraction) * features)


def check_fraction(fraction: float) -> float:
    """The fraction, if it is one."""
    if not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        raise BadInput(f"A fraction lies between 0 and 1, not {fraction!r}.")
    return float(fraction)


def ranks(scores: Scores, draws: Draws, name: str = "the map") -> Ranks:
    """Place of each feature by falling score; 0 goes first. Equal scores come in random order.

    A fixed order would make flat regions disappear from the top left first. The random order is the sample's own
    and does not depend on the batch.
    """
    bad = ~torch.isfinite(scores).all(1)
    if bool(bad.any()):
        raise BadMap(
            f"{name} has NaN or infinite values in {int(bad.sum())} of {len(scores)} images "
            f"(first: image {draws.rows[int(bad.int().argmax())][0]})."
        )
    order = _falling(scores)
    values = scores.gather(1, order)
    tied = (values[:, 1:] == values[:, :-1]).any(1).nonzero()[:, 0]
    if len(tied):
        shuffle = draws[tied.tolist()].permutations("ties", scores.shape[1]).to(scores.device)
        order[tied] = shuffle.gather(1, _falling(scores[tied].gather(1, shuffle)))
    places = torch.arange(scores.shape[1], dtype=torch.int32, device=scores.device).expand_as(order)
    return torch.empty_like(order, dtype=torch.int32).scatter_(1, order, places)


def _falling(scores: Tensor) -> Tensor:
    """The features by falling score, equal ones in the order they have.

    The bits of a score and the place of its feature make one whole number; whole numbers are sorted three times
    faster than scores with their places.
    """
    if scores.dtype != torch.float32 or scores.shape[1] < LONG:
        return scores.argsort(dim=1, descending=True, stable=True)
    bits = (scores + 0.0).detach().cpu().numpy().view(np.uint32)  # no negative zero
    # as whole numbers the bits of positive scores rise with them, those of negative scores fall
    rising = np.where(bits >> 31, bits, bits ^ np.uint32(0x7FFFFFFF)).astype(np.uint64)
    numbers = rising << np.uint64(32) | np.arange(scores.shape[1], dtype=np.uint64)
    numbers.sort(axis=1)
    return torch.from_numpy((numbers & np.uint64(0xFFFFFFFF)).astype(np.int64)).to(scores.device)


def tie_share(scores: Scores, fractions: Sequence[float]) -> Tensor:
    """Share of features, per image and fraction, that are equal to each other across the cut: (n, t).

    0 means that the map alone decided what was removed; 1 that the tie-break did.
    """
    values = torch.from_numpy(np.sort(scores.detach().cpu().numpy(), axis=1)).flip(1)
    features = scores.shape[1]
    shares = torch.zeros(len(scores), len(fractions), device=scores.device)
    for i, fraction in enumerate(fractions):
        k = count(fraction, features)
        if 0 < k < features:
            across = values[:, k - 1] == values[:, k]
            equal = (values == values[:, k - 1 : k]).sum(1) / features
            shares[:, i] = torch.where(across, equal, 0.0)
    return shares


def tied_pixels(maps: Tensor) -> Tensor:
    """Share of each map's pixels whose value another pixel of the map has too, (n,).

    >>> tied_pixels(torch.tensor([[[1.0, 2.0], [2.0, 3.0]]])).tolist()
    [0.5]
    """
    values = maps.flatten(1).sort(1).values
    same = values[:, 1:] == values[:, :-1]
    edge = torch.zeros(len(values), 1, dtype=torch.bool, device=values.device)
    tied = torch.cat([same, edge], 1) | torch.cat([edge, same], 1)
    return tied.double().mean(1)


def removed_at(places: Ranks, fraction: float, shape: Sequence[int]) -> Tensor:
    """The features whose place is among the first `fraction`, as bool images of `shape`."""
    return (places < count(fraction, places.shape[1])).view(len(places), *shape)


# levels: one small number per feature serves every fraction of a study, as many of them to a byte as fit
# With six fractions three go to a byte, a twelfth of a float32 map, whose repetitions deflate finds.


def levels_of(places: Ranks, fractions: Sequence[float]) -> np.ndarray:
    """How many of the rising fractions leave each feature where it is, (n, features) bytes."""
    counts = torch.tensor([count(t, places.shape[1]) for t in fractions], dtype=torch.int32)
    return torch.bucketize(places, counts, right=True).numpy().astype(np.uint8)


def pack_levels(levels: np.ndarray, kinds: int) -> np.ndarray:
    """Levels 0..kinds-1 of some images, (n, features), in fewer bytes, (n, bytes)."""
    places = _places(kinds)
    padded = np.pad(levels, ((0, 0), (0, -levels.shape[1] % len(places))))
    packed = padded[:, :: len(places)].copy()
    for k, factor in enumerate(places[1:], start=1):
        packed += padded[:, k :: len(places)] * factor
    return packed


def unpack_levels(packed: np.ndarray, kinds: int, features: int) -> np.ndarray:
    """The levels of some images again, (n, features)."""
    places = _places(kinds)
    levels = np.empty((len(packed), packed.shape[1] * len(places)), np.uint8)
    for k, factor in enumerate(places):
        levels[:, k :: len(places)] = packed // factor % np.uint8(max(2, kinds))
    return levels[:, :features]


def _places(kinds: int) -> list[np.uint8]:
    """What a digit in each place of a byte counts.

    >>> [len(_places(kinds)) for kinds in (2, 3, 4, 6, 7, 16, 17)]
    [8, 5, 4, 3, 2, 2, 1]
    """
    count = max(k for k in range(1, 9) if max(2, kinds) ** k <= 256)
    return [np.uint8(max(2, kinds) ** k) for k in range(count)]
