"""RISE: scores of randomly masked images, each credited to the pixels its mask kept."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from uproar.estimators.class_scores import blend, scores_of, sum_over_points
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.registry import Context, estimator
from uproar.seeds import generator
from uproar.types import Images, Labels, RawMaps

Boundary = Literal["clamp", "mirror"]


@estimator(
    passes=lambda masks=1000, **_: masks / 2,
    channels=False,
    softmax=True,
    formula="Σ p_c(mask · x) · mask / (masks · p)",
    paper="Petsiuk et al. 2018",
    fails="noise of the drawn masks where the score hardly varies; falls with 1/√masks",
)
def rise(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    masks: Annotated[int, Field(ge=1, le=100_000)] = 1000,
    grid: Annotated[int, Field(ge=1)] | None = None,
    p: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    boundary: Boundary = "clamp",
    fill: Baseline = "mean",
) -> RawMaps:
    """Mean of the target's probability over random masks, weighted by how far each mask keeps the pixel.

    A mask is a grid of coin flips, 7×7 or with cells of 2 pixels on small images, enlarged bilinearly and
    shifted at random. All images get the same masks. The authors take 4000 to 8000 masks for 224-pixel images.
    """
    h, w = x.shape[2:]
    side = min(7, max(2, min(h, w) // 2)) if grid is None else grid
    bits, shifts = draw_masks(context.draws.seed, masks, side, p, h, w)
    blank = baseline_image(x, fill, context)

    def part(first: int, last: int) -> Tensor:
        kept = upsample_masks(bits[first:last], shifts[first:last], h, w, boundary).to(x)
        return weight_masks(model, x, target, blank, kept)

    return (sum_over_points(part, masks, x) / (masks * p)).to(x)


def draw_masks(
    seed: int, masks: int, side: int, p: float, h: int, w: int
) -> tuple[Float[Tensor, "m g g"], Int[Tensor, "m 2"]]:
    """Coin flips and shifts of all masks: small, so they are drawn at once, for all images the same."""
    source = generator(seed, "rise masks")
    bits = (torch.rand(masks, side, side, generator=source) < p).float()
    cells = torch.tensor([-(-h // side), -(-w // side)])
    shifts = (torch.rand(masks, 2, generator=source) * cells).long()
    return bits, shifts


def upsample_masks(
    bits: Float[Tensor, "m g g"], shifts: Int[Tensor, "m 2"], h: int, w: int, boundary: Boundary
) -> Float[Tensor, "m {h} {w}"]:
    """Masks in [0, 1]: the grids enlarged bilinearly to one cell more than the image, cut out at the shift.

    Beyond the outermost cell centres, `clamp` repeats the edge cell and `mirror` (the authors' choice) goes back to
    its neighbour.
    """
    for axis, length in ((1, h), (2, w)):
        low, high, share = _between(bits.shape[axis], length, shifts[:, axis - 1], boundary)
        shape = [len(bits), 1, 1]
        shape[axis] = length
        other = list(bits.shape)
        other[axis] = length
        below = bits.gather(axis, low.view(shape).expand(other))
        above = bits.gather(axis, high.view(shape).expand(other))
        bits = (1 - share.view(shape)) * below + share.view(shape) * above
    return bits


def _between(cells: int, length: int, shift: Int[Tensor, " m"], boundary: Boundary) -> tuple[Tensor, Tensor, Tensor]:
    """For each pixel of each cut-out: the cell centres before and after it, and how far it is between them."""
    size = (cells + 1) * -(-length // cells)
    pixel = shift[:, None] + torch.arange(length)
    place = (pixel.double() + 0.5) * (cells / size) - 0.5
    low = place.floor().long()
    share = (place - low).float()
    return _inside(low, cells, boundary), _inside(low + 1, cells, boundary), share


def _inside(cell: Tensor, cells: int, boundary: Boundary) -> Tensor:
    if boundary == "mirror" and cells > 1:
        cell = cell.abs()
        cell = torch.minimum(cell, 2 * (cells - 1) - cell)
    return cell.clamp(0, cells - 1)


def weight_masks(
    model: nn.Module, x: Images, target: Labels, blank: Images, kept: Float[Tensor, "m h w"]
) -> Float[Tensor, "n m 1 h w"]:
    """Each mask times the target's probability for the image seen through it."""
    seen = blend(x[:, None], blank[:, None], kept[None, :, None])
    return scores_of(model, seen, target, "probability")[:, :, None, None, None] * kept[None, :, None]
