"""Gradients of the class score, and what is made of them along a path or through changed ReLUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators.class_scores import (
    Interception,
    class_scores,
    gradients,
    input_gradient,
    sum_over_points,
    tracked,
    with_backward,
)
from uproar.estimators.registry import Context, estimator
from uproar.estimators.transforms import gaussian_filter
from uproar.types import Images, Labels, RawMaps

Steps = Annotated[int, Field(ge=1, le=10_000)]
Rule = Literal["midpoint", "left", "right", "both-ends", "gauss-legendre"]
Baseline = Literal["black", "white", "mean", "image-mean"]


@estimator(
    passes=1,
    needs="a differentiable model",
    formula="∂f_c / ∂x",
    paper="Simonyan et al. 2014; Baehrens et al. 2010",
    fails="noisy; near zero where the score is saturated",
)
def grad(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """Gradient of the target class's score."""
    return input_gradient(model, x, target)


@estimator(
    passes=1,
    needs="a differentiable model",
    of="grad",
    formula="x · ∂f_c / ∂x",
    paper="Shrikumar et al. 2016",
    fails="black pixels never count, whatever they mean",
)
def grad_input(model: nn.Module, x: Images, target: Labels, base: RawMaps) -> RawMaps:
    """Gradient times the pixel's own value, in [0, 1]."""
    return base * x


@estimator(
    passes=lambda steps=25, **_: steps,
    needs="a differentiable model",
    formula="(x − x₀) · ∫₀¹ ∂f_c(x₀ + α(x − x₀)) / ∂x dα",
    paper="Sundararajan et al. 2017",
    fails="pixels that equal the baseline get nothing",
)
def ig(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    steps: Steps = 25,
    rule: Rule = "midpoint",
    baseline: Baseline = "black",
    inner: Literal["signed", "abs"] = "signed",
) -> RawMaps:
    """Integrated gradients: gradient averaged on the straight path from the baseline, times the difference.

    The sum over pixels approaches `score(x) - score(baseline)` as `steps` grows. `inner="abs"` averages the gradients'
    sizes instead, as the code released with the pitfalls study does; that sum means nothing.
    """
    start = baseline_image(x, baseline, context)
    alphas, weights = (column.to(x.device) for column in path_rule(rule, steps))

    def weighted(first: int, last: int) -> Tensor:
        alpha = alphas[first:last].view(1, -1, 1, 1, 1)
        points = start[:, None] + alpha * (x - start)[:, None]
        slopes = input_gradient(model, points.flatten(0, 1), target.repeat_interleave(last - first)).view_as(points)
        return (slopes.abs() if inner == "abs" else slopes) * weights[first:last].view_as(alpha)

    return (x - start) * sum_over_points(weighted, steps, x)


def path_rule(rule: Rule, steps: int) -> tuple[Tensor, Tensor]:
    """Where on the path the gradient is taken, and with which weight; the weights sum to 1.

    >>> path_rule("midpoint", 2)
    (tensor([0.2500, 0.7500]), tensor([0.5000, 0.5000]))
    """
    if rule == "gauss-legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return torch.from_numpy((nodes + 1) / 2).float(), torch.from_numpy(weights / 2).float()
    count = torch.arange(steps, dtype=torch.float64)
    alphas = {
        "midpoint": (count + 0.5) / steps,
        "left": count / steps,
        "right": (count + 1) / steps,
        "both-ends": count / max(1, steps - 1),
    }[rule]
    return alphas.float(), torch.full((steps,), 1 / steps)


def baseline_image(x: Images, baseline: Baseline, context: Context) -> Images:
    """Where a path starts: black, white, the training images' mean colour, or the image's own."""
    if baseline == "mean":
        return context.colour(x).expand_as(x)
    if baseline == "image-mean":
        return x.mean((2, 3), keepdim=True).expand_as(x)
    return torch.zeros_like(x) if baseline == "black" else torch.ones_like(x)


def _gradient_with(
    method: str, passed: Callable[[Tensor, Tensor], Tensor], model: nn.Module, x: Images, target: Labels
) -> Tensor:
    """The gradient where each ReLU lets `passed(gradient, output)` through; a model without any is refused.

    Modules, functional calls, in-place and shared ReLUs are all caught.
    """
    calls = 0

    def relu(_func: Callable, args: tuple, _kwargs: dict[str, Any]) -> Tensor:
        nonlocal calls
        calls += 1
        out = args[0].detach().clamp_min(0)
        return with_backward(out, lambda gradient: (passed(gradient, out),), args[0])

    images = tracked(x)
    with torch.enable_grad(), Interception(method, {"relu": relu}):
        total = class_scores(model, images, target).sum()
    if not calls:
        raise NotApplicable(f"{method} changes the ReLUs, and no ReLU was met in this model")
    return gradients(total, [images])[0].contiguous()


