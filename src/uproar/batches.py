"""The only loop over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from uproar.errors import BadInput, BadShape

Result = TypeVar("Result")


def spans(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` that cover 0..n-1."""
    if size < 1:
        raise BadInput(f"A batch holds at least one sample, not {size}.")
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def in_batches(function: Callable[..., Result], *columns: Any, size: int) -> Result:
    """`function` over all rows of the columns, joined as if it had been called once.

    Columns are tensors or anything that is sliced by rows; `function` returns a tensor, or a tuple or dict
    of tensors, with one row per sample.
    """
    n = len(columns[0])
    if any(len(column) != n for column in columns):
        lengths = ", ".join(str(len(column)) for column in columns)
        raise BadShape(f"The inputs must have one row per sample each, but have {lengths} rows.")
    if n == 0:
        raise BadInput("There are no samples: give at least one.")
    return _join([function(*(column[rows] for column in columns)) for rows in spans(n, size)])


def _join(parts: list[Any]) -> Any:
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, dict):
        return {name: torch.cat([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))
    return torch.cat(parts)
