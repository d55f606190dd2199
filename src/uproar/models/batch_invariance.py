"""Layers computed so that the numbers of an image do not depend on how many images are computed with it.

Matrix libraries choose their kernel by the number of rows, and vectorised functions treat the last few numbers of a
tensor in another way than the rest; either changes the last bits. Here matrix products of layers are made in blocks of
16 to 96 rows where the kernels are seen to be the same for all of these, else of 96 rows, and of more rows where these
are seen to give the same numbers; the functions concerned get tensors without such a rest. Where vectors are short,
kernels go by the place of a row in memory too: rows are padded so that each begins at a place of the same kind.
Measured with MKL on processors with AVX-512 and with AVX2 and one thread; with several threads the work is split by the
number of rows once more, and nothing here can prevent that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

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
LANES = 64
"""Numbers that fill whole vector registers, twice, in any precision."""


class BatchInvariant(TorchFunctionMode):
    """Inside, layers on the CPU give a row the same bits whatever the rows around it (with one thread)."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func not in _ADAPTED:
            return func(*args, **kwargs)
        if args and isinstance(args[0], Tensor) and args[0].device.type == "cpu":
            if func in _PRODUCTS and _is_layer(func, args):
                return _in_blocks(func, args[0], args[1:], kwargs)
            if func in _PRODUCTS and not kwargs and _is_of_images(*args):
                return _aligned(func, *args)
            if func in _CONVOLUTIONS and _is_product(*args):
                return _as_linear(*args[:3])
            if func is F.multi_head_attention_forward and _is_unmasked(args, kwargs):
                return _widened(func, args, kwargs)
            if func in _UNEVEN:
                return _without_rest(func, args[0], args[1:], kwargs)
        return func(*args, **kwargs)


_PRODUCTS = {F.linear, torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__}

_CONVOLUTIONS = {torch.conv2d, F.conv2d}

ATTENDED = 4
"""Images of one attention layer, at least: two are projected in another way than more."""

_UNEVEN = {
    *(torch.sigmoid, Tensor.sigmoid, F.silu, F.mish, F.elu, F.selu, F.celu, F.softplus, F.gelu, torch.exp2),
    *(Tensor.exp2, torch.pow, Tensor.pow, Tensor.__pow__),
}
"""Functions whose vector code rounds in another way than their code for single numbers (torch 2.13, x86)."""

_ADAPTED = _PRODUCTS | _CONVOLUTIONS | _UNEVEN | {F.multi_head_attention_forward}


def _is_layer(func: Callable, args: tuple) -> bool:
    """Whether rows of images are multiplied with weights, as opposed to a product of anything else."""
    if len(args) < 2 or args[0].dim() < 2 or not args[0].is_floating_point():
        return False
    return func is F.linear or (isinstance(args[1], nn.Parameter) and args[1].dim() == 2)


def _is_of_images(a: Tensor, b: Any = None, *more: Any) -> bool:
    """Whether every image has two matrices of its own that are multiplied, as queries and keys in attention."""
    return isinstance(b, Tensor) and min(a.dim(), b.dim()) > 2 and a.is_floating_point() and a.dtype == b.dtype


def _aligned(func: Callable, a: Tensor, b: Tensor) -> Tensor:
    """A product of many matrices, each of which begins at a cache line where kernels go by the place in memory too."""
    inner, outer = -a.shape[-1] % LINE, -b.shape[-1] % LINE
    if not inner and not outer:
        return func(a.contiguous(), b.contiguous())
    if not _place_matters(a.shape[-2], a.shape[-1], b.shape[-1], a.dtype):
        return func(a, b)
    return func(F.pad(a, (0, inner)), F.pad(b, (0, outer, 0, inner)))[..., : b.shape[-1]]


@lru_cache(maxsize=256)
def _place_matters(rows: int, inner: int, columns: int, dtype: torch.dtype) -> bool:
    """Whether products of matrices of these sizes differ by where they lie in memory, on this processor: tried with
    one pair of matrices at all places in a cache line, forward and backward; large ones are not tried."""
    if (LINE + 1) * max(rows * inner, inner * columns, rows * columns) > LARGEST:
        return True
    sizes = (rows, inner), (inner, columns), (rows, columns)
    a, b, gradient = (_random(size, dtype).repeat(LINE + 1, 1, 1) for size in sizes)
    made = torch.bmm(a, b), torch.bmm(gradient, b.transpose(1, 2)), torch.bmm(a.transpose(1, 2), gradient)
    return not all(bool((each == each[0]).all()) for each in made)


