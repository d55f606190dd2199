"""Scores decomposed over pixels: DeepLIFT, from reference images, and layer-wise relevance propagation (LRP)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.data.task import Split
from uproar.errors import BadShape, NotApplicable
from uproar.estimators.class_scores import (
    MOVES,
    ONE_FACTOR,
    Interception,
    Rule,
    graph,
    image_dependent,
    input_gradient,
    operation,
    scale_and_shift,
    sum_over_points,
    with_backward,
)
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
    # in-place versions change a copy
    out = func(a.clone(), *args[1:], **kwargs)

    def back(gradient: Tensor) -> tuple[Tensor]:
        image, reference = a.chunk(2)
        after, before = out.chunk(2)
        difference = image - reference
        with torch.enable_grad():
            point = image.clone().requires_grad_()
            (slope,) = torch.autograd.grad(func(point.clone(), *args[1:], **kwargs).sum(), point)
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
        image, reference = (half.flatten(-2) for half in a.chunk(2))
        after, before = (half.flatten(-2) for half in out.chunk(2))
        now, then = (half.flatten(-2) for half in places.chunk(2))
        # where a place is a maximum in both it is taken for both: of several equal maxima (every window of a uniform
        # baseline) the first would be named, wherever the image changed
        then = torch.where(reference.gather(-1, now) == before, now, then)
        now = torch.where(image.gather(-1, then) == after, then, now)
        arriving = gradient.chunk(2)[0].flatten(-2)
        top = torch.maximum(after, before)
        amount = torch.zeros_like(image).scatter_add(-1, now, arriving * (top - before))
        amount = amount.scatter_add(-1, then, arriving * (after - top))
        plain = torch.zeros_like(image).scatter_add(-1, now, arriving)
        difference = image - reference
        even = difference.abs() <= _TINY
        slope = torch.where(even, plain, amount / torch.where(even, 1, difference))
        return (for_images(slope.view_as(a.chunk(2)[0])),)

    return with_backward(out, back, args[0])


def for_images(gradient: Tensor) -> Tensor:
    """A gradient for the rows of the images, and none for those of the baselines."""
    return torch.cat([gradient, torch.zeros_like(gradient)])


def _matrix_product(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A matrix product of two activations, as `_product`; with a constant it is linear."""
    if len(image_dependent(args, kwargs)) < 2 or kwargs or args[0].dim() < 3 or args[0].shape[0] != args[1].shape[0]:
        return func(*args, **kwargs)
    return _product(func, lambda g, b: g @ b.transpose(-2, -1), lambda g, a: a.transpose(-2, -1) @ g, *args)


def _product(func: Callable, for_a: Callable, for_b: Callable, a: Tensor, b: Tensor) -> Tensor:
    """A product of two activations: each change counts with the mean of the other factor.

    `for_a(gradient, b)` and `for_b(gradient, a)` are the gradients of `func(a, b)`.
    """
    mean_a, mean_b = (sum(each.detach().chunk(2)) / 2 for each in (a, b))

    def back(gradient: Tensor) -> tuple[Tensor, Tensor]:
        arriving = gradient.chunk(2)[0]
        return for_images(for_a(arriving, mean_b)), for_images(for_b(arriving, mean_a))

    return with_backward(func(a.detach(), b.detach()), back, a, b)


