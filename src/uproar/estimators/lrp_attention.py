"""Rules of layer-wise relevance propagation for transformers, after AttnLRP (Achtibat et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from uproar.estimators.attention import Run, explicit_attention, explicit_multi_head, multi_head_arguments
from uproar.estimators.backward_rules import Rule, image_dependent, with_backward
from uproar.estimators.lrp_rules import Affine, Epsilon, divided


def attention_rules(run: Run, epsilon: float) -> dict[str, Rule]:
    """By operation: softmax, layer norm, matrix products, and attention, which `run` computes step by step."""

    def product(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return matrix_product(func, args, kwargs, epsilon)

    return {
        "softmax": softmax,
        "layer_norm": layer_norm,
        **dict.fromkeys(("matmul", "__matmul", "bmm"), product),
        "scaled_dot_product_attention": lambda func, args, kwargs: explicit_attention(run, *args, **kwargs)[0],
        "multi_head_attention_forward": lambda func, args, kwargs: explicit_multi_head(
            run, *args, **multi_head_arguments(kwargs)
        ),
    }


def softmax(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Gradient · input: input i gets x_i (R_i − s_i Σ_j R_j) of the outputs s."""
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    x = args[0].detach()
    value = func(x, *args[1:], **kwargs)
    seen = torch.where(x.isfinite(), x, 0)

    def back(r: Tensor) -> tuple[Tensor]:
        return (seen * (r - value * r.sum(axis, keepdim=True)),)

    return with_backward(value, back, args[0])


def layer_norm(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Relevance passes unchanged."""
    plain = {name: each.detach() if isinstance(each, Tensor) else each for name, each in kwargs.items()}
    return with_backward(func(args[0].detach(), *args[1:], **plain), lambda r: (r,), args[0])


def matrix_product(func: Callable, args: tuple, kwargs: dict[str, Any], epsilon: float) -> Any:
    """Half for each factor, in proportion to the products summed; with a constant factor, all for the other."""
    if len(image_dependent(args, kwargs)) < 2:
        return _with_constant(func, args, kwargs, epsilon)
    if args[0].dim() < 3:  # rows of images with rows of images: refused by name
        return func(*args, **kwargs)
    a, b = (part.detach() for part in args)
    value = func(a, b, **kwargs)

    def back(r: Tensor) -> tuple[Tensor, Tensor]:
        share = divided(r, 2 * value, epsilon)
        for_a, for_b = a * (share @ b.transpose(-2, -1)), b * (a.transpose(-2, -1) @ share)
        return for_a.sum_to_size(a.shape), for_b.sum_to_size(b.shape)

    return with_backward(value, back, *args)


def _with_constant(func: Callable, args: tuple, kwargs: dict[str, Any], epsilon: float) -> Any:
    place = next((i for i, each in enumerate(args) if image_dependent(each)), None)
    if place is None:
        return func(*args, **kwargs)  # stays in the graph as it is, where it is refused by name
    op = Affine(lambda t, _w, _b: func(*args[:place], t, *args[place + 1 :], **kwargs))
    a, rule = args[place].detach(), Epsilon(epsilon)
    return with_backward(op.of(a), lambda r: (rule(op, a, r),), args[place])
