"""RISE: scores of randomly masked images, each credited to the pixels its mask kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadOption, NotApplicable
from uproar.estimators.class_scores import Score, blend, scores_of, scores_of_versions, sum_over_points, target_scores
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


# occlusion: how far the score falls when a window of the image is covered


Pixels = Annotated[int, Field(ge=1)]
Overlap = Literal["mean", "last"]
Window = tuple[slice, slice]


def _passes(window: int | None = None, stride: int | None = None, **_) -> float:
    # the image's size is not known here: a window is taken for an eighth of its side
    per_window = 2.0 if window is None or stride is None else window / stride
    return 0.5 * (1 + (8 * per_window + per_window - 1) ** 2)


@estimator(
    passes=_passes,
    channels=False,
    formula="mean over windows w on the pixel of f(x) − f(x without w)",
    paper="Zeiler and Fergus 2014",
    fails="sees nothing that is larger than the window or held in two places",
)
def occlusion(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    window: Pixels | None = None,
    stride: Pixels | None = None,
    fill: Baseline = "mean",
    score: Score = "probability",
    overlap: Overlap = "mean",
) -> RawMaps:
    """Fall of the target's probability when the window is covered, mean over the windows on the pixel.

    By default a window is an eighth of the shorter side, at least 2 pixels, and moves by half of itself. The
    first windows hang over the border, so that every pixel is in equally many of them (where `stride` divides
    `window`). `overlap="last"` keeps the last window's value instead, as released code does: then the value of a pixel
    speaks of the window to its lower right.
    """
    window, stride = _sizes(min(x.shape[2:]), window, stride)
    blank = baseline_image(x, fill, context)
    places = windows(x.shape[2], x.shape[3], window, stride)

    def covered(first: int, last: int) -> Tensor:
        inside = torch.zeros(last - first, 1, *x.shape[2:], dtype=torch.bool)
        for row, place in enumerate(places[first:last]):
            inside[(row, 0, *place)] = True
        return torch.where(inside.to(x.device), blank[:, None], x[:, None])

    whole = target_scores(model, x, target, score)[:, None]
    fall = whole - scores_of_versions(model, x, target, score, len(places), covered)
    return spread(fall, places, torch.zeros_like(x[:, 0], dtype=fall.dtype), overlap)[:, None].to(x)


def windows(h: int, w: int, window: int, stride: int) -> list[Window]:
    """All windows that touch the image, row by row; those at the border are cut off."""
    first = stride - window
    return [
        (slice(max(y, 0), min(y + window, h)), slice(max(z, 0), min(z + window, w)))
        for y in range(first, h, stride)
        for z in range(first, w, stride)
    ]


def spread(
    values: Float[Tensor, "n m"], places: Sequence[Window], total: Float[Tensor, "n h w"], overlap: Overlap
) -> Float[Tensor, "n h w"]:
    """One value per window laid on the pixels (of `total`, zeros), where windows overlap their mean or the last."""
    times = torch.zeros_like(total[0])
    for value, place in zip(values.unbind(1), places, strict=True):
        if overlap == "last":
            total[(slice(None), *place)] = value[:, None, None]
        else:
            total[(slice(None), *place)] += value[:, None, None]
            times[place] += 1
    return total if overlap == "last" else total / times


def _sizes(side: int, window: int | None, stride: int | None) -> tuple[int, int]:
    window = max(2, round(side / 8)) if window is None else window
    stride = max(1, window // 2) if stride is None else stride
    if stride > window:
        raise BadOption(
            f"occlusion: a stride of {stride} leaves gaps between windows of {window} pixels; "
            f"the stride must be at most the window."
        )
    if window > side:
        raise NotApplicable(f"a window of {window} pixels does not fit images of {side} pixels")
    return window, stride
