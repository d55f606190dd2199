"""Scores decomposed over pixels by comparison with reference images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadShape, NotApplicable
from uproar.estimators.backward_rules import ONE_FACTOR, Interception, Rule, image_dependent, with_backward
from uproar.estimators.class_scores import input_gradient, sum_over_points
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.registry import Context, estimator
from uproar.seeds import generator
from uproar.types import Images, Labels, RawMaps

# rules of DeepLIFT: how a difference in an output is shared among the differences of its inputs
# Tensors hold images first, then their baselines; each rule gives multipliers Δout / Δin to the images' half.


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
        # where a place is a maximum in both it is taken for both: of several equal maxima (every window of a uniform
        # baseline) the first would be named, wherever the image changed
        then = torch.where(there.gather(-1, now) == before, now, then)
        now = torch.where(here.gather(-1, then) == after, then, now)
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


TRANSFORMER_RULES: dict[str, Rule] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    **dict.fromkeys(("matmul", "__matmul", "bmm"), _matrix_product),
}
"""By operation, without trailing underscores."""


Samples = Annotated[int, Field(ge=1, le=10_000)]
Pooling = Literal["rescale", "gradient"]

ACTIVATIONS = frozenset(
    [
        *("celu", "clamp", "clamp_max", "clamp_min", "clip", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh"),
        *("leaky_relu", "logsigmoid", "mish", "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus"),
        *("softsign", "tanh", "tanhshrink", "threshold"),
    ]
)
"""Functions of one number, applied to each value: the rescale rule holds for all of them."""

_LINEAR = ONE_FACTOR.union(
    [
        *("Add", "AdaptiveAvgPool2D", "AvgPool2D", "Mean", "MkldnnAdaptiveAvgPool2D", "Neg", "Rsub", "Sub", "Sum"),
        *("UpsampleBilinear2D"),
    ]
)
_MAX_POOLING = frozenset({"MaxPool2DWithIndices", "AdaptiveMaxPool2D"})


@estimator(
    passes=2,
    needs="activations of single values, max-pooling, softmax, layer norm, attention, and otherwise linear operations",
    formula="(x − x₀) · multipliers with Δout / Δin at every activation",
    paper="Shrikumar et al. 2017",
    fails="pixels that equal the baseline get nothing",
)
def deep_lift(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    baseline: Baseline = "black",
    pooling: Pooling = "rescale",
) -> RawMaps:
    """DeepLIFT (rescale rule): each pixel's part of the difference in score from a baseline.

    The sum over pixels is `score(x) - score(baseline)`. The rule is applied at every call of an activation, so shared
    and functional ones are right. In max-pooling the rise goes to the new maximum and the fall to the old one. A
    product of two activations, as in attention, counts each change with the mean of the other factor; softmax and
    layer norm are such products and functions of single values.
    `pooling="gradient"` gives all to the image's maximum, as captum 0.9 in effect does; the sum is then off as
    soon as a maximum moves.
    """
    return contributions(model, x, baseline_image(x, baseline, context), target, pooling)


@estimator(
    passes=lambda samples=10, **_: 2 * samples,
    needs="as deep_lift; training images",
    formula="mean of deep_lift over training images as baselines",
    paper="Lundberg and Lee 2017",
    fails="depends on the training images drawn",
)
def deep_shap(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    samples: Samples = 10,
    pooling: Pooling = "rescale",
) -> RawMaps:
    """DeepLIFT averaged over training images as baselines, the same ones for every image.

    They are drawn without replacement, all of them where there are fewer than `samples`;
    `pooling` as in `deep_lift`.
    """
    train = _references(context, x)
    order = torch.randperm(len(train), generator=generator(context.draws.seed, "deep_shap references"))
    starts = train.read(order[:samples]).to(x)

    def part(first: int, last: int) -> Tensor:
        start = starts[first:last].repeat(len(x), 1, 1, 1)
        each, named = (t.repeat_interleave(last - first, 0) for t in (x, target))
        return contributions(model, each, start, named, pooling).unflatten(0, (len(x), -1))

    return sum_over_points(part, len(starts), x, share=0.5) / len(starts)


@estimator(
    passes=lambda samples=25, **_: samples,
    needs="a differentiable model; training images",
    formula="mean of (x + ε − b) · ∂f_c(b + α(x + ε − b)) / ∂x over training images b, α ~ U(0, 1)",
    paper="Lundberg and Lee 2017; Erion et al. 2021",
    fails="noisy with few samples; depends on the training images drawn",
)
def grad_shap(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    samples: Samples = 25,
    sigma: Annotated[float, Field(ge=0)] = 0.1,
) -> RawMaps:
    """Expected gradients: gradient at random points between training images and the noisy image, times the difference.

    The sum over pixels is, on average over draws, the mean score of noisy copies less that of training images.
    `sigma` is in units of the pixels, which go from 0 to 1.
    """
    train, draws = _references(context, x), context.draws
    alphas = draws.uniform("grad_shap places", samples).to(x)
    chosen = (draws.uniform("grad_shap references", samples) * len(train)).long()
    noise = draws.normal("grad_shap noise", samples, *x.shape[1:]).to(x) if sigma else None

    def part(first: int, last: int) -> Tensor:
        start = train.read(chosen[:, first:last].flatten()).to(x).unflatten(0, (len(x), -1))
        end = x[:, None] if noise is None else x[:, None] + sigma * noise[:, first:last]
        points = start + alphas[:, first:last, None, None, None] * (end - start)
        gradients = input_gradient(model, points.flatten(0, 1), target.repeat_interleave(last - first))
        return gradients.view_as(points) * (end - start)

    return sum_over_points(part, samples, x) / samples


def contributions(model: nn.Module, x: Images, start: Images, target: Labels, pooling: Pooling = "rescale") -> Tensor:
    """Each pixel's part of `score(x) - score(start)` by the rescale rule, (n, c, h, w)."""
    n = len(x)
    rules: dict[str, Rule] = dict.fromkeys(ACTIVATIONS, rescaled) | TRANSFORMER_RULES
    if pooling == "rescale":
        rules |= {"max_pool2d": max_pooled, "adaptive_max_pool2d": max_pooled}
    allowed = _LINEAR if pooling == "rescale" else _LINEAR | _MAX_POOLING
    # images first, then their baselines: both go through every operation together
    both = torch.cat([x, start]).contiguous(memory_format=torch.channels_last).requires_grad_()
    scores = Interception("deep_lift", rules, allowed).scores(model, both, torch.cat([target, target]))
    (multipliers,) = torch.autograd.grad(scores, both, for_images(torch.ones_like(scores[:n])))
    maps = multipliers[:n].contiguous() * (x - start)
    if pooling == "rescale":
        # rows of images and of baselines that did not stay apart in the model show in the sum
        after, before = scores.detach().chunk(2)
        parts = maps.flatten(1)
        size = parts.abs().sum(1) + after.abs() + before.abs()
        if bool(((parts.sum(1) - (after - before)).abs() > 1e-3 * size).any()):
            raise NotApplicable("deep_lift's parts do not sum to the difference in score for this model")
    return maps


def _references(context: Context, x: Images) -> Any:
    """The training images, of the size of these."""
    if context.train is None:
        raise NotApplicable("training images are needed as references; give train=")
    if context.train.shape != tuple(x.shape[1:]):
        raise BadShape(
            f"The training images are {context.train.shape}, but the images to explain {tuple(x.shape[1:])}."
        )
    return context.train
