"""Rules of DeepLIFT: how a difference in an output is shared among the differences of its inputs.

Tensors hold images first, then their baselines; each rule gives multipliers Δout / Δin to the images' half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from uproar.errors import NotApplicable
from uproar.estimators.attention import explicit_attention, explicit_multi_head, multi_head_arguments
from uproar.estimators.backward_rules import Rule, image_dependent, with_backward

_TINY = 1e-6
"""Differences at or below this have no slope of their own; the derivative takes its place."""


def rescaled(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """An activation whose gradient is Δout / Δin, or its derivative where the input does not differ."""
    if len(image_dependent(args, kwargs)) > 1:
        raise NotApplicable(f"deep_lift has no rule for {func.__name__!r} with bounds that depend on the image")
    a = args[0].detach()

    def apply(t: Tensor) -> Tensor:
        return func(t, *args[1:], **kwargs)

    # in-place versions change a copy
    out = apply(a.clone())

    def back(gradient: Tensor) -> tuple[Tensor]:
        here, there = a.chunk(2)
        after, before = out.chunk(2)
        difference = here - there
        with torch.enable_grad():
            point = here.clone().requires_grad_()
            (slope,) = torch.autograd.grad(apply(point.clone()).sum(), point)
        even = difference.abs() <= _TINY
        slope = torch.where(even, slope, (after - before) / torch.where(even, 1, difference))
        return (for_images(gradient.chunk(2)[0] * slope),)

    return with_backward(out, back, args[0])


def max_pooled(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Max-pooling in which a rise of the maximum goes to where it is now, a fall to where it was."""
    # where a window has several maxima, the memory format decides which one is found
    a = args[0].detach().contiguous()
    pool = F.max_pool2d if func.__name__ == "max_pool2d" else F.adaptive_max_pool2d
    out, places = pool(a, *args[1:6], **{**kwargs, "return_indices": True})

    def back(gradient: Tensor) -> tuple[Tensor]:
        here, there = (half.flatten(-2) for half in a.chunk(2))
        after, before = (half.flatten(-2) for half in out.chunk(2))
        now, then = (half.flatten(-2) for half in places.chunk(2))
        now, then = _shared(here, there, after, before, now, then)
        arriving = gradient.chunk(2)[0].flatten(-2)
        top = torch.maximum(after, before)
        amount = torch.zeros_like(here).scatter_add(-1, now, arriving * (top - before))
        amount = amount.scatter_add(-1, then, arriving * (after - top))
        plain = torch.zeros_like(here).scatter_add(-1, now, arriving)
        difference = here - there
        even = difference.abs() <= _TINY
        slope = torch.where(even, plain, amount / torch.where(even, 1, difference))
        return (for_images(slope.view_as(a.chunk(2)[0])),)

    return with_backward(out, back, args[0])


def _shared(
    here: Tensor, there: Tensor, after: Tensor, before: Tensor, now: Tensor, then: Tensor
) -> tuple[Tensor, Tensor]:
    """Places of the maxima in the image and in the baseline, the same place where one is a maximum in both.

    Of several equal maxima (every window of a uniform baseline) the first would be named, wherever the image changed.
    """
    then = torch.where(there.gather(-1, now) == before, now, then)
    return torch.where(here.gather(-1, then) == after, then, now), then


def for_images(gradient: Tensor) -> Tensor:
    """A gradient for the rows of the images, and none for those of the baselines."""
    return torch.cat([gradient, torch.zeros_like(gradient)])


def _multiplied(a: Tensor, b: Tensor) -> Tensor:
    """A product of two activations, value by value: each change counts with the mean of the other factor."""
    means = [sum(part.detach().chunk(2)) / 2 for part in (a, b)]

    def back(gradient: Tensor) -> tuple[Tensor, Tensor]:
        arriving = gradient.chunk(2)[0]
        return for_images(arriving * means[1]), for_images(arriving * means[0])

    return with_backward(a.detach() * b.detach(), back, a, b)


def _matrix_product(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A matrix product of two activations, as `_multiplied`; with a constant it is linear."""
    if len(image_dependent(args, kwargs)) < 2 or kwargs or args[0].dim() < 3 or args[0].shape[0] != args[1].shape[0]:
        return func(*args, **kwargs)
    a, b = args
    means = [sum(part.detach().chunk(2)) / 2 for part in (a, b)]

    def back(gradient: Tensor) -> tuple[Tensor, Tensor]:
        arriving = gradient.chunk(2)[0]
        return for_images(arriving @ means[1].transpose(-2, -1)), for_images(means[0].transpose(-2, -1) @ arriving)

    return with_backward(func(a.detach(), b.detach()), back, a, b)


def _softmax(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """exp(x) times 1 / Σ exp(x); what is subtracted first is the same for image and baseline."""
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    top = torch.maximum(*args[0].detach().amax(axis, keepdim=True).chunk(2))
    powers = rescaled(torch.exp, (args[0] - torch.cat([top, top]),), {})
    below = rescaled(torch.reciprocal, (powers.sum(axis, keepdim=True),), {})
    return _multiplied(powers, below.expand_as(powers))


def _layer_norm(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """(x − mean) times 1 / √(variance + ε), then scale and shift."""
    given = dict(zip(("input", "normalized_shape", "weight", "bias", "eps"), args, strict=False)) | kwargs
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    centred = args[0] - args[0].mean(axes, keepdim=True)
    variance = rescaled(torch.square, (centred,), {}).mean(axes, keepdim=True)
    below = rescaled(torch.rsqrt, (variance + given.get("eps", 1e-5),), {})
    out = _multiplied(centred, below.expand_as(centred))
    out = out if given.get("weight") is None else out * given["weight"]
    return out if given.get("bias") is None else out + given["bias"]


def _run(func: Callable, *args: Any, **kwargs: Any) -> Any:
    rule = TRANSFORMER_RULES.get(func.__name__)
    return rule(func, args, kwargs) if rule and image_dependent(args, kwargs) else func(*args, **kwargs)


TRANSFORMER_RULES: dict[str, Rule] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    **dict.fromkeys(("matmul", "__matmul", "bmm"), _matrix_product),
    "scaled_dot_product_attention": lambda func, args, kwargs: explicit_attention(_run, *args, **kwargs)[0],
    "multi_head_attention_forward": lambda func, args, kwargs: explicit_multi_head(
        _run, *args, **multi_head_arguments(kwargs)
    ),
}
"""By operation, without trailing underscores."""
