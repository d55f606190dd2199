"""Extremal perturbations: the region of a given area that, seen alone, keeps the class score highest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from uproar.estimators.class_scores import class_scores
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.registry import Context, estimator
from uproar.estimators.transforms import gaussian_filter
from uproar.tensors import in_batches
from uproar.types import Images, Labels, RawMaps

Area = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
Ties = Literal["shared", "torch"]

LEVELS = 8
INVERSE_TEMPERATURE = 20
"""Inverse temperature of the smooth maximum that makes a mask of a grid of values."""
MOMENTUM = 0.9
WEIGHT, GROWTH = 300.0, 1.0035
BIN = 0.02
BUDGET = 2**18
"""Mask pixels optimised together: bounds memory, and what stays in the cache is faster."""


@estimator(
    passes=lambda areas=(0.05, 0.1, 0.2, 0.4), iterations=100, **_: len(areas) * iterations,
    needs="a differentiable model",
    channels=False,
    formula="Σ over areas a of argmax over masks of area a of f_c(x seen through the mask)",
    paper="Fong et al. 2019",
    fails="a local optimum per mask; pixels outside all masks are ties",
)
def extremal_perturbation(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    areas: Annotated[tuple[Area, ...], Field(min_length=1)] = (0.05, 0.1, 0.2, 0.4),
    iterations: Annotated[int, Field(ge=1, le=100_000)] = 100,
    rate: Positive = 0.1,
    perturbation: Literal["blur", "fade"] = "blur",
    blur: Positive | None = None,
    fill: Baseline = "mean",
    step: Annotated[int, Field(ge=1)] | None = None,
    sigma: Positive | None = None,
    area_of: Literal["image", "padded"] = "image",
    ties: Ties = "shared",
    flip: bool = False,
) -> RawMaps:
    """Smooth masks of several areas that keep the target's score highest, added up.

    A pixel's value is in how many areas' masks it is; nothing is smoothed afterwards. By default sizes are those of the
    authors' code for 224 pixels, scaled to the shorter side: `step` 7 (at least 1), `sigma` 21 (at least 1), `blur` 20
    (at least 2: less hardly changes a small image). Faded pixels, and those around a blurred image, are `fill`.

    The authors' code is `areas=[0.1], iterations=800, rate=0.01, area_of=padded, ties=torch, flip=true`. It takes the
    margin around the image for a part of its area, mirrors the image in every second iteration, which changes what a
    digit is, and leaves the order of equal mask values to the sort. At the start nearly all values are equal, so that
    this order decides where a mask shrinks, more than the score does. Here all values in a bin 0.02 wide share
    what is wanted of them; the scores reached are higher, and a larger `rate` gets there in fewer iterations.
    """
    h, w = x.shape[2:]
    search = Search(scaled_mesh(h, w, step, sigma), areas, iterations, rate, area_of == "image", ties, flip)
    depth = max(2.0, 20 * min(h, w) / 224) if blur is None else blur

    def some(x: Images, target: Labels, blank: Images) -> RawMaps:
        # what lies between nothing and all of the image is linear where it fades: two levels are exact
        levels = torch.stack([blank, x], 1) if perturbation == "fade" else blurred(x, blank, depth)
        return best_masks(model, levels, target, search).sum(1, keepdim=True)

    blank = baseline_image(x, fill, context)
    # a batch of one would be computed twice, see in_batches
    return in_batches(some, x, target, blank, size=max(2, BUDGET // (h * w * len(areas))))


def scaled_mesh(h: int, w: int, step: int | None, sigma: float | None) -> Mesh:
    """The mesh asked for, or one in proportion to the shorter side: step 7 and sigma 21 at 224 pixels."""
    side = min(h, w)
    step = max(1, round(side / 32)) if step is None else step
    return Mesh(h, w, step, float(max(1, round(3 * side / 32))) if sigma is None else sigma)


def blurred(x: Images, blank: Images, depth: float) -> Float[Tensor, "n l c h w"]:
    """The image at 8 levels, from blurred with a Gaussian `depth` pixels wide to sharp; around it is the blank."""
    levels = [x]
    for level in range(1, LEVELS):
        sigma = depth * level / (LEVELS - 1)
        levels.append(blank + gaussian_filter(x - blank, sigma, math.ceil(4 * sigma), "zero"))
    return torch.stack(levels[::-1], 1)


def blend_levels(levels: Float[Tensor, "n l c h w"], masks: Float[Tensor, "n a h w"]) -> Float[Tensor, "n a c h w"]:
    """Each pixel at the level its mask says, mixed of the two levels next to it: 0 is the first, 1 the last."""
    level = masks[:, :, None] * (levels.shape[1] - 1)
    low = level.detach().floor().clamp(0, levels.shape[1] - 2)
    share = level - low
    low = low.long().expand(-1, -1, levels.shape[2], -1, -1)
    below, above = levels.gather(1, low), levels.gather(1, low + 1)
    return below + share * (above - below)


@dataclass(frozen=True)
class Search:
    """Which masks are searched, and how."""

    mesh: Mesh
    areas: tuple[float, ...]
    iterations: int
    rate: float
    of_image: bool = True
    ties: Ties = "shared"
    flip: bool = False

    def misfit(self, padded: Float[Tensor, "m ph pw"]) -> Float[Tensor, " m"]:
        """Mean squared distance of each mask from the nearest one with only ones and zeros and the right area."""
        values = padded.flatten(1)
        size = values.shape[1]
        whole = self.mesh.h * self.mesh.w if self.of_image else size
        zeros = torch.tensor([[int(size - whole * area)] for area in self.areas]).to(values)
        zeros = zeros.repeat(len(values) // len(zeros), 1)
        if self.ties == "shared":
            return (values - shared_values(values.detach(), size - zeros)).square().mean(1)
        wanted = torch.arange(size).to(values) >= zeros
        return (values.sort(1).values - wanted.to(values)).square().mean(1)


def shared_values(values: Float[Tensor, "m f"], ones: Float[Tensor, "m 1"]) -> Float[Tensor, "m f"]:
    """1 for the largest values, as many as `ones` says, 0 for the others; values in one bin share their part."""
    number = (values / BIN).long().clamp(0, round(1 / BIN))
    counts = torch.zeros(len(values), round(1 / BIN) + 1).to(values)
    counts.scatter_add_(1, number, torch.ones_like(values))
    larger = counts.sum(1, keepdim=True) - counts.cumsum(1)
    share = ((ones - larger) / counts.clamp_min(1)).clamp(0, 1)
    return share.gather(1, number)


def best_masks(
    model: nn.Module, levels: Float[Tensor, "n l c h w"], target: Labels, search: Search
) -> Float[Tensor, "n a h w"]:
    """The masks that gradient ascent finds, for all images and areas at once but each on its own."""
    several = (len(levels), len(search.areas))
    target = target.repeat_interleave(several[1])
    values = torch.ones(len(target), *search.mesh.points).to(levels)
    speed, weight = values, WEIGHT
    for turn in range(search.iterations):
        with torch.enable_grad():
            values = values.detach().requires_grad_()
            padded = search.mesh.padded(values)
            masks = search.mesh.inside(padded).unflatten(0, several)
            seen = blend_levels(levels, masks).flatten(0, 1)
            seen = seen.flip(3) if search.flip and turn % 2 == 0 else seen
            score = class_scores(model, seen.contiguous(memory_format=torch.channels_last), target)
            (gradient,) = torch.autograd.grad((score - weight * search.misfit(padded)).sum(), values)
        # a mean of the gradients so far that forgets old ones; the first counts in full
        speed = gradient if turn == 0 else MOMENTUM * speed + (1 - MOMENTUM) * gradient
        values = (values.detach() + search.rate * speed).clamp(0, 1)
        weight *= GROWTH
    return masks.detach()


class Mesh:
    """Mask values `step` pixels apart, each of which is felt up to about `sigma` pixels away.

    Masks are made with a margin around the image, so that a blob at the border counts with its whole area.
    """

    def __init__(self, h: int, w: int, step: int, sigma: float) -> None:
        self.h, self.w, self.step, self.sigma = h, w, step, sigma
        # rows and columns of the grid
        self.points = -(-h // step), -(-w // step)
        # steps in the margin: whole ones, at least `sigma` long, or the mask could end before the image does
        self.extra = -int(-sigma // step)
        # how many steps away a value still counts
        self.reach = 1 + self.extra
        # the weight of each value nearby, for each pixel of a cell: 1 up to half of sigma, then a Gaussian's flank
        near = torch.arange(-self.reach, self.reach + 1)
        away = (torch.arange(step) - step * near[:, None]).square()
        distance = (away[:, None, :, None] + away[None, :, None, :]).sqrt() / sigma
        self.kernel = torch.exp(-2 * (distance - 0.5).clamp_min(0).square()).flatten(0, 1)

    def padded(self, values: Float[Tensor, "m a b"]) -> Float[Tensor, "m ph pw"]:
        """The masks of values in [0, 1], with their margin, which is longer above and left."""
        outside = self.reach + self.extra
        around = F.pad(values, (outside,) * 4)
        mask = _SmoothMaximum.apply(around, self.kernel.to(values), 2 * self.reach + 1)
        rows, columns = (self.step * count for count in mask.shape[3:])
        mask = mask.permute(0, 3, 1, 4, 2).reshape(len(values), rows, columns)
        return mask[:, : rows - self.step + 1, : columns - self.step + 1]

    def inside(self, padded: Float[Tensor, "m ph pw"]) -> Float[Tensor, "m h w"]:
        """The part of a mask that lies on the image."""
        margin = self.extra * self.step
        return padded[:, margin : margin + self.h, margin : margin + self.w]


class _SmoothMaximum(torch.autograd.Function):
    """Σ v·exp(20 v) / Σ exp(20 v) over the weighted values v in a window around each cell: (m, s, s, rows, columns).

    One value of the window is taken at a time, in both directions: all together would need as many times the memory,
    and be several times slower.
    """

    @staticmethod
    def forward(ctx: Any, around: Tensor, kernel: Tensor, window: int) -> Tensor:
        rows, columns = (size - window + 1 for size in around.shape[1:])
        top = around.new_zeros(len(around), *kernel.shape[1:], rows, columns)
        bottom = torch.zeros_like(top)
        for offset, weight in enumerate(kernel[:, :, :, None, None]):
            y, z = divmod(offset, window)
            value = around[:, None, None, y : y + rows, z : z + columns] * weight
            power = (value - 1).mul_(INVERSE_TEMPERATURE).exp_()
            bottom += power
            top += power.mul_(value)
        mask = top.div_(bottom)
        ctx.save_for_backward(around, kernel, mask, bottom)
        ctx.window = window
        return mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        around, kernel, mask, bottom = ctx.saved_tensors
        rows, columns = mask.shape[3:]
        out = torch.zeros_like(around)
        rest = 1 - INVERSE_TEMPERATURE * (mask - 1)
        gradient = (gradient / bottom).contiguous()
        for offset, weight in enumerate(kernel[:, :, :, None, None]):
            y, z = divmod(offset, ctx.window)
            value = around[:, None, None, y : y + rows, z : z + columns] * weight
            power = value.sub_(1).mul_(INVERSE_TEMPERATURE).exp()
            value.add_(rest).mul_(power).mul_(gradient).mul_(weight)
            out[:, y : y + rows, z : z + columns] += value.sum((1, 2))
        return out, None, None
