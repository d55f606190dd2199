"""The only loop over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

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
    of tensors, with one row per sample. A batch of one is computed as two equal rows: matrix libraries take
    another path for a single row, which changes the last bits, and no result may depend on the batch.
    """
    n = len(columns[0])
    if any(len(column) != n for column in columns):
        lengths = ", ".join(str(len(column)) for column in columns)
        raise BadShape(f"The inputs must have one row per sample each, but have {lengths} rows.")
    if n == 0:
        raise BadInput("There are no samples: give at least one.")
    return _join([_call(function, columns, rows) for rows in spans(n, size)])


def _call(function: Callable[..., Result], columns: Sequence[Any], rows: slice) -> Result:
    if rows.stop - rows.start > 1:
        return function(*(column[rows] for column in columns))
    twice = [rows.start, rows.start]
    return _each(function(*(column[twice] for column in columns)), lambda part: part[:1])


def _each(result: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(result, dict):
        return {name: change(part) for name, part in result.items()}
    if isinstance(result, tuple):
        return tuple(change(part) for part in result)
    return change(result)


def _join(parts: list[Any]) -> Any:
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, dict):
        return {name: torch.cat([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))
    return torch.cat(parts)