@estimator(
    passes=1,
    needs="ReLUs",
    formula="∂f_c / ∂x with max(gradient, 0) at every ReLU",
    paper="Springenberg et al. 2015",
    fails="close to an edge detector: it depends little on the class and the weights",
)
def guided_backprop(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """Gradient in which every ReLU stops negative gradients.

    A model without ReLUs is refused.
    """
    return _gradient_with("guided_backprop", lambda gradient, out: gradient.clamp_min(0) * (out > 0), model, x, target)


@estimator(
    passes=1,
    needs="ReLUs",
    formula="∂f_c / ∂x with ReLU(gradient) in place of every ReLU's derivative",
    paper="Zeiler and Fergus 2014",
    fails="depends little on the class and the weights; without max-pooling hardly on the image",
)
def deconv(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """Deconvolution: gradient in which every ReLU keeps the positive gradients and ignores its own input."""
    return _gradient_with("deconv", lambda gradient, _: gradient.clamp_min(0), model, x, target)


# gradients added up along other paths than the straight one: from blurred to sharp, and where gradients are small


@estimator(
    passes=lambda steps=25, **_: steps,
    needs="a differentiable model",
    formula="Σ over steps of gradient · Δx, where at each step only the features of smallest |gradient| move",
    paper="Kapishnikov et al. 2021",
    fails="pixels that equal the baseline get nothing; the path depends on the model",
)
def guided_ig(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    steps: Steps = 25,
    fraction: Annotated[float, Field(gt=0, le=1)] = 0.25,
    distance: Annotated[float, Field(ge=0, le=1)] = 0.02,
    baseline: Baseline = "black",
) -> RawMaps:
    """Guided integrated gradients: a path on which features with the smallest gradients go first.

    At each step the distance to the image (sum of absolute differences) falls by the same amount, carried by the
    `fraction` of all features whose gradients are smallest, then by the next ones. No feature may be more than
    `distance` (a share of the path) before or behind the straight path; `distance=0` is integrated gradients.
    """
    start = baseline_image(x, baseline, context)
    here, total = start.clone(), torch.zeros_like(x)
    whole = (x - start).abs().flatten(1).sum(1)
    for step in range(steps):
        gradient = input_gradient(model, here, target)
        low, high = max((step + 1) / steps - distance, 0), min((step + 1) / steps + distance, 1)
        goal = whole * (1 - (step + 1) / steps)
        new = _moved(here, x, start, gradient, goal, fraction, (low, high))
        total += gradient * (new - here)
        here = new
    return total


def _moved(
    here: Tensor, x: Images, start: Tensor, gradient: Tensor, goal: Tensor, fraction: float, bounds: tuple[float, float]
) -> Tensor:
    """The next point: features of smallest gradient go forward until the distance left is `goal`."""
    least, most = (start + bound * (x - start) for bound in bounds)
    behind = (here - start).abs() < (least - start).abs()
    here = torch.where(behind, least, here)
    for _ in range(int(2 / fraction) + 2):
        left = (most - here).abs().flatten(1)
        excess = (x - here).abs().flatten(1).sum(1) - goal
        open_ = left > 1e-12
        if not bool(((excess > 1e-9) & open_.any(1)).any()):
            break
        sizes = torch.where(open_, gradient.abs().flatten(1), torch.inf)
        limit = sizes.sort(1).values[:, int(fraction * (sizes.shape[1] - 1))]
        chosen = open_ & (sizes <= limit[:, None])
        room = (left * chosen).sum(1)
        share = (excess.clamp_min(0) / room.clamp_min(1e-30)).clamp_max(1) * (room > 0)
        step = share[:, None] * chosen
        here = here + step.view_as(here) * (most - here)
    return here


@estimator(
    passes=lambda steps=25, **_: steps,
    needs="a differentiable model",
    formula="−∫ ∂f_c / ∂x(α) · ∂x(α) / ∂α dα, x(α) = the image blurred with variance 2α",
    paper="Xu et al. 2020",
    fails="uniform areas get nothing, as blur does not change them, except at the border of the image",
)
def blur_ig(
    model: nn.Module,
    x: Images,
    target: Labels,
    *,
    steps: Steps = 25,
    sigma: Annotated[float, Field(gt=0)] | None = None,
) -> RawMaps:
    """Blur integrated gradients: the path from a blurred image to the sharp one, without a baseline colour.

    `sigma` is the largest blur in pixels, an eighth of the longer side where it is not given; it falls evenly.
    The sum over pixels approaches `score(x) - score(blurred x)`.
    """
    most = max(x.shape[2:]) / 8 if sigma is None else sigma
    edges = [most * (1 - i / steps) for i in range(steps + 1)]

    def contributions(first: int, last: int) -> Tensor:
        points = torch.stack([blurred(x, (edges[i] + edges[i + 1]) / 2) for i in range(first, last)], 1)
        moves = torch.stack([blurred(x, edges[i + 1]) - blurred(x, edges[i]) for i in range(first, last)], 1)
        slopes = input_gradient(model, points.flatten(0, 1), target.repeat_interleave(last - first))
        return slopes.view_as(points) * moves

    return sum_over_points(contributions, steps, x)


def blurred(x: Images, sigma: float) -> Tensor:
    """Images under a Gaussian of this width and four widths of reach; outside they are black, as in released code."""
    return gaussian_filter(x, sigma, max(1, int(4 * sigma + 0.5)), "zero") if sigma > 0 else x


# XRAI: regions of the image, ranked by the attribution on them.

SCALES = (25.0, 50.0, 75.0, 125.0, 250.0, 600.0)
"""How large regions get: the scales of the paper's code, as they come out for pixels from 0 to 255."""


@estimator(
    passes=lambda steps=25, **_: 2 * steps,
    needs="a differentiable model",
    channels=False,
    formula="mean on each region of ig over black and white baselines, regions of several sizes taken best first",
    paper="Kapishnikov et al. 2019",
    fails="as coarse as the regions, which are found by colour; one flat colour is one region",
)
def xrai(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    steps: Steps = 25,
    least: Annotated[int, Field(ge=1)] | None = None,
) -> RawMaps:
    """XRAI: the image cut into regions of several sizes, each region's attribution density as its value.

    Attribution is the sum over channels of integrated gradients, averaged over a black and a white baseline. Regions
    come from the graph-based method of Felzenszwalb and Huttenlocher (2004) at six scales; `least` is the smallest
    region in pixels (by default a 330th of the image, and 2 at least). Regions are taken in the order of the mean
    attribution of their pixels that are still free, which is what these pixels get.
    """
    maps = sum(ig(model, x, target, context, steps=steps, baseline=b) for b in ("black", "white"))
    attribution = (maps / 2).sum(1).double().cpu().numpy()
    smallest = max(2, x.shape[2] * x.shape[3] // 330) if least is None else least
    # smoothed a little, channels last, from 0 to 255
    smooth = blurred(F.pad(x, (4, 4, 4, 4), mode="replicate"), 0.8)[:, :, 4:-4, 4:-4]
    pixels = (smooth.double().cpu().numpy() * 255).transpose(0, 2, 3, 1)
    ranked = []
    for image, values in zip(pixels, attribution, strict=True):
        scales = [felzenszwalb(image, scale, smallest) for scale in SCALES]
        regions = [labels == number for labels in scales for number in np.unique(labels)]
        ranked.append(_ranked(regions, values))
    return torch.from_numpy(np.stack(ranked))[:, None].to(x)


def _ranked(masks: list[np.ndarray], values: np.ndarray) -> np.ndarray:
    """The regions taken by the mean of their free pixels' values, best first; the value of what each takes."""
    out, free = np.zeros_like(values), np.ones(values.shape, dtype=bool)
    waiting = list(masks)
    while waiting and free.any():
        waiting = [mask for mask in waiting if (mask & free).any()]
        gains = [values[mask & free].mean() for mask in waiting]
        best = int(np.argmax(gains))
        out[waiting[best] & free] = gains[best]
        free &= ~waiting.pop(best)
    return out


def felzenszwalb(image: np.ndarray, scale: float, least: int) -> np.ndarray:
    """Regions of an image (h, w, c) as numbers (h, w): neighbours join while their edge is weak for both regions.

    An edge's weight is the distance of the colours of two pixels, of eight neighbours each. From the weakest edge on,
    two regions join if the edge is at most the largest edge inside each, plus `scale` over its size. Regions smaller
    than `least` join a neighbour afterwards.
    """
    h, w = image.shape[:2]
    # pairs of neighbouring pixels, each pair once, and the distance of their colours
    number, flat = np.arange(h * w).reshape(h, w), image.reshape(h * w, -1)
    pairs = [
        (number[: h - dy, max(0, -dx) : w - max(0, dx)].ravel(), number[dy:, max(0, dx) : w + min(0, dx)].ravel())
        for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1))
    ]
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    weight = np.sqrt(((flat[first] - flat[second]) ** 2).sum(1))
    order = np.argsort(weight, kind="stable")
    edges = list(zip(first[order].tolist(), second[order].tolist(), weight[order].tolist(), strict=True))
    # regions are trees of pixels, with their size and their largest edge at the root
    parent, size, largest = list(range(h * w)), [1] * (h * w), [0.0] * (h * w)

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for join_small in (False, True):
        for i, j, cost in edges:
            a, b = root(i), root(j)
            if a == b:
                continue
            small = min(size[a], size[b]) < least
            weak = cost <= min(largest[a] + scale / size[a], largest[b] + scale / size[b])
            if small if join_small else weak:
                parent[b] = a
                size[a] += size[b]
                largest[a] = max(cost, largest[a], largest[b])
    return np.array([root(i) for i in range(h * w)]).reshape(h, w)
