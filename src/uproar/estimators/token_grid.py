"""Tokens as places of the image: which of them stand for patches, and in how many rows and columns.

The grid is that of a convolution's output (the patch embedding, or halvings of it where patches are merged); without
one, that of square patches of a whole number of pixels. Tokens beyond the grid are class token and registers: those
that are equal for two images before anything is attended to, or else the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Size = tuple[int, int]

MOST_EXTRA = 32
"""Class token, registers and the like, at most."""


@dataclass(frozen=True)
class TokenGrid:
    """How an output becomes feature maps: tokens (n, t, k), channels last (n, rows, columns, k), or as it is."""

    rows: int
    columns: int
    layout: str = "channels first"
    places: tuple[int, ...] | None = None
    """Of tokens: those that stand for patches, row by row."""

    def maps(self, output: Tensor) -> Tensor:
        """The output as feature maps (n, k, rows, columns)."""
        if self.layout == "channels last":
            return output.permute(0, 3, 1, 2)
        if self.layout == "tokens":
            return output[:, list(self.places or ())].transpose(1, 2).unflatten(2, (self.rows, self.columns))
        return output

    def put(self, output: Tensor, maps: Tensor) -> Tensor:
        """The output with its feature maps replaced; class token and registers stay."""
        if self.layout == "channels last":
            return maps.permute(0, 2, 3, 1)
        if self.layout == "tokens":
            return output.index_copy(
                1, torch.tensor(self.places, device=output.device), maps.flatten(2).transpose(1, 2)
            )
        return maps

    @property
    def extra(self) -> str:
        """Class token and registers in words, for a listing."""
        return "tokens" if self.layout == "tokens" else self.layout


def grid_of(output: Any, images: int, image: Size, convolutions: Iterable[Size], extra: tuple[int, ...] | None = None):
    """The grid of a module's output, or None: `extra` are the tokens that stand for no patch, where that was seen."""
    if not isinstance(output, Tensor) or len(output) != images:
        return None
    if output.dim() == 4:
        first, last = (_fits((output.shape[i], output.shape[i + 1]), image) for i in (2, 1))
        if last and not first:
            return TokenGrid(output.shape[1], output.shape[2], "channels last")
        return TokenGrid(output.shape[2], output.shape[3])
    if output.dim() != 3:
        return None
    size = token_rows_and_columns(output.shape[1], image, convolutions)
    if size is None:
        return None
    return TokenGrid(*size, "tokens", _patches(output.shape[1], size[0] * size[1], extra))


def token_rows_and_columns(tokens: int, image: Size, convolutions: Iterable[Size] = ()) -> Size | None:
    """Rows and columns of the patches among so many tokens.

    >>> token_rows_and_columns(197, (224, 224)), token_rows_and_columns(21, (12, 20), [(4, 5)])
    ((14, 14), (4, 5))
    >>> token_rows_and_columns(49, (224, 224), [(56, 56)])  # patches merged three times
    (7, 7)
    """
    seen = list(convolutions)
    merged = [half for size in seen for half in _halvings(size)]
    for candidates, most in ((seen, MOST_EXTRA), (merged, 1), (list(_square_patches(image)), MOST_EXTRA)):
        fitting = [(tokens - r * c, (r, c)) for r, c in candidates if 1 < r * c <= tokens]
        extra, size = min(fitting, default=(tokens, (0, 0)))
        if extra <= min(most, size[0] * size[1]):
            return size
    return None


def _halvings(size: Size) -> Iterator[Size]:
    while True:
        yield size
        if max(size) == 1:
            return
        size = (-(-size[0] // 2), -(-size[1] // 2))


def _square_patches(image: Size) -> Iterator[Size]:
    for side in range(1, max(image) + 1):
        yield -(-image[0] // side), -(-image[1] // side)
        yield image[0] // side, image[1] // side


def _fits(size: Size, image: Size) -> bool:
    """Whether rows and columns are those of the image in steps of one size."""
    return size[0] > 1 and size in set(_square_patches(image))


def _patches(tokens: int, patches: int, extra: tuple[int, ...] | None) -> tuple[int, ...]:
    if extra is not None and len(extra) == tokens - patches:
        return tuple(i for i in range(tokens) if i not in extra)
    return tuple(range(tokens - patches, tokens))