def _softmax(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """exp(x) times 1 / Σ exp(x); what is subtracted first is the same for image and baseline."""
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    top = torch.maximum(*args[0].detach().amax(axis, keepdim=True).chunk(2))
    powers = rescaled(torch.exp, (args[0] - torch.cat([top, top]),), {})
    below = rescaled(torch.reciprocal, (powers.sum(axis, keepdim=True),), {})
    return _product(torch.mul, torch.mul, torch.mul, powers, below.expand_as(powers))


def _layer_norm(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """(x − mean) times 1 / √(variance + ε), then scale and shift."""
    arguments = dict(zip(("input", "normalized_shape", "weight", "bias", "eps"), args, strict=False)) | kwargs
    axes = tuple(range(-len(arguments["normalized_shape"]), 0))
    centred = args[0] - args[0].mean(axes, keepdim=True)
    variance = rescaled(torch.square, (centred,), {}).mean(axes, keepdim=True)
    below = rescaled(torch.rsqrt, (variance + arguments.get("eps", 1e-5),), {})
    out = _product(torch.mul, torch.mul, torch.mul, centred, below.expand_as(centred))
    out = out if arguments.get("weight") is None else out * arguments["weight"]
    return out if arguments.get("bias") is None else out + arguments["bias"]


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
    train = _references("deep_shap", context, x)
    order = torch.randperm(len(train), generator=generator(context.draws.seed, "deep_shap references"))
    starts = train.read(order[:samples]).to(x)

    def decomposed(first: int, last: int) -> Tensor:
        start = starts[first:last].repeat(len(x), 1, 1, 1)
        each, named = (t.repeat_interleave(last - first, 0) for t in (x, target))
        return contributions(model, each, start, named, pooling).unflatten(0, (len(x), -1))

    return sum_over_points(decomposed, len(starts), x, share=0.5) / len(starts)


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
    train, draws = _references("grad_shap", context, x), context.draws
    alphas = draws.uniform("grad_shap places", samples).to(x)
    chosen = (draws.uniform("grad_shap references", samples) * len(train)).long()
    noise = draws.normal("grad_shap noise", samples, *x.shape[1:]).to(x) if sigma else None

    def weighted(first: int, last: int) -> Tensor:
        start = train.read(chosen[:, first:last].flatten()).to(x).unflatten(0, (len(x), -1))
        end = x[:, None] if noise is None else x[:, None] + sigma * noise[:, first:last]
        points = start + alphas[:, first:last, None, None, None] * (end - start)
        slopes = input_gradient(model, points.flatten(0, 1), target.repeat_interleave(last - first))
        return slopes.view_as(points) * (end - start)

    return sum_over_points(weighted, samples, x) / samples


def contributions(model: nn.Module, x: Images, start: Images, target: Labels, pooling: Pooling = "rescale") -> Tensor:
    """Each pixel's part of `score(x) - score(start)` by the rescale rule, (n, c, h, w)."""
    n = len(x)
    rules: dict[str, Rule] = dict.fromkeys(ACTIVATIONS, rescaled) | TRANSFORMER_RULES
    allowed = _LINEAR | _MAX_POOLING
    if pooling == "rescale":
        rules |= {"max_pool2d": max_pooled, "adaptive_max_pool2d": max_pooled}
        allowed = _LINEAR
    # images first, then their baselines: both go through every operation together
    both = torch.cat([x, start]).contiguous(memory_format=torch.channels_last).requires_grad_()
    scores = Interception("deep_lift", rules, allowed).scores(model, both, torch.cat([target, target]))
    (multipliers,) = torch.autograd.grad(scores, both, for_images(torch.ones_like(scores[:n])))
    maps = multipliers[:n].contiguous() * (x - start)
    # rows of images and of baselines that did not stay apart in the model show in the sum
    after, before = scores.detach().chunk(2)
    size = maps.abs().sum((1, 2, 3)) + after.abs() + before.abs()
    off = (maps.sum((1, 2, 3)) - (after - before)).abs() > 1e-3 * size
    if pooling == "rescale" and bool(off.any()):
        raise NotApplicable("deep_lift's parts do not sum to the difference in score for this model")
    return maps


def _references(user: str, context: Context, x: Images) -> Split:
    """The training images, of the size of these."""
    train = context.training_images(user)
    if train.shape != tuple(x.shape[1:]):
        raise BadShape(f"The training images are {train.shape}, but the images to explain {tuple(x.shape[1:])}.")
    return train


# rules of layer-wise relevance propagation: how the relevance of an output is shared among its inputs
# Each rule is `(operation, input, relevance of the output) -> relevance of the input`. An operation is affine; its
# weights can be exchanged, so that a rule can look at the positive ones alone.


@dataclass(frozen=True)
class Affine:
    """`call(input, weight, bias)`, linear in the input and in the weight; without a weight, all weights are ≥ 0."""

    call: Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
    weight: Tensor | None = None
    bias: Tensor | None = None

    def of(self, a: Tensor, sign: int = 0, bias: bool = False) -> Tensor:
        """The output with all weights or those of one sign, without the bias or with it."""
        weight = self.weight
        if weight is not None and sign:
            weight = weight.clamp_min(0) if sign > 0 else weight.clamp_max(0)
        return self.call(a, weight, self.bias if bias else None)

    def back(self, like: Tensor, s: Tensor, sign: int = 0) -> Tensor:
        """The transposed map: what arrives at inputs of this shape, with all weights or those of one sign."""
        with torch.enable_grad():
            point = torch.zeros_like(like).requires_grad_()
            (result,) = torch.autograd.grad(self.of(point, sign), point, s)
        return result


def divided(r: Tensor, z: Tensor, epsilon: float) -> Tensor:
    """r / (z + ε sign z), and 0 where there is nothing to divide by."""
    below = z + torch.where(z < 0, -epsilon, epsilon)
    return torch.where(below == 0, 0, r / torch.where(below == 0, 1, below))


@dataclass(frozen=True)
class Epsilon:
    """In proportion to the contributions; the bias takes its own part, ε a little."""

    epsilon: float

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        return a * op.back(a, divided(r, op.of(a, bias=True), self.epsilon))

    def terms(self, terms: Sequence[Tensor], r: Tensor) -> list[Tensor]:
        """Relevance of the terms of a sum."""
        share = divided(r, sum(terms[1:], terms[0]), self.epsilon)
        return [term * share for term in terms]


@dataclass(frozen=True)
class Positive:
    """In proportion to positive contributions, biases left out; a unit that has none keeps its relevance (z⁺)."""

    epsilon: float

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        up, down = a.clamp_min(0), a.clamp_max(0)
        if not bool((a < 0).any()):  # after a ReLU no input is negative, and half of the work can be left out
            return up * op.back(a, divided(r, op.of(up, 1), self.epsilon), 1)
        s = divided(r, op.of(up, 1) + op.of(down, -1), self.epsilon)
        return up * op.back(a, s, 1) + down * op.back(a, s, -1)

    def terms(self, terms: Sequence[Tensor], r: Tensor) -> list[Tensor]:
        """Relevance of the terms of a sum: the positive ones share, or all where none is positive."""
        positive = [term.clamp_min(0) for term in terms]
        none = sum(positive[1:], positive[0]) == 0
        used = [torch.where(none, term, up) for term, up in zip(terms, positive, strict=True)]
        share = divided(r, sum(used[1:], used[0]), self.epsilon)
        return [term * share for term in used]


@dataclass(frozen=True)
class Coherency:
    """The rules of the code released with the study of Vandersmissen and Oramas (2023), to compare with it.

    Positive and negative inputs are normalised apart and biases dropped; in the first layer pixels are taken to lie in
    [−1, 1] and the bias is subtracted once; both terms of a sum get the whole relevance. After every rule the relevance
    of an image is divided by its sum; there, by that of the whole batch, so this is its result for single images.
    """

    first: bool = False

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        def over(z: Tensor) -> Tensor:
            return r / torch.where(z == 0, torch.finfo(torch.float32).eps, z)

        if self.first:
            low, high = -torch.ones_like(a), torch.ones_like(a)
            z = op.of(a) - op.of(low, 1) - op.of(high, -1)
            # the bias alone is what the operation makes of zeros
            s = over(z - op.of(0 * a, bias=True))
            shared = a * op.back(a, s) - low * op.back(a, s, 1) - high * op.back(a, s, -1)
        elif op.weight is None:
            shared = a * op.back(a, over(op.of(a)))
        else:
            up, down = a.clamp_min(0), a.clamp_max(0)
            shared = up * op.back(a, over(op.of(up, 1)), 1) + down * op.back(a, over(op.of(down, -1)), -1)
        total = shared.flatten(1).sum(1).view(-1, *[1] * (shared.dim() - 1))
        return shared / torch.where(total == 0, 1, total)

    def terms(self, terms: Sequence[Tensor], r: Tensor) -> list[Tensor]:
        return [r for _ in terms]


# rules of layer-wise relevance propagation for transformers, after AttnLRP (Achtibat et al. 2024)


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


def matrix_product(epsilon: float, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Half for each factor, in proportion to the products summed; with a constant factor, all for the other."""
    indices = [i for i, each in enumerate(args) if image_dependent(each)]
    if len(indices) == 1:
        index, rule = indices[0], Epsilon(epsilon)
        op = Affine(lambda t, _w, _b: func(*args[:index], t, *args[index + 1 :], **kwargs))
        alone = args[index].detach()
        return with_backward(op.of(alone), lambda r: (rule(op, alone, r),), args[index])
    if len(indices) != 2 or args[0].dim() < 3:  # stays in the graph as it is, where it is refused by name
        return func(*args, **kwargs)
    a, b = (factor.detach() for factor in args)
    value = func(a, b, **kwargs)

    def back(r: Tensor) -> tuple[Tensor, Tensor]:
        share = divided(r, 2 * value, epsilon)
        for_a, for_b = a * (share @ b.transpose(-2, -1)), b * (a.transpose(-2, -1) @ share)
        return for_a.sum_to_size(a.shape), for_b.sum_to_size(b.shape)

    return with_backward(value, back, *args)


Composite = Literal["epsilon-plus", "epsilon", "z-plus", "coherency"]

_ACTIVATIONS = (
    *("celu", "elu", "gelu", "hardswish", "hardtanh", "leaky_relu", "mish"),
    *("prelu", "relu", "relu6", "selu", "silu", "tanh"),
)
"""Activations that keep zero at zero: relevance passes them unchanged."""

_MAXIMA = frozenset({"AdaptiveMaxPool2D", "Amax", "Max", "MaxPool2DWithIndices"})
"""The gradient of a maximum goes to the winner, and so does relevance."""


@estimator(
    passes=3,
    needs="layers that LRP has rules for: convolution, linear, norms, pooling, sums, activations, attention",
    formula="R_i = Σ_j share of input i in output j · R_j, from the score down to the pixels",
    paper="Bach et al. 2015; Montavon et al. 2017; Kohlbrenner et al. 2020; Achtibat et al. 2024",
    fails="epsilon alone is close to gradient · input; z-plus depends little on the class",
)
def lrp(
    model: nn.Module,
    x: Images,
    target: Labels,
    *,
    composite: Composite = "epsilon-plus",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> RawMaps:
    """Layer-wise relevance propagation.

    epsilon       every input in proportion to what it contributes to the sum; a bias keeps its own part
    z-plus        positive contributions only, biases left out; a unit that has none keeps its relevance
    epsilon-plus  epsilon in linear layers, z-plus elsewhere
    coherency     the rules of released code, to compare with it (see `Coherency`)

    With epsilon and epsilon-plus the relevance starts as, and sums to, the score, less what biases keep; with the
    others it starts as 1, since a negative score would turn their order around. A batch norm is merged with the layer
    before it, the terms of a sum share by the same rule, and a normalisation of the pixels passes relevance unchanged.
    In transformers the rules of AttnLRP hold: a layer norm passes relevance unchanged, both factors of a matrix product
    get half each, a softmax gives its input gradient · input, so that part of the relevance of attention weights is
    lost.
    """
    images = x.detach().clone(memory_format=torch.channels_last).requires_grad_()
    scores = _Relevance(composite, epsilon).scores(model, images, target)
    start = torch.zeros_like(scores)
    start[:] = scores.detach() if composite in ("epsilon", "epsilon-plus") else 1.0
    (relevance,) = torch.autograd.grad(scores, images, start)
    return relevance.contiguous()


class _Relevance(Interception):
    """A model whose backward pass carries relevance instead of gradients."""

    def __init__(self, composite: Composite, epsilon: float) -> None:
        rules: dict[str, Callable] = dict.fromkeys(_ACTIVATIONS, self._activation)
        rules |= dict.fromkeys(("conv1d", "conv2d", "conv3d"), functools.partial(self._weighted, False))
        rules |= dict.fromkeys(("avg_pool2d", "adaptive_avg_pool2d", "mean", "sum"), self._pooling)
        rules |= dict.fromkeys(("mul", "div", "true_divide", "neg"), self._scaling)
        rules |= dict.fromkeys(("add", "sub", "__rsub", "rsub"), self._sum)
        rules |= {"linear": functools.partial(self._weighted, True), "batch_norm": self._batch_norm}
        if composite != "coherency":
            product = functools.partial(matrix_product, epsilon)
            rules |= {"softmax": softmax, "layer_norm": layer_norm}
            rules |= dict.fromkeys(("matmul", "__matmul", "bmm"), product)
        super().__init__("lrp", rules, _MAXIMA)
        self.composite, self.epsilon = composite, epsilon
        # the rule of linear layers, and of all else
        self.dense: Any = Epsilon(epsilon)
        self.rule: Any = self.dense if composite == "epsilon" else Positive(epsilon)
        if composite == "z-plus":
            self.dense = self.rule
        elif composite == "coherency":
            self.dense = self.rule = Coherency()
        self.firsts = 0
        # the ways back of steps that only normalise pixels
        self.steps: set[Callable] = set()
        # what made an output: its input, the operation, and whether that is a linear layer
        self.origins: dict[int, tuple[Tensor, Tensor, Affine, bool]] = {}

    def scores(self, model: nn.Module, x: Images, target: Labels) -> Tensor:
        try:
            scores = super().scores(model, x, target)
        finally:
            # ways back know this object: tensors kept here would keep their graph, and that this object, for ever
            self.origins.clear()
            self.steps.clear()
        if self.composite == "coherency" and not self.firsts:
            raise NotApplicable(
                "lrp has a rule of its own for the first layer here, but the pixels of this model do not go "
                "into a convolution or linear layer as they are"
            )
        return scores

    def _weighted(self, dense: bool, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """A linear layer, which is `dense`, or a convolution."""
        arguments = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
        a, weight, bias = arguments.pop("input"), arguments.pop("weight"), arguments.pop("bias", None)
        if image_dependent(weight, bias):
            raise NotApplicable(f"lrp has no rule for {func.__name__!r} with weights that depend on the image")

        def call(t: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
            return func(t, w, b, *args[3:], **arguments)

        op = Affine(call, weight, bias)
        out = self._affine(op, a, call(a.detach(), weight, bias), dense)
        self.origins[id(out)] = (out, a, op, dense)
        return out

    def _affine(self, op: Affine, a: Tensor, value: Tensor, dense: bool) -> Tensor:
        rule: Callable = self.dense if dense else self.rule
        values = a.detach()
        if self.composite == "coherency" and self._is_pixels(a):
            self.firsts += 1
            rule = Coherency(first=True)
        return with_backward(value, lambda r: (rule(op, values, r),), a)

    def _batch_norm(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """Scale and shift of each channel, in one with the layer before."""
        z, known = args[0], scale_and_shift(args, kwargs)
        if known is None or image_dependent(args[1:], kwargs):
            raise NotApplicable("lrp has no rule for batch norm with statistics of the batch")
        scale, shift = known
        value = func(z.detach(), *args[1:], **kwargs)
        _, a, op, dense = self.origins.get(id(z), (None, z, None, False))
        if op is not None and op.weight is not None and self.composite != "coherency" and (z.dim() == 2 or not dense):
            weight = op.weight * scale.view(-1, *[1] * (op.weight.dim() - 1))
            merged = Affine(op.call, weight, shift if op.bias is None else op.bias * scale + shift)
            return self._affine(merged, a, value, dense)
        return self._shifted(z, value - shift.view(-1, *[1] * (z.dim() - 2)), value)

    def _pooling(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """Averages and sums over places: always in proportion, as all weights are equal."""
        op = Affine(lambda t, _w, _b: func(t, *args[1:], **kwargs))
        a = args[0].detach()
        rule = self.rule if self.composite == "coherency" else Epsilon(self.epsilon)
        return with_backward(op.of(a), lambda r: (rule(op, a, r),), args[0])

    def _activation(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        return with_backward(_value(func, args, kwargs), lambda r: (r,), args[0])

    def _scaling(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A product with a constant: one input for each output, which gets its relevance."""
        inputs = image_dependent(args, kwargs)
        if len(inputs) > 1 or (not func.__name__.startswith("mul") and args[0] is not inputs[0]):
            return func(*args, **kwargs)  # stays in the graph as it is, where it is refused by name
        return self._passed(inputs[0], _value(func, args, kwargs))

    def _sum(self, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A sum or difference of two tensors, or of a tensor and a constant."""
        value = _value(func, args, kwargs)
        second = args[1] if len(args) > 1 else kwargs["other"]
        # a + αb, a − αb, b − αa
        factor, name = kwargs.get("alpha", 1), func.__name__.rstrip("_")
        signs = (-factor, 1) if "rsub" in name else (1, factor if name == "add" else -factor)
        terms = [(t, t.detach() * k) for t, k in zip((args[0], second), signs, strict=True) if image_dependent(t)]
        if len(terms) == 1:
            return self._shifted(*terms[0], value)

        def back(r: Tensor) -> tuple[Tensor, ...]:
            shared = self.rule.terms([term.expand_as(value) for _, term in terms], r)
            return tuple(s.sum_to_size(t.shape) for s, (t, _) in zip(shared, terms, strict=True))

        return with_backward(value, back, *(t for t, _ in terms))

    def _shifted(self, a: Tensor, term: Tensor, value: Tensor) -> Tensor:
        """`term`, which comes from `a`, plus a constant: a bias of its own under the epsilon rule alone."""
        if self.composite != "epsilon" or self._is_pixels(a):
            return self._passed(a, value)
        share = divided(term.expand_as(value), value, self.epsilon)
        return with_backward(value, lambda r: ((r * share).sum_to_size(a.shape),), a)

    def _passed(self, a: Tensor, value: Tensor) -> Tensor:
        """A function of each value of `a` alone: relevance passes unchanged."""

        def back(r: Tensor) -> tuple[Tensor]:
            return (r.sum_to_size(a.shape),)

        if self._is_pixels(a):
            self.steps.add(back)
        return with_backward(value, back, a)

    def _is_pixels(self, a: Tensor) -> bool:
        """Whether these are the image's pixels still, at most normalised and moved."""
        nodes = graph(a.grad_fn)
        return all(operation(node) in MOVES or getattr(node, "back", None) in self.steps for node in nodes)


def _value(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """What an operation returns, outside of the graph; in-place versions change a copy."""
    plain = [each.detach().clone() if isinstance(each, Tensor) else each for each in args]
    return func(*plain, **{k: v.detach() if isinstance(v, Tensor) else v for k, v in kwargs.items()})