def _is_product(x: Tensor, weight: Any = None, bias: Any = None, stride: Any = 1, padding: Any = 0, *more: Any) -> bool:
    """Whether a convolution, its arguments in their places, is a product of single pixels with a matrix."""
    if not isinstance(weight, Tensor) or x.dim() != 4 or x.shape[2:] != (1, 1):
        return False
    grouped = weight.shape[1] != x.shape[1]
    return weight.shape[2:] == (1, 1) and not grouped and padding in (0, (0, 0), [0, 0])


def _as_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A convolution of single pixels, as in squeeze-and-excitation blocks."""
    out = _in_blocks(F.linear, x.flatten(1), (weight.flatten(1), bias), {})
    return out[:, :, None, None]


def _is_unmasked(args: tuple, kwargs: dict) -> bool:
    masks = kwargs.get("key_padding_mask"), kwargs.get("attn_mask")
    return args[0].dim() == 3 and args[0].shape[1] > 0 and masks == (None, None)


def _widened(func: Callable, args: tuple, kwargs: dict) -> Any:
    """An attention layer with images and tokens of zeros beside those that there are, (tokens, n, features).

    The added tokens are masked; the mask is there also where none was added, since without it another kernel is taken.
    """
    (tokens, n), keys = args[0].shape[:2], args[1].shape[0]
    wide = [F.pad(a, (0, 0, 0, max(0, ATTENDED - n), 0, -a.shape[0] % SHORT)) for a in args[:3]]
    added = torch.arange(wide[1].shape[0]) >= keys
    out, weights = func(*wide, *args[3:], **{**kwargs, "key_padding_mask": added.expand(wide[1].shape[1], -1)})
    out = _first(_first(out, 0, tokens), 1, n)
    return out, None if weights is None else weights[:n, ..., :tokens, :keys]


def _in_blocks(func: Callable, x: Tensor, rest: tuple, kwargs: dict) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) == 0:
        return func(x, *rest, **kwargs)
    rows, rest, width = _lined_up(func, rows, rest)
    weight, bias = rest[0].t() if func is F.linear else rest[0], rest[1] if len(rest) > 1 else None
    if len(rows) > MOST and not kwargs:
        whole = Addmm.apply(rows, weight, bias)
    else:
        parts = [_first(func(_filled(part, weight), *rest, **kwargs), 0, len(part)) for part in rows.split(MOST)]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return _first(whole, 1, width).contiguous().view(*x.shape[:-1], width)


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
    weight = _random((inner, width), dtype)
    weight = weight.t().contiguous().t() if transposed else weight
    return _random((rows, inner), dtype), weight, _random((width,), dtype)


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


def _first(x: Tensor, dim: int, count: int) -> Tensor:
    """The first rows or columns. All of them are the tensor itself: a slice would copy the gradient into zeros."""
    return x if x.shape[dim] == count else x.narrow(dim, 0, count)


def _random(size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
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


def _without_rest(func: Callable, x: Tensor, rest: tuple, kwargs: dict) -> Tensor:
    extra = -x.numel() % LANES
    if x.dim() == 0 or any(isinstance(each, Tensor) for each in rest):
        return func(x, *rest, **kwargs)
    places = sorted(range(x.dim()), key=x.stride, reverse=True)
    back = [places.index(dim) for dim in range(x.dim())]
    laid = x.permute(places)
    options = {name: value for name, value in kwargs.items() if name != "inplace"}
    # flat in any case, so that gradients come in one piece of memory too
    flat = laid.reshape(-1)
    out = func(F.pad(flat, (0, extra)) if extra else flat, *rest, **options)
    out = _first(out, 0, x.numel()).view(laid.shape).permute(back)
    return x.copy_(out) if kwargs.get("inplace") else out
