"""Gradients added up along other paths than the straight one: from blurred to sharp, and where gradients are small."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.estimators.class_scores import input_gradient, sum_over_points
from uproar.estimators.gradient import Baseline, Steps, baseline_image
from uproar.estimators.registry import Context, estimator
from uproar.types import Images, Labels, RawMaps


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

    def part(first: int, last: int) -> Tensor:
        points = torch.stack([blurred(x, (edges[i] + edges[i + 1]) / 2) for i in range(first, last)], 1)
        moves = torch.stack([blurred(x, edges[i + 1]) - blurred(x, edges[i]) for i in range(first, last)], 1)
        gradients = input_gradient(model, points.flatten(0, 1), target.repeat_interleave(last - first))
        return gradients.view_as(points) * moves

    return sum_over_points(part, steps, x)


def blurred(x: Images, sigma: float) -> Tensor:
    """Images under a Gaussian of this width and four widths of reach; outside they are black, as in released code."""
    if sigma <= 0:
        return x
    reach = max(1, int(4 * sigma + 0.5))
    places = torch.arange(-reach, reach + 1, device=x.device, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (places / sigma) ** 2)
    kernel = (kernel / kernel.sum()).to(x)
    n, c, h, w = x.shape
    flat = F.pad(x.reshape(n * c, 1, h, w), (reach, reach, reach, reach))
    # products and sums of whole rows: the same bits whatever the batch
    rows = sum(k * flat[:, :, i : i + h] for i, k in enumerate(kernel))
    return sum(k * rows[:, :, :, i : i + w] for i, k in enumerate(kernel)).view(n, c, h, w)
