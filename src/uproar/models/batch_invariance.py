"""Layers computed so that the numbers of an image do not depend on how many images are computed with it.

Matrix libraries choose their kernel by the number of rows, and vectorised functions treat the last few numbers of a
tensor in another way than the rest; either changes the last bits. Here matrix products of layers are made in blocks
(`row_products`), and the functions concerned get tensors without such a rest. Measured with MKL on processors with
AVX-512 and with AVX2 and one thread; with several threads the work is split by the number of rows once more, and
nothing here can prevent that. Convolutions over few values give their gradient in a quicker way (`small_convolution`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.models.row_products import LARGEST, LINE, SHORT, first, product_in_blocks, random_numbers
from uproar.models.small_convolution import Convolution, is_small

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
                return product_in_blocks(func, args[0], args[1:], kwargs)
            if func in _PRODUCTS and not kwargs and _is_of_images(*args):
                return _aligned(func, *args)
            if func in _CONVOLUTIONS and _is_product(*args):
                return _as_linear(*args[:3])
            if func in _CONVOLUTIONS and not kwargs and is_small(*args):
                return Convolution.apply(*args)
            if func is F.adaptive_avg_pool2d and _is_identity(*args):
                return args[0].clone()
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

_ADAPTED = _PRODUCTS | _CONVOLUTIONS | _UNEVEN | {F.multi_head_attention_forward, F.adaptive_avg_pool2d}


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
    a, b, gradient = (random_numbers(size, dtype).repeat(LINE + 1, 1, 1) for size in sizes)
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
    out = product_in_blocks(F.linear, x.flatten(1), (weight.flatten(1), bias), {})
    return out[:, :, None, None]


def _is_identity(x: Tensor, size: Any = None) -> bool:
    """Whether average pooling gives an image of the size that it has: its gradient takes longer than that of a copy."""
    return x.dim() == 4 and tuple(x.shape[-2:]) == (tuple(size) if isinstance(size, tuple | list) else (size, size))


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
    out = first(first(out, 0, tokens), 1, n)
    return out, None if weights is None else weights[:n, ..., :tokens, :keys]


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
    out = first(out, 0, x.numel()).view(laid.shape).permute(back)
    return x.copy_(out) if kwargs.get("inplace") else out
