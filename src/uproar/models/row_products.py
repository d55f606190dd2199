"""Products of rows with a matrix whose numbers do not depend on how many rows there are.

Matrix libraries choose their kernel by the number of rows, which changes the last bits. Here products are made in
blocks of 16 to 96 rows where the kernels are seen to be the same for all of these, else of 96 rows, and of more rows
where these are seen to give the same numbers. Where vectors are short, kernels go by the place of a row in memory too:
rows are padded so that each begins at a place of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FEWEST, MOST = 16, 96
"""Rows of one matrix product. The kernels of MKL for AVX2 take 4, 6 or 12 rows at a time, and what is left in another
way: `MOST` leaves nothing."""
TRIED = 16, 19, 27, 55, 91
"""Rows that are tried, to see whether fewer than `MOST` give the same numbers."""
MANY = 576
"""Rows of one matrix product where it gives the same numbers and all rows at once do not."""
LINE = 16
"""Numbers in a cache line, in single precision."""
SHORT = 4
"""Numbers in the shortest vector, in single precision: rows begin at multiples of it."""
LARGEST = 2**22
"""Numbers in a matrix, in all copies of it, or in all rows, up to which it is tried how the processor treats it."""
LARGEST_PRODUCT = 2**28
"""Multiplications in a product up to which it is tried whether all its rows at once give the same numbers."""
LARGEST_SIDE = 1024
"""Rows and columns of the part of a matrix with which it is tried whether few rows give the same numbers."""


def product_in_blocks(func: Callable, x: Tensor, rest: tuple, kwargs: dict) -> Tensor:
    """What `func`, a product of rows with a matrix, gives for rows x; `rest` is the matrix and perhaps a bias."""
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) == 0:
        return func(x, *rest, **kwargs)
    rows, rest, width = _lined_up(func, rows, rest)
    weight, bias = rest[0].t() if func is F.linear else rest[0], rest[1] if len(rest) > 1 else None
    if len(rows) > MOST and not kwargs:
        whole = Addmm.apply(rows, weight, bias)
    else:
        parts = [first(func(_filled(part, weight), *rest, **kwargs), 0, len(part)) for part in rows.split(MOST)]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return first(whole, 1, width).contiguous().view(*x.shape[:-1], width)


class Addmm(torch.autograd.Function):
    """Rows times a matrix, plus a bias, block by block into one tensor; named as torch names it in a graph."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, weight)
        sizes = _block_sizes(len(rows), weight)
        if sizes == [len(rows)]:
            return _product(rows, weight, bias)
        made = rows.new_empty(len(rows), weight.shape[1])
        for part, out in zip(rows.split(sizes), made.split(sizes), strict=True):
            if len(part) < MOST:
                out.copy_(_product(_filled(part, weight), weight, bias)[: len(part)])
            else:
                _product(part, weight, bias, out)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        rows, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            Addmm.apply(_at_a_line(gradient.contiguous()), weight.t(), None) if of_rows else None,
            rows.t() @ gradient if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    return torch.mm(rows, weight, out=out) if bias is None else torch.addmm(bias, rows, weight, out=out)


def _block_sizes(rows: int, weight: Tensor) -> list[int]:
    facts = _facts(weight)
    small = rows * weight.numel() <= LARGEST_PRODUCT and rows * max(weight.shape) <= LARGEST
    if small and _alike(rows, *facts):
        return [rows]
    many = rows // MANY if rows >= MANY and weight.numel() <= LARGEST and _alike(MANY, *facts) else 0
    few, rest = divmod(rows - many * MANY, MOST)
    return [MANY] * many + [MOST] * few + [rest] * (rest > 0)


Facts = tuple[int, int, bool, torch.dtype]
"""Of a matrix: rows, columns, whether its columns lie one after the other in memory, and the precision."""


def _facts(weight: Tensor) -> Facts:
    return weight.shape[0], weight.shape[1], weight.stride(0) == 1, weight.dtype


def _example(rows: int, inner: int, width: int, transposed: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Random rows, a matrix of this kind, and a bias."""
    weight = random_numbers((inner, width), dtype)
    weight = weight.t().contiguous().t() if transposed else weight
    return random_numbers((rows, inner), dtype), weight, random_numbers((width,), dtype)


@lru_cache(maxsize=1024)
def _alike(rows: int, *facts: Any) -> bool:
    """Whether so many rows at once give the numbers of blocks of `MOST` rows, on this processor: tried on some."""
    many, weight, bias = _example(rows, *facts)
    parts = [_product(_padded(part, MOST), weight, bias)[: len(part)] for part in many.split(MOST)]
    return torch.equal(_product(many, weight, bias), torch.cat(parts))


@lru_cache(maxsize=256)
def _few_are_alike(*facts: Any) -> bool:
    """Whether `FEWEST` rows and more give the numbers of `MOST` rows, on this processor: tried on some."""
    rows, weight, bias = _example(MOST, *facts)
    full = _product(rows, weight, bias)
    return all(torch.equal(_product(rows[:few], weight, bias), full[:few]) for few in TRIED)


def _filled(rows: Tensor, weight: Tensor) -> Tensor:
    """Rows, at most `MOST`, with zeros up to a number that gives the numbers of any other, forward and backward."""
    inner, width, transposed, dtype = _facts(weight)
    inner, width = min(inner, LARGEST_SIDE), min(width, LARGEST_SIDE)
    both = (inner, width, transposed, dtype), (width, inner, not transposed, dtype)
    return _padded(rows, FEWEST if all(_few_are_alike(*facts) for facts in both) else MOST)


def _padded(rows: Tensor, count: int) -> Tensor:
    return rows if len(rows) >= count else F.pad(rows, (0, 0, 0, count - len(rows)))


def first(x: Tensor, dim: int, count: int) -> Tensor:
    """The first rows or columns. All of them are the tensor itself: a slice would copy the gradient into zeros."""
    return x if x.shape[dim] == count else x.narrow(dim, 0, count)


def random_numbers(size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers to try kernels with, between -0.5 and 0.5."""
    return torch.rand(size, generator=torch.Generator().manual_seed(len(size)), dtype=dtype).sub_(0.5)


def _lined_up(func: Callable, rows: Tensor, rest: tuple) -> tuple[Tensor, tuple, int]:
    """Rows, weights and bias with zeros at the end, so that all rows begin at the same kind of place; the width of the
    product."""
    weight, *bias = rest
    by_output = func is F.linear
    width = weight.shape[0 if by_output else 1]
    inner, outer = -rows.shape[1] % SHORT, -width % SHORT
    if inner or outer:
        weight = F.pad(weight, (0, inner, 0, outer) if by_output else (0, outer, 0, inner))
        bias = [each if each is None else F.pad(each, (0, outer)) for each in bias]
    return _at_a_line(F.pad(rows, (0, inner)) if inner else rows.contiguous()), (weight, *bias), width


def _at_a_line(rows: Tensor) -> Tensor:
    return rows.clone() if rows.data_ptr() % (LINE * rows.element_size()) else rows
